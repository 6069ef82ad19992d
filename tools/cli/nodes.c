/*
 * The list of primaries, from wherever it was given.
 *
 * An endpoint may carry a password. So no text made here, error messages included, ever repeats one
 * as it is: it names the option, the file and line, or the place in the list. Copies live on the
 * heap and are wiped when they are done with; the word in argv is overwritten as soon as it was
 * copied. Whether an endpoint makes sense is the library's to say.
 */
#include "nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char blanks[] = " \t\r\n\f\v";

void nodes_init(struct nodes *nodes)
{
    memset(nodes, 0, sizeof *nodes);
}

/* Written through volatile: the compiler must not leave out stores to memory that is freed next. */
static void wipe(char *text, size_t length)
{
    volatile char *at = text;

    while (length-- > 0)
        *at++ = '\0';
}

static void wipe_and_free(char *text)
{
    if (text)
        wipe(text, strlen(text));
    free(text);
}

void nodes_clear(struct nodes *nodes)
{
    for (size_t i = 0; i < nodes->count; i++)
        wipe_and_free(nodes->uris[i]);
    wipe_and_free(nodes->password);
    nodes_init(nodes);
}

static int add(struct nodes *nodes, const char *uri, size_t length, char problem[NODES_PROBLEM_LEN])
{
    char *copy;

    if (nodes->count == REDLOCK_MAX_NODES) {
        snprintf(problem, NODES_PROBLEM_LEN, "more than %d primaries", REDLOCK_MAX_NODES);
        return -1;
    }
    if (length == 0 || length > NODES_MAX_URI_LEN) {
        snprintf(problem, NODES_PROBLEM_LEN, "endpoint %zu is %s", nodes->count + 1,
                 length == 0 ? "empty" : "too long");
        return -1;
    }
    copy = strndup(uri, length);
    if (!copy) {
        snprintf(problem, NODES_PROBLEM_LEN, "out of memory");
        return -1;
    }
    nodes->uris[nodes->count++] = copy;
    return 0;
}

int nodes_add_argument(struct nodes *nodes, char *argument, char problem[NODES_PROBLEM_LEN])
{
    int rc = add(nodes, argument, strlen(argument), problem);
    char *at = strrchr(argument, '@');
    char *user = strstr(argument, "://");

    if (at) {
        user = user && user + 3 <= at ? user + 3 : argument;
        memset(user, '*', (size_t)(at - user));
    }
    return rc;
}

int nodes_add_list(struct nodes *nodes, const char *list, char problem[NODES_PROBLEM_LEN])
{
    static const char separators[] = " \t\r\n\f\v,";

    list += strspn(list, separators);
    while (*list) {
        size_t length = strcspn(list, separators);

        if (add(nodes, list, length, problem) != 0)
            return -1;
        list += length;
        list += strspn(list, separators);
    }
    return 0;
}

/* Opening must not wait: not for who writes to a named pipe, nor for a device. */
static FILE *open_file(const char *path, char problem[NODES_PROBLEM_LEN])
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    FILE *file = NULL;
    struct stat status;

    if (fd >= 0 && fstat(fd, &status) == 0 && !S_ISREG(status.st_mode) &&
        !S_ISFIFO(status.st_mode)) {
        snprintf(problem, NODES_PROBLEM_LEN, "%.300s: it is %s", path,
                 S_ISDIR(status.st_mode) ? "a directory, not a file" : "neither a file nor a pipe");
        close(fd);
        return NULL;
    }
    if (fd >= 0 && fcntl(fd, F_SETFL, 0) == 0)
        file = fdopen(fd, "r");
    if (!file) {
        snprintf(problem, NODES_PROBLEM_LEN, "%.300s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
    }
    return file;
}

