/*
 * The pages of --help: one general, one a command. Each has what redlock(1) says in short and
 * examples to copy. Options that several commands share are one text, so that they cannot differ.
 */
#include "help.h"

static const char general_page[] =
    "Usage: redlock COMMAND [OPTION...] [KEY] ...\n"
    "Locks with a time limit, held on a majority of independent Redis or Valkey primaries.\n"
    "\n"
    "  redlock run KEY -- CMD [ARG...]  hold the lock while a command runs\n"
    "  redlock acquire KEY              take the lock, print its token, leave it to its ttl\n"
    "  redlock extend KEY TOKEN         give it a new ttl\n"
    "  redlock release KEY TOKEN        give it back\n"
    "  redlock show [KEY]               say who holds it, and which primaries' votes count\n"
    "  redlock init                     mark new primaries: once, before the first lock\n"
    "  redlock bench [WORK...]          measure it against the least that could do the same\n"
    "\n"
    "  redlock COMMAND --help           options and examples of a command\n"
    "  redlock --version                the library's version\n"
    "\n"
    "Which primaries, all of them, in one of these ways:\n"
    "  export REDLOCK_NODES=\"redis://redis-a redis://redis-b redis://redis-c\"\n"
    "  --node URI (once for each)       --nodes-file FILE (one a line)\n"
    "\n"
    "Exit status: run gives its command's, 128+n for a signal. Otherwise 0 done, 64 usage,\n"
    "69 no quorum, 70 internal, 73 lease expired or lost, 75 held by somebody else (-E changes\n"
    "it), 78 primaries misconfigured, 126 and 127 as in the shell. show KEY: 0 held, 1 free,\n"
    "69 unknown. show: 0 enough primaries count, 69 too few, 78. bench: 130 by Ctrl-C.\n";

static const char run_page[] =
    "Usage: redlock run [OPTION...] KEY [--] CMD [ARG...]\n"
    "Runs CMD while the lock KEY is held. Waits for the lock, renews it, gives it back when CMD\n"
    "has ended. Where it cannot be kept, CMD and what it started are ended before it runs out.\n"
    "\n"
    "  redlock run nightly-report -- ./report.sh\n"
    "  redlock run -n -E 0 cleanup -- ./cleanup.sh    nothing to do if another host does it\n"
    "  redlock run --ttl 30s --max-hold 1h import -- ./import --all\n"
    "  redlock run maintenance -- bash                a shell that holds the lock\n"
    "\n"
    "  -w, --wait DUR          wait at most DUR for the lock; forever is the default\n"
    "  -n, --nonblock          the same as --wait 0: one attempt\n"
    "  -E, --conflict-exit-code N   exit status if it is held by somebody else: 75\n"
    "      --ttl DUR           how long the primaries keep it without renewal: 10s\n"
    "      --grace DUR         TERM comes this long before the lease ends: a fifth of the ttl\n"
    "      --max-hold DUR      end CMD when the lock was held this long\n"
    "      --fence             CMD finds a number in REDLOCK_FENCE that is larger than that of\n"
    "                          every holder before: the guarded resource is to refuse smaller "
    "ones\n";

static const char acquire_page[] =
    "Usage: redlock acquire [OPTION...] KEY\n"
    "Takes the lock KEY and prints its token. Nothing renews it: it ends with its ttl, unless\n"
    "extend or release is given the token before.\n"
    "\n"
    "  token=$(redlock acquire --ttl 30s deploy) || exit\n"
    "  ...\n"
    "  redlock release deploy \"$token\"\n"
    "\n"
    "  { read -r token && read -r fence; } <<EOF\n"
    "  $(redlock acquire --fence deploy)\n"
    "  EOF\n"
    "\n"
    "  -w, --wait DUR          wait at most DUR for the lock, or forever: 0, one attempt\n"
    "  -n, --nonblock          the same as --wait 0\n"
    "  -E, --conflict-exit-code N   exit status if it is held by somebody else: 75\n"
    "      --ttl DUR           how long the primaries keep it: 10s\n"
    "      --fence             print a second line: a number larger than that of every holder\n"
    "                          before, for the guarded resource to refuse smaller ones\n";

static const char extend_page[] =
    "Usage: redlock extend [OPTION...] KEY TOKEN\n"
    "Gives the lock a new ttl, from now on, and prints its token: use that one from then on.\n"
    "A lock that ran out is not taken back.\n"
    "\n"
    "  token=$(redlock extend --ttl 30s deploy \"$token\") || exit\n"
    "\n"
    "      --ttl DUR           how long the primaries keep it from now on: 10s\n";

static const char release_page[] = "Usage: redlock release [OPTION...] KEY TOKEN\n"
                                   "Gives the lock back. Another owner's lock is never touched.\n"
                                   "\n"
                                   "  redlock release deploy \"$token\"\n"
                                   "\n";

static const char show_page[] =
    "Usage: redlock show [OPTION...] [KEY]\n"
    "Says who holds the lock KEY, on which primaries, and for how long still, and of each primary\n"
    "whether its vote counts and how its clock runs. Exit status with KEY: 0 held, 1 free,\n"
    "69 too few primaries answered. Without: 0 enough primaries count, 69 too few, 78 they do\n"
    "not fit together.\n"
    "\n"
    "  redlock show\n"
    "  redlock show deploy\n"
    "  while redlock show -q deploy; do sleep 1; done\n"
    "  redlock show --sample 15s       measures also how fast their clocks run\n"
    "\n"
    "      --sample DUR        look at their clocks for that long, holding a lock of its own\n";

