#!/bin/sh
# Guards the borders inside src/: who includes whom, which system headers a file may see, which
# functions it may call. The tables below are the rule; docs/design.md tells the reasons.
# shellcheck disable=SC2013,SC2086 # lists of words without blanks, split on purpose
set -eu

case ${1-} in
-h | --help)
    cat <<'USAGE'
usage: check_layers.sh [SOURCE-DIR]
Checks the includes and calls of SOURCE-DIR/src/*.[ch] (default: the tree this script is in).
Exit 0: all in order. 1: a rule is broken; each line says where, what, and which table to look at.
USAGE
    exit 0
    ;;
esac
root=${1:-${REDLOCK_SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}}

# Our own headers: module, then what it may include besides its own header and redlock.h.
# The order is the order of dependence: nothing names what stands below it, except that
# engine.c, init.c and what drives side links name engine_state, the private half of engine.h, and
# node.c names node_state, lease.c names hold and pause, and record.c names lease.
layers='
error
validity
random
marker
fence         validity
command       fence marker
answer        command fence
scripts       command fence
round         validity
pool
timers        validity
grant         validity command timers
record        validity lease
lease         validity command fence round grant hold pause record timers
hold          validity lease
pause         validity random lease
queue         validity lease pool
inspection    validity command
clock         validity
facts         command clock fence marker
replies
ring          validity command
reading       command replies ring
node          validity random command facts ring node_state
node_state    node reading replies ring
greeting      node_state
node_output   node_state
member        validity clock facts marker
side          validity node engine_state
wake          validity random pause command queue side engine_state
replicas      validity command side engine_state
fleet         validity member
init          validity engine_state
engine        validity pause command round grant lease queue inspection init node side engine_state
engine_state  validity engine init member pool queue replicas side timers wake
calls         validity engine_state
serve         validity engine_state
native        validity engine_state
fenced        validity engine_state
news          validity pause engine_state
pace          validity engine_state
probe         validity pause engine_state
watch         validity engine_state
endpoint
tls_options   endpoint
tls           endpoint tls_options
tls_none      tls
options       validity endpoint tls_options
system
resolver      validity endpoint system
io            validity command node engine options system io_state
io_state      io resolver tls
io_link       validity io_state
io_watch      validity io_state
client_state  engine io options pool
drive         validity client_state
cancel        client_state
handle        client_state
lock          validity client_state
client        validity client_state
'

# System headers every file may see: no clock, no socket, no thread, no entropy in them.
pure='assert ctype errno inttypes limits stdalign stdarg stdbool stddef stdint stdio stdlib string'
# What single modules may see on top; the border may see everything.
extra='
replies   hiredis/hiredis.h
answer    hiredis/hiredis.h
tls       openssl/err.h openssl/ssl.h openssl/x509v3.h
facts     hiredis/hiredis.h
client_state pthread.h stdatomic.h
'

# The border to the operating system.
border='io io_state io_link io_watch resolver system'
# Calls into the operating system: there only.
system_calls='accept4? bind clock_(gettime|getres|nanosleep) close connect epoll_[a-z0-9_]+ eventfd fork
    fcntl getaddrinfo getentropy getpid getrandom gettimeofday ioctl kevent kqueue listen madvise mmap munmap
    nanosleep open pipe2? poll ppoll pthread_atfork read readv recv recvfrom recvmsg select send sendmsg sendto
    setsockopt getsockopt shutdown sleep socket socketpair time usleep write writev'
# Calls nobody may make: unbounded, not thread safe, or hidden state.
banned_calls='alloca atof atoi atol getenv gets localtime gmtime rand random setenv sprintf srand strcat strcpy
    strerror strtok vsprintf abort exit'

failures=0
fail() {
    echo "$*"
    failures=$((failures + 1))
}

# Source text without comments, string and character literals; line numbers stay right.
code_of() {
    awk '
    {
        line = $0; out = ""
        while (line != "") {
            if (in_comment) {
                at = index(line, "*/")
                if (!at) { line = ""; break }
                line = substr(line, at + 2); in_comment = 0
                out = out " "
            } else if (match(line, /\/\*|\/\/|"([^"\\]|\\.)*"|\047([^\047\\]|\\.)*\047/)) {
                found = substr(line, RSTART, RLENGTH)
                out = out substr(line, 1, RSTART - 1)
                line = substr(line, RSTART + RLENGTH)
                if (found == "/*") in_comment = 1
                else if (found == "//") line = ""
                else out = out (out ~ /^[ \t]*#[ \t]*include[ \t]*$/ ? found : "\"\"")
            } else { out = out line; line = "" }
        }
        print out
    }' "$1"
}

table() { # table NAME MODULE: the words of MODULE in that table; fails if it is not in it
    printf '%s\n' "$1" | awk -v module="$2" '$1 == module { $1 = ""; print; found = 1 } END { exit !found }'
}

has() { # has WORD LIST...
    wanted=$1
    shift
    for word; do [ "$word" != "$wanted" ] || return 0; done
    return 1
}

calls() { # calls FILE NAMES...: lines of the code that call one of NAMES, "number:text"
    code=$1
    shift
    names=$(echo "$@" | tr -s ' ' '|')
    grep -nE "(^|[^A-Za-z0-9_>.])($names)[[:space:]]*\(" "$code" || :
}

code=$(mktemp)
trap 'rm -f "$code"' EXIT

found=0
for file in "$root"/src/*.[ch]; do
    [ -e "$file" ] || continue
    found=$((found + 1))
    name=${file##*/}
    module=${name%.[ch]}
    if ! allowed=$(table "$layers" "$module"); then
        fail "src/$name: unknown module; give it a line in 'layers' of tests/scripts/check_layers.sh"
        continue
    fi
    more=$(table "$extra" "$module" || :)
    code_of "$file" >"$code"

    for header in $(sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"([^"]*)".*/\1/p' "$code"); do
        [ "$header" = "$module.h" ] || [ "$header" = redlock.h ] || has "${header%.h}" $allowed ||
            fail "src/$name: includes \"$header\"; $module may include only: redlock.h$allowed (table 'layers')"
    done
    for line in $(calls "$code" $banned_calls | cut -d: -f1); do
        fail "src/$name:$line: a banned call:$(sed -n "${line}p" "$code")"
    done
    has "$module" $border && continue

    for header in $(sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*<([^>]*)>.*/\1/p' "$code"); do
        [ "$header" = redlock.h ] || has "${header%.h}" $pure || has "$header" $more ||
            fail "src/$name: includes <$header>; only io.c, resolver.c and system.c meet the operating system (tables 'pure', 'extra')"
    done
    for line in $(calls "$code" $system_calls | cut -d: -f1); do
        fail "src/$name:$line: a system call; only io.c, resolver.c and system.c make them:$(sed -n "${line}p" "$code")"
    done
done

[ "$found" -gt 0 ] || fail "$root/src holds no C file; is that the right directory?"
if [ "$failures" -gt 0 ]; then
    echo "check_layers: $failures broken" >&2
    exit 1
fi
echo "check_layers: $found files in order"
