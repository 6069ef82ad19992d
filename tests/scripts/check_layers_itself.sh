#!/bin/sh
# A check that cannot fail is worse than none: plants violations in a copy of src/ and wants
# check_layers.sh to find each of them, and to accept what only looks like one.
set -eu

case ${1-} in
-h | --help)
    echo "usage: check_layers_itself.sh"
    echo "Tests check_layers.sh on planted violations. Exit 0: each was found."
    exit 0
    ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
root=${REDLOCK_SOURCE_DIR:-$(cd "$here/../.." && pwd)}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
cases=0

plant() { # plant MUST-SAY FILE LINE: LINE added at the end of a copy of src/FILE
    cases=$((cases + 1))
    rm -rf "$work/src"
    mkdir "$work/src"
    [ ! -f "$root/src/$2" ] || cp "$root/src/$2" "$work/src/$2"
    printf '%s\n' "$3" >>"$work/src/$2"
    if output=$("$here/check_layers.sh" "$work" 2>&1); then
        result=passed
    else
        result=$output
    fi
    case $result in
    *"$1"*) ;;
    *)
        failures=$((failures + 1))
        echo "planted in src/$2: $3"
        echo "  wanted: $1"
        echo "  got: $result"
        ;;
    esac
}

plant passed round.h '/* a clean copy */'
plant 'src/round.h: includes "lease.h"' round.h '#include "lease.h"'
plant 'src/round.c: includes "node.h"' round.c '  #  include "node.h"'
plant 'src/node.c: includes "engine.h"' node.c '#include "engine.h"'
plant 'src/options.c: includes "io.h"' options.c '#include "io.h"'
plant 'src/engine.c: includes "io.h"' engine.c '#include "io.h"'
plant 'src/util.c: unknown module' util.c 'int x;'
plant 'src/lease.c: includes <time.h>' lease.c '#include <time.h>'
plant 'src/engine.c: includes <sys/socket.h>' engine.c '#include <sys/socket.h>'
plant 'src/lease.c: includes <pthread.h>' lease.c '#include <pthread.h>'
plant 'src/round.c: includes <hiredis/hiredis.h>' round.c '#include <hiredis/hiredis.h>'
plant 'a system call' lease.c 'void f(void) { clock_gettime(0, 0); }'
plant 'a system call' client.c 'int f(void) { return poll(0, 0, 0); }'
plant 'a system call' node.c 'int f(void) { return /* why */ socket (1, 2, 3); }'
plant 'a banned call' io.c 'void f(char *a) { strcpy(a, "b"); }'
plant passed client_state.h '#include <pthread.h>'
plant passed io.c '#include <poll.h>'
plant passed lease.c '/* a socket() and #include "io.h" in prose */'
plant passed lease.c 'const char *s = "poll(";  // time(0)'
plant passed lease.c 'int f(struct x *x) { return x->poll(1) + my_time(2); }'

if [ "$failures" -gt 0 ]; then
    echo "check_layers_itself: $failures of $cases cases failed" >&2
    exit 1
fi
echo "check_layers_itself: $cases cases"