/* The whole file with a NUL after it, to be wiped and freed; NULL and the reason on failure. */
static char *read_file(const char *path, size_t *size, char problem[NODES_PROBLEM_LEN])
{
    FILE *file = open_file(path, problem);
    char *text = NULL;

    if (!file)
        return NULL;
    text = malloc(NODES_MAX_FILE_SIZE + 2);
    if (!text) {
        snprintf(problem, NODES_PROBLEM_LEN, "%.300s: %s", path, strerror(errno));
        goto out;
    }
    setvbuf(file, NULL, _IONBF, 0); /* no second copy of a password in a buffer */
    *size = fread(text, 1, NODES_MAX_FILE_SIZE + 1, file);
    text[*size] = '\0';
    if (ferror(file) || *size > NODES_MAX_FILE_SIZE || strlen(text) != *size) {
        snprintf(problem, NODES_PROBLEM_LEN, "%.300s: %s", path,
                 ferror(file)                  ? "it cannot be read"
                 : *size > NODES_MAX_FILE_SIZE ? "it is too long"
                                               : "it has a NUL byte in it");
        wipe(text, *size);
        free(text);
        text = NULL;
    }
out:
    fclose(file);
    return text;
}

/* What some editors write before the first line. */
static char *skip_byte_order_mark(char *text)
{
    return strncmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text;
}

/* The one word of a line, ended by NUL; "" for none; NULL where there are more. A # begins a
 * comment only where a word could begin: it may stand in a password. */
static char *word_of_line(char *line)
{
    char *word = line + strspn(line, blanks);
    char *end = word + strcspn(word, blanks);
    char *rest = end + strspn(end, blanks);

    if (*rest && *rest != '#' && *word != '#')
        return NULL;
    *end = '\0';
    if (*word == '#')
        *word = '\0';
    return word;
}

int nodes_add_file(struct nodes *nodes, const char *path, char problem[NODES_PROBLEM_LEN])
{
    char reason[NODES_PROBLEM_LEN] = "more than one endpoint in a line";
    size_t size = 0, number = 0;
    char *text = read_file(path, &size, problem);
    char *line, *next, *word;
    int rc = text ? 0 : -1;

    for (line = text ? skip_byte_order_mark(text) : NULL; line && rc == 0; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        number++;
        word = word_of_line(line);
        if (!word)
            rc = -1;
        else if (*word)
            rc = add(nodes, word, strlen(word), reason);
        if (word && *word && rc == 0)
            nodes->lines[nodes->count - 1] = number;
        if (rc != 0)
            snprintf(problem, NODES_PROBLEM_LEN, "%.300s, line %zu: %.100s", path, number, reason);
    }
    if (text)
        wipe(text, size);
    free(text);
    return rc;
}

void nodes_show(const struct nodes *nodes, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < nodes->count && used < size; i++) {
        const char *uri = nodes->uris[i], *at = strrchr(uri, '@'), *host = strstr(uri, "://");
        int scheme = host ? (int)(host + 3 - uri) : 0;

        used += (size_t)snprintf(text + used, size - used, "%s%.*s%s", i > 0 ? " " : "",
                                 at ? scheme : 0, uri, at ? "***" : uri);
        if (at && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s", at);
    }
}

int nodes_set_password(struct nodes *nodes, const char *password, char problem[NODES_PROBLEM_LEN])
{
    char *copy;

    if (strlen(password) > NODES_MAX_PASSWORD_LEN) {
        snprintf(problem, NODES_PROBLEM_LEN, "the password is longer than %d bytes",
                 NODES_MAX_PASSWORD_LEN);
        return -1;
    }
    copy = strdup(password);
    if (!copy) {
        snprintf(problem, NODES_PROBLEM_LEN, "out of memory");
        return -1;
    }
    wipe_and_free(nodes->password);
    nodes->password = copy;
    return 0;
}

int nodes_read_password(struct nodes *nodes, const char *path, char problem[NODES_PROBLEM_LEN])
{
    size_t size = 0;
    char *text = read_file(path, &size, problem);
    char *line;
    int rc = -1;

    if (!text)
        return -1;
    line = skip_byte_order_mark(text);
    line[strcspn(line, "\r\n")] = '\0';
    if (*line == '\0')
        snprintf(problem, NODES_PROBLEM_LEN, "%.300s: its first line is empty", path);
    else
        rc = nodes_set_password(nodes, line, problem);
    wipe(text, size);
    free(text);
    return rc;
}
