/* redis://[user[:password]@]host[:port][/database]; the user's part ends at the last "@". */
#include "reroute.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SCHEME "redis://"
#define DEFAULT_PORT 6379

struct parts {
    size_t host, host_len; /* where it begins, without a port */
    size_t end;            /* of the port */
};

static struct parts take_apart(const char *uri)
{
    struct parts parts = {.host = strlen(SCHEME)};
    const char *colon;

    parts.end = parts.host + strcspn(uri + parts.host, "/");
    for (size_t i = parts.host; i < parts.end; i++)
        if (uri[i] == '@')
            parts.host = i + 1;
    colon = memchr(uri + parts.host, ':', parts.end - parts.host);
    parts.host_len = (colon != NULL ? (size_t)(colon - uri) : parts.end) - parts.host;
    return parts;
}

static bool is_here(const char *host, size_t len)
{
    return (len == 9 && strncmp(host, "127.0.0.1", len) == 0) ||
           (len == 9 && strncasecmp(host, "localhost", len) == 0);
}

int reroute_port(const char *uri, const char **why)
{
    struct parts parts;
    long port = DEFAULT_PORT;

    *why = NULL;
    if (strncmp(uri, "rediss:", 7) == 0)
        *why = "its connections are encrypted";
    else if (strncmp(uri, SCHEME, strlen(SCHEME)) != 0)
        *why = "it is not reached by TCP";
    if (*why != NULL)
        return 0;
    parts = take_apart(uri);
    if (!is_here(uri + parts.host, parts.host_len)) {
        *why = "it is not on 127.0.0.1";
        return 0;
    }
    if (parts.host + parts.host_len < parts.end)
        port = strtol(uri + parts.host + parts.host_len + 1, NULL, 10);
    if (port > 0 && port < 65536)
        return (int)port;
    *why = "its port is not one";
    return 0;
}

bool reroute_uri(const char *uri, int port, char *text, size_t size)
{
    struct parts parts = take_apart(uri);
    int len =
        snprintf(text, size, "%.*s127.0.0.1:%d%s", (int)parts.host, uri, port, uri + parts.end);

    return len >= 0 && (size_t)len < size;
}
