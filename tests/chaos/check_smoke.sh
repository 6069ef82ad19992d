#!/bin/sh
# Plays the scenarios that are called smoke on real servers; each must come out as it says.
set -eu

usage() {
    cat <<'USAGE'
usage: REDLOCK_CHAOS=build/dev/tools/redlock-chaos check_smoke.sh process|docker DIRECTORY
Runs `redlock-chaos run smoke --quick`. If something does not come out as expected, the table says
what, and the report stays in DIRECTORY (which is made anew); else nothing does. What is unavailable
and nothing worse gets two more tries, by itself: a small machine stalls now and then.
Exit 0: all as expected. 77: no Docker engine answers. Else as redlock-chaos.
USAGE
}

case ${1-} in
-h | --help) usage; exit 0 ;;
process | docker) ;;
*) usage >&2; exit 64 ;;
esac
[ $# -eq 2 ] || { usage >&2; exit 64; }
root=$(cd "$(dirname "$0")/../.." && pwd)
chaos=${REDLOCK_CHAOS:-$root/build/dev/tools/redlock-chaos}

if [ "$1" = docker ] && ! timeout 10 docker info >/dev/null 2>&1; then
    echo "skipped: no Docker engine answers"
    exit 77
fi
play() { # play SCENARIO...: sets status
    rm -rf "$directory"
    status=0
    "$chaos" run "$@" --quick --runtime "$runtime" --out "$directory" </dev/null 2>"$directory.log" ||
        status=$?
}
unavailable() { # of the last report, the scenarios
    sed -n 's/^unavailable  \([a-z-]*\),.*/\1/p' "$directory.table"
}
runtime=$1 directory=$2
play smoke >"$directory.table"
cat "$directory.table"
for _ in 2 3; do
    [ "$status" -eq 3 ] || break
    # shellcheck disable=SC2046 # names
    play $(unavailable) >"$directory.again"
    mv "$directory.again" "$directory.table"
    cat "$directory.table"
done
rm -f "$directory.table"
if [ "$status" -eq 0 ]; then
    rm -rf "$directory" "$directory.log"
else
    tail -n 5 "$directory.log" >&2
    echo "exit status $status; the report: $directory/report.html, how it went: $directory.log" >&2
fi
exit "$status"
