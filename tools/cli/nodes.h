/* Which primaries, and the password for them. */
#ifndef CLI_NODES_H
#define CLI_NODES_H

#include <stddef.h>

#include "redlock.h"

#define NODES_MAX_URI_LEN 1024
#define NODES_MAX_FILE_SIZE 65536
#define NODES_MAX_PASSWORD_LEN 1024
#define NODES_PROBLEM_LEN 512

/* Owns its strings, which may hold passwords: nodes_clear() wipes them. */
struct nodes {
    char *uris[REDLOCK_MAX_NODES];
    size_t count;
    size_t lines[REDLOCK_MAX_NODES]; /* of the file they come from; 0: another place */
    char *password;                  /* NULL: none */
};

void nodes_init(struct nodes *nodes);
void nodes_clear(struct nodes *nodes);

/*
 * Adds one endpoint, copied. `argument` is the word it came from, in argv: the user and password in
 * it are overwritten, so that ps(1) does not show them. Returns 0, or -1 and the reason.
 */
int nodes_add_argument(struct nodes *nodes, char *argument, char problem[NODES_PROBLEM_LEN]);

/* One endpoint a line; blank lines and what follows a # are left out. A file or a pipe. */
int nodes_add_file(struct nodes *nodes, const char *path, char problem[NODES_PROBLEM_LEN]);

/* Endpoints between blanks or commas, as in REDLOCK_NODES. */
int nodes_add_list(struct nodes *nodes, const char *list, char problem[NODES_PROBLEM_LEN]);

int nodes_set_password(struct nodes *nodes, const char *password, char problem[NODES_PROBLEM_LEN]);

/* All of them between blanks, "***" for what logs in: for people to copy. */
void nodes_show(const struct nodes *nodes, char *text, size_t size);

/* The first line of a file. */
int nodes_read_password(struct nodes *nodes, const char *path, char problem[NODES_PROBLEM_LEN]);

#endif
