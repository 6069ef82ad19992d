#!/bin/sh
# Plays the scenarios that are called smoke on real servers; each must come out as it says.
set -eu

usage() {
    cat <<'USAGE'
usage: REDLOCK_CHAOS=build/dev/tools/redlock-chaos check_smoke.sh process|docker DIRECTORY
Runs `redlock-chaos run smoke --quick`. If something does not come out as expected, the table says
what, and the report stays in DIRECTORY (which is made anew); else nothing does.
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
rm -rf "$2"
status=0
"$chaos" run smoke --quick --runtime "$1" --out "$2" </dev/null 2>"$2.log" || status=$?
if [ "$status" -eq 0 ]; then
    rm -rf "$2" "$2.log"
else
    tail -n 5 "$2.log" >&2
    echo "exit status $status; the report: $2/report.html, how it went: $2.log" >&2
fi
exit "$status"
