/* See tree.h. Links are not followed and, not being expected, not copied. */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    OPEN_DIRECTORIES = 8
};

int tree_make(const char *path, mode_t mode)
{
    if (mkdir(path, mode) != 0 && errno != EEXIST)
        return -1;
    return chmod(path, mode);
}

/* ---- removing ----------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status;
    (void)type;
    (void)at;
    return remove(path) != 0 && errno != ENOENT ? -1 : 0;
}

static int remove_inner(const char *path, const struct stat *status, int type, struct FTW *at)
{
    return at->level == 0 ? 0 : remove_one(path, status, type, at);
}

int tree_remove(const char *path)
{
    int rc = nftw(path, remove_one, OPEN_DIRECTORIES, FTW_DEPTH | FTW_PHYS);

    return rc != 0 && errno == ENOENT ? 0 : rc;
}

int tree_empty(const char *path)
{
    return nftw(path, remove_inner, OPEN_DIRECTORIES, FTW_DEPTH | FTW_PHYS);
}

/* ---- files ------------------------------------------------------------------- */

static int write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno != EINTR)
            return -1;
        if (n > 0) {
            bytes += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

static int open_new(const char *path, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

    if (fd >= 0)
        (void)fchmod(fd, mode); /* whatever the umask */
    return fd;
}

static int close_written(int fd, int rc)
{
    int saved = errno;

    if (close(fd) != 0)
        return -1;
    errno = saved;
    return rc;
}

int tree_write(const char *path, mode_t mode, const char *text, size_t len)
{
    int fd = open_new(path, mode);

    return fd < 0 ? -1 : close_written(fd, write_all(fd, text, len));
}

static int copy_bytes(int from, int to)
{
    char bytes[65536];
    ssize_t n;

    while ((n = read(from, bytes, sizeof bytes)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || write_all(to, bytes, (size_t)n) != 0)
            return -1;
    }
    return 0;
}

int tree_copy_file(const char *from, const char *to, mode_t mode)
{
    int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), out, rc = -1;

    if (in < 0)
        return -1;
    out = open_new(to, mode);
    if (out >= 0)
        rc = close_written(out, copy_bytes(in, out));
    return close_written(in, rc);
}

/* ---- trees ------------------------------------------------------------------- */

static int copy_entry(const char *from, const char *to)
{
    struct stat status;
    int rc = 0;

    if (lstat(from, &status) != 0)
        return errno == ENOENT ? 0 : -1;
    if (S_ISDIR(status.st_mode)) {
        rc = tree_make(to, status.st_mode & 07777);
        if (rc == 0)
            rc = tree_copy(from, to);
    } else if (S_ISREG(status.st_mode)) {
        rc = tree_copy_file(from, to, status.st_mode & 07777);
    } else {
        return 0;
    }
    if (rc == 0 && geteuid() == 0)
        rc = lchown(to, status.st_uid, status.st_gid);
    return rc != 0 && errno == ENOENT ? 0 : rc;
}

int tree_copy(const char *from, const char *to)
{
    char source[PATH_MAX], target[PATH_MAX];
    struct dirent *entry;
    DIR *directory = opendir(from);
    int rc = 0;

    if (directory == NULL)
        return -1;
    while (rc == 0 && (entry = readdir(directory)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (snprintf(source, sizeof source, "%s/%s", from, entry->d_name) >= PATH_MAX ||
            snprintf(target, sizeof target, "%s/%s", to, entry->d_name) >= PATH_MAX) {
            errno = ENAMETOOLONG;
            rc = -1;
        } else {
            rc = copy_entry(source, target);
        }
    }
    (void)closedir(directory);
    return rc;
}
