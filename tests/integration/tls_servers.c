/*
 * See tls_servers.h. A server is started with a plain port only and gets its TLS port by CONFIG
 * SET, so that a port somebody else was quicker to take is tried again without a new process.
 */
#include "tls_servers.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "servers.h"

enum {
    PORT_TRIES = 20,
    FILES_MAX = 32
};

static char directory[] = "/tmp/redlock-tls-XXXXXX";
static pid_t maker;

static struct {
    int port;
    char uri[64], uri_by_name[64];
} servers[SERVERS_MAX];
static const char *uris[SERVERS_MAX];

/* ---- certificates ------------------------------------------------------- */

static const char script[] =
    "exec >log 2>&1; set -eux\n"
    "ec='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'\n"
    "usual=subjectAltName=DNS:localhost,IP:127.0.0.1\n"
    "authority() {\n"
    "    openssl req -x509 $ec -keyout $1.key -out $1.crt -days 30 -subj \"/CN=$1 authority\"\n"
    "}\n"
    "sign() {\n" /* NAME AUTHORITY EXTENSION DAYS... */
    "    name=$1 by=$2\n"
    "    openssl req $ec -keyout $name.key -out $name.csr -subj /CN=$name\n"
    "    echo $3 >$name.ext\n"
    "    shift 3\n"
    "    openssl x509 -req -in $name.csr -CA $by.crt -CAkey $by.key -CAcreateserial \\\n"
    "        -extfile $name.ext -out $name.crt \"$@\"\n"
    "}\n"
    "authority ca\n"
    "authority stranger\n"
    "sign server ca $usual -days 30\n"
    "sign foreign stranger $usual -days 30\n"
    "sign other ca subjectAltName=DNS:other.example -days 30\n"
    "sign expired ca $usual -days -1 ||\n" /* which newer versions don't take */
    "    sign expired ca $usual -not_before 20200101000000Z -not_after 20200201000000Z\n"
    "openssl req -x509 $ec -keyout own.key -out own.crt -days 30 -subj /CN=own -addext $usual\n"
    "sign client ca extendedKeyUsage=clientAuth -days 30\n"
    "sign intruder stranger extendedKeyUsage=clientAuth -days 30\n"
    "openssl ec -in client.key -out locked.key -aes128 -passout pass:open-sesame\n"
    "openssl x509 -checkend 0 -in server.crt\n"
    "! openssl x509 -checkend 0 -in expired.crt\n";

static void remove_files(void)
{
    char command[64];

    if (maker != getpid()) /* a test's process, which ends before the others begin */
        return;
    (void)snprintf(command, sizeof command, "rm -rf %s", directory);
    (void)!system(command);
}

void tls_files_make(void)
{
    static char command[sizeof script + 64];

    if (mkdtemp(directory) == NULL) {
        fprintf(stderr, "no temporary directory\n");
        exit(EXIT_FAILURE);
    }
    maker = getpid();
    (void)atexit(remove_files);
    (void)snprintf(command, sizeof command, "cd %s\n%s", directory, script);
    if (system(command) != 0) {
        (void)snprintf(command, sizeof command, "cat %s/log >&2", directory);
        (void)!system(command);
        fprintf(stderr, "the openssl command makes no certificates\n");
        exit(EXIT_FAILURE);
    }
}

const char *tls_file(const char *name)
{
    static char paths[FILES_MAX][64];
    char path[64];
    int i = 0;

    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    while (paths[i][0] != '\0' && strcmp(paths[i], path) != 0)
        ck_assert_int_lt(++i, FILES_MAX);
    memcpy(paths[i], path, sizeof path);
    return paths[i];
}

/* ---- servers ------------------------------------------------------------ */

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        ck_abort_msg("no loopback port");
    (void)close(fd);
    return ntohs(address.sin_port);
}

void tls_servers_use(int i, const char *certificate, const char *ask)
{
    char crt[64], key[64];
    const char *reply;

    (void)snprintf(crt, sizeof crt, "%s/%s.crt", directory, certificate);
    (void)snprintf(key, sizeof key, "%s/%s.key", directory, certificate);
    reply =
        servers_command(i, "CONFIG", "SET", "tls-ca-cert-file", tls_file("ca.crt"), "tls-cert-file",
                        crt, "tls-key-file", key, "tls-auth-clients", ask, NULL);
    ck_assert_msg(strcmp(reply, "OK") == 0, "redis-server without TLS? %s", reply);
}

/* 0: the port cannot be had. */
static int listen_with_tls(int i, int port)
{
    char text[16];

    (void)snprintf(text, sizeof text, "%d", port);
    return strcmp(servers_command(i, "CONFIG", "SET", "tls-port", text, NULL), "OK") == 0;
}

static void listen_anywhere(int i)
{
    for (int try = 0; try < PORT_TRIES; try++) {
        int port = free_port();
        if (!listen_with_tls(i, port))
            continue;
        servers[i].port = port;
        (void)snprintf(servers[i].uri, sizeof servers[i].uri, "rediss://127.0.0.1:%d", port);
        (void)snprintf(servers[i].uri_by_name, sizeof servers[i].uri_by_name,
                       "rediss://localhost:%d", port);
        uris[i] = servers[i].uri;
        return;
    }
    ck_abort_msg("redis-server gets no TLS port");
}

void tls_servers_start(int n)
{
    servers_start(n);
    for (int i = 0; i < n; i++) {
        tls_servers_use(i, "server", "no");
        listen_anywhere(i);
    }
}

void tls_servers_revive(int i)
{
    servers_revive(i);
    tls_servers_use(i, "server", "no");
    AWAIT(listen_with_tls(i, servers[i].port));
}

const char *tls_uri(int i)
{
    return servers[i].uri;
}

const char *tls_uri_by_name(int i)
{
    return servers[i].uri_by_name;
}

const char *const *tls_uris(void)
{
    return uris;
}

const char *tls_uri_of(const char *uri)
{
    static char texts[8][80];
    static unsigned next;
    char *text = texts[next++ % 8];

    ck_assert_int_eq(strncmp(uri, "redis:", 6), 0);
    (void)snprintf(text, sizeof texts[0], "rediss:%s", uri + 6);
    return text;
}
