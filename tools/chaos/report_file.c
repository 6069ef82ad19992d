/* See report_file.h. */
#include "report_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BUFFER = 256 * 1024
};

static int error_or(int otherwise)
{
    return errno != 0 ? errno : otherwise;
}

static int write_stream(int fd, report_writer *writer, const void *context)
{
    FILE *stream = fdopen(fd, "w");
    int error;

    if (stream == NULL) {
        error = errno;
        (void)close(fd);
        return error;
    }
    (void)setvbuf(stream, NULL, _IOFBF, BUFFER);
    errno = 0;
    error = writer(context, stream);
    if (error == 0 && (fflush(stream) != 0 || ferror(stream) != 0))
        error = error_or(EIO);
    if (error == 0 && fsync(fd) != 0)
        error = errno;
    errno = 0;
    if (fclose(stream) != 0 && error == 0)
        error = error_or(EIO);
    return error;
}

/* As if it had been made by open(): the umask decides who may read it. */
static int readable_mode(int fd)
{
    mode_t mask = umask(0);

    (void)umask(mask);
    return fchmod(fd, 0666 & ~mask);
}

int report_file(const char *path, report_writer *writer, const void *context)
{
    size_t size = strlen(path) + sizeof ".XXXXXX";
    char *beside = malloc(size);
    int fd, error;

    if (beside == NULL)
        return ENOMEM;
    (void)snprintf(beside, size, "%s.XXXXXX", path);
    fd = mkostemp(beside, O_CLOEXEC);
    if (fd < 0) {
        error = errno;
        free(beside);
        return error;
    }
    (void)readable_mode(fd);
    error = write_stream(fd, writer, context);
    if (error == 0 && rename(beside, path) != 0)
        error = errno;
    if (error != 0)
        (void)unlink(beside);
    free(beside);
    return error;
}
