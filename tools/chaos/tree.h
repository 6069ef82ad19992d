/* Directories as a whole. 0, or -1 with errno. */
#ifndef CHAOS_TREE_H
#define CHAOS_TREE_H

#include <stddef.h>
#include <sys/types.h>

/* Makes it with this mode, whatever the umask; fine if it is there. */
int tree_make(const char *path, mode_t mode);
/* With all that is in it; fine if it isn't there. */
int tree_remove(const char *path);
/* What is in it. */
int tree_empty(const char *path);
/* What is in `from`, into `to`, which is there and empty: modes too and, for root, owners. What
 * vanishes while it is being copied is left out. */
int tree_copy(const char *from, const char *to);

/* A file in one go, instead of what was there. */
int tree_write(const char *path, mode_t mode, const char *text, size_t len);
int tree_copy_file(const char *from, const char *to, mode_t mode);

#endif
