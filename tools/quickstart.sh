#!/usr/bin/env bash
# From a fresh clone to a lock that survives the death of two primaries, and a report on what else
# it survives.
set -euo pipefail

usage() {
    cat <<'USAGE'
usage: tools/quickstart.sh [--keep] [--runtime auto|docker|process]
Installs what is missing to build, builds the library and its tools into build/release, brings up
five local primaries, and shows what a lock does while two of them die. Takes the primaries down
at the end (also on Ctrl-C), unless they were up before.
Last, the fault-injection harness plays four scenarios, in about a minute, on servers of its own
of the same kind; its report is build/quickstart-report/report.html.
  --keep      leave them up, and say how to use and stop them
  --runtime   what the primaries run in; see tools/primaries --help
Exit 0: all went as told. 1, 2, 3: the harness did not find what it should, see the report. 64:
usage. 69: something is missing; what to do is said.
USAGE
}

keep='' runtime=auto
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --keep) keep=1 ;;
    --runtime) [ $# -ge 2 ] || { usage >&2; exit 64; }; runtime=$2; shift ;;
    *) usage >&2; exit 64 ;;
    esac
    shift
done

cd "$(dirname "$0")/.."
redlock=build/release/tools/redlock
chaos=build/release/tools/redlock-chaos
report=build/quickstart-report
begun=$SECONDS

tell() { printf '\n%s\n' "$*"; }
show() { # show COMMAND...: type it, run it
    printf '  $ %s\n' "$(printed "$@")"
    "$@" 2>&1 | sed 's/^/    /'
}
printed() { # the command as one would type it, with plain "redlock" and "redlock-chaos"
    local word line=''
    for word; do
        case $word in
        "$redlock" | "$chaos") word=${word##*/} ;;
        *[!A-Za-z0-9_./:=-]*) word="'$word'" ;;
        esac
        line+="${line:+ }$word"
    done
    echo "$line"
}
acquire() { # acquire WORDS...: sets token
    printf '  $ %s\n' "$(printed "$redlock" acquire "$@")"
    token=$("$redlock" acquire "$@")
    printf '    %s\n' "$token"
}
quietly() { # quietly COMMAND...: its output only if it fails
    mkdir -p build
    if ! "$@" >build/quickstart.log 2>&1 </dev/null; then
        tail -n 30 build/quickstart.log
        echo "quickstart: '$*' failed; all of its output is in build/quickstart.log" >&2
        exit 69
    fi
}

tools/install-deps.sh --for build
echo "Building into build/release ..."
quietly cmake --preset release
quietly cmake --build --preset release

at_end='' # what is left to do, however this ends
finish() {
    local status=$?
    trap - EXIT INT TERM
    if [ "$at_end" = stop ]; then
        tools/primaries stop || :
    fi
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

tell "Five independent primaries:"
if tools/primaries nodes >/dev/null 2>&1; then
    keep=1 # somebody else's
else
    at_end=stop
fi
show tools/primaries start --no-init --runtime "$runtime"
REDLOCK_NODES=$(tools/primaries nodes)
export REDLOCK_NODES

if [ "$at_end" = stop ]; then
    tell "They are new and nobody has a lock on them. Marked once, they count at once, until one loses its data:"
    show "$redlock" init --no-leases-out
elif ! "$redlock" show; then
    echo "quickstart: too few of the primaries that were up before count now; see above, or begin anew:" >&2
    echo "  tools/primaries stop; tools/quickstart.sh" >&2
    exit 69
fi

tell "A lock for 30 seconds. Its token is the key to extend or release it:"
acquire --ttl 30s demo
first=$token

tell "Anybody may look who has it:"
show "$redlock" show demo

tell "Nobody else gets it (exit status 75 means busy):"
printf '  $ %s\n' "$(printed "$redlock" acquire demo)"
status=0
"$redlock" acquire demo >/dev/null 2>&1 || status=$?
printf '    exit status %s\n' "$status"
[ "$status" -eq 75 ] || { echo "quickstart: wanted 75" >&2; exit 70; }

tell "Two of the five primaries die. Three are still a majority, so locking goes on:"
show tools/primaries kill 2 4
acquire --ttl 30s demo2
show "$redlock" extend --ttl 20s demo2 "$token"
show "$redlock" release demo2 "$token"

tell "A command under a lock, renewed while it runs and released after it:"
# shellcheck disable=SC2016 # the command's own variable
show "$redlock" run demo2 -- sh -c 'echo "running under the lock as $REDLOCK_KEY"'

tell "The first lock was there all the time. Releasing it, and bringing the dead back:"
show "$redlock" release demo "$first"
show tools/primaries revive 2 4

kind=process
case $(tools/primaries status || :) in *' container '*) kind=docker ;; esac
if [ -n "$keep" ]; then
    at_end=
    tell "The primaries are still up. To go on with them:"
    echo "  export REDLOCK_NODES=\"\$(tools/primaries nodes)\""
    echo "  $redlock run mylock -- COMMAND..."
    echo "  tools/primaries stop"
fi

status=0
if [ -x "$chaos" ]; then
    tell "And when other things break? The harness plays four scenarios, on servers of its own. In the last two of
them it takes a protection away: there something has to go wrong, or it could not see that anything does."
    rm -rf "$report"
    set -- "$chaos" run --quick --runtime "$kind" --out "$report" \
        calm kill-minority empty-restart-noguard freeze-holder-blind
    printf '  $ %s\n' "$(printed "$@")"
    # Without what is said every second.
    "$@" 2>&1 </dev/null | { grep --line-buffered -vE '^[a-z-]+ +[0-9]+ s  ' || :; } | sed -u 's/^/    /' || status=$?
    tell "Done in $((SECONDS - begun)) s. What happened, to look at in a browser: $PWD/$report/report.html"
else
    tell "Done in $((SECONDS - begun)) s. (redlock-chaos is not built: that needs jansson.)"
fi
if [ "$status" -ne 0 ]; then
    tell "Not all came out as it should (see above); on a machine that is busy with other things, once more may help."
    exit "$status"
fi