static const char init_page[] =
    "Usage: redlock init [OPTION...] [--replace N [URI]]\n"
    "Marks the primaries as belonging together, once, before the first lock. What --max-ttl and\n"
    "--quorum say is then what all clients use. Repeating it changes nothing. A marked primary\n"
    "counts at once for every client, until it restarts without its data. All primaries have to\n"
    "be up. Exit status: 0 done, 69 one is not reachable or refuses, 78 they do not fit together.\n"
    "\n"
    "  redlock init --no-leases-out    new primaries, or all clients have been stopped for long\n"
    "  redlock init                    watches them first for longer than any lease lasts\n"
    "  redlock init --replace 3 redis://redis-f    in the place of the third of the list\n"
    "\n"
    "      --no-leases-out     you promise that nobody holds a lock: no watching\n"
    "      --replace N         the N-th is new; with URI it takes the place of the N-th, which is\n"
    "                          retired if it can be reached\n"
    "      --fence-base        primaries that forgot their fencing numbers, where too few others\n"
    "                          know them, go on from the time of day: you promise that no clock\n"
    "                          was set back since the last lock with --fence\n";

static const char bench_page[] =
    "Usage: redlock bench [OPTION...] [WORK...]\n"
    "Measures the library in turns with a floor: raw sockets that send the same commands to the\n"
    "same primaries, so that each figure is also a ratio. Without primaries it starts servers of\n"
    "its own on this machine, and ends them. Without WORK it does them all, which takes minutes.\n"
    "\n"
    "  redlock bench cycle threads\n"
    "  redlock bench --compare         five primaries against one\n"
    "  redlock bench --json > figures.json\n"
    "\n"
    "      --list              name the works\n"
    "      --rounds N          of which medians are taken: 5\n"
    "      --seconds DUR       of each side in each round: 1s\n"
    "      --leases N          how many the work \"held\" holds: 10000\n"
    "      --workers N         the size of a crowd, 2 to 1000: 16, which limits are for\n"
    "      --compare           all primaries against the first alone\n"
    "      --check             exit with 1 if a limit was missed\n"
    "      --node URI          a primary, once for each: redis:// or unix://, on no account one\n"
    "                          that is in use\n"
    "      --nodes-file FILE   one URI a line, # begins a comment\n"
    "      --password-file FILE   its first line logs in where a URI has no password\n"
    "      --json              one JSON object\n"
    "  -q, --quiet             no progress and no reasons; -v, --verbose\n"
    "  -h, --help              -V, --version\n"
    "\n"
    "DUR is a number and ms, s, m or h: 500ms, 1.5s. REDLOCK_NODES and REDLOCK_PASSWORD are\n"
    "used where no option says otherwise.\n";

static const char guard_page[] =
    "      --restart-guard DUR how long a primary that may have forgotten a lease does not count:\n"
    "                          max-ttl, drift and 1s. 0: never, and it can vote twice\n";

static const char replicas_page[] =
    "      --replicas N        with a single primary: N of its replicas must have it, too\n"
    "      --replica-timeout DUR   and say so within: 100ms\n";

static const char common_page[] =
    "      --node URI          a primary, once for each: "
    "redis://[user[:password]@]host[:port][/db],\n"
    "                          rediss:// with TLS, unix:///path[?db=n]; IPv6 in brackets\n"
    "      --nodes-file FILE   one URI a line, # begins a comment\n"
    "      --password-file FILE   its first line logs in where a URI has no password\n"
    "      --cacert FILE       authorities that rediss:// primaries may have: the system's\n"
    "      --cert FILE, --key-file FILE   our own certificate for them, and its key\n"
    "      --sni NAME          the name in their certificates: the host of the URI\n"
    "      --prefix TEXT       put before KEY on the primaries\n"
    "      --quorum N          more than a majority must agree: as marked by init\n"
    "      --node-timeout DUR  for one answer: a twentieth of the ttl, 20ms to 500ms\n"
    "      --connect-timeout DUR   for name, connection and greeting: 1s\n"
    "      --drift-ppm N       allowance for clocks that run at different rates: 10000\n"
    "      --max-ttl DUR       refuse a longer ttl: as marked by init, else 1m\n"
    "      --json              one JSON object a line (run: on standard error)\n"
    "  -q, --quiet             say nothing; -v, --verbose: say more, twice: everything\n"
    "  -h, --help              -V, --version\n"
    "\n"
    "DUR is a number and ms, s, m or h: 500ms, 1.5s. REDLOCK_NODES and REDLOCK_PASSWORD are\n"
    "used where no option says otherwise.\n";

void help_print(FILE *stream, enum cli_command command)
{
    const char *page = general_page;

    switch (command) {
    case COMMAND_RUN:
        page = run_page;
        break;
    case COMMAND_ACQUIRE:
        page = acquire_page;
        break;
    case COMMAND_EXTEND:
        page = extend_page;
        break;
    case COMMAND_RELEASE:
        page = release_page;
        break;
    case COMMAND_SHOW:
        page = show_page;
        break;
    case COMMAND_INIT:
        page = init_page;
        break;
    case COMMAND_BENCH:
        page = bench_page;
        break;
    case COMMAND_NONE:
    case COMMAND_ALL:
        break;
    }
    fputs(page, stream);
    if (page == general_page || page == bench_page)
        return;
    if (command != COMMAND_INIT)
        fputs(guard_page, stream), fputs(replicas_page, stream);
    fputs(common_page, stream);
}
