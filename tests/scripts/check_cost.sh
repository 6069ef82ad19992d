#!/usr/bin/env bash
# What a lock costs, in instructions: callgrind counts what one thread executes for an acquire and a
# release over a network that costs nothing (tests/cost), so the figure is the same each time. And
# in system calls. "loop" is an event loop with locks in flight, for one of them. Limits are what was
# reached plus a tenth, for other compilers and processors; whoever lowers a figure lowers its limit.
set -euo pipefail

case ${1-} in
-h | --help)
    echo "usage: check_cost.sh"
    echo "Counts instructions and system calls of acquire and release. Exit 0: within the limits."
    echo "77: no valgrind, or not built. Needs redis-server."
    exit 0
    ;;
esac
root=${REDLOCK_SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${REDLOCK_BUILD_DIR:-$root/build/dev}
work=$(mktemp -d)
export REDLOCK_CLI=$build/tools/redlock

if ! command -v valgrind >/dev/null || [ ! -x "$build/tests/redlock_cost" ] ||
    ! command -v redis-server >/dev/null; then
    echo "check_cost: skipped: needs valgrind, redis-server and tests/redlock_cost"
    exit 77
fi
primaries() { "$root/tools/primaries" "$@" --dir "$work/state" >"$work/out" 2>&1; }
finish() {
    local status=$?
    [ "$status" -eq 0 ] || cat "$work"/*.txt "$work/out" 2>/dev/null || :
    primaries stop || :
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT

for _ in 1 2 3 4 5; do
    port=$((20000 + RANDOM % 10000))
    primaries start --runtime process --port "$port" && break
done
read -ra nodes <<<"$("$root/tools/primaries" nodes --dir "$work/state")"

measure() { # measure KIND: sets instructions and calls, of one cycle
    local text=$work/$1.txt cycles
    valgrind --tool=callgrind --toggle-collect=measured --callgrind-out-file="$work/$1.out" \
        "$build/tests/redlock_cost" "$1" "${nodes[@]}" >"$text" 2>&1
    cycles=$(awk '/^cycles/ { print $2 }' "$text")
    # What the network did in place of system calls is not the library's.
    instructions=$(callgrind_annotate --inclusive=yes --threshold=100 "$work/$1.out" |
        awk -v cycles="$cycles" '{ gsub(/,/, "", $1) }
             /PROGRAM TOTALS/ { all = $1 }
             match($0, /:__wrap_(send|recv|ppoll)/) { net[substr($0, RSTART, RLENGTH)] = $1 }
             END { for (name in net) all -= net[name]; printf "%d", all / cycles }')
    calls=$(awk '/^(sends|receives|polls)/ { n += $2 } END { printf "%d", n + 0.5 }' "$text")
}
failed=0
check() { # check KIND LIMIT CALLS
    measure "$1"
    echo "check_cost: $1: $instructions instructions (at most $2), $calls system calls (at most $3)"
    [ "$instructions" -gt 1000 ] && [ "$instructions" -le "$2" ] && [ "$calls" -le "$3" ] || failed=1
}

check unguarded 8600 24
unguarded=$instructions
check plain 8600 24
if [ $((instructions * 100)) -gt $((unguarded * 103)) ]; then
    echo "check_cost: guard and accounting cost more than 3 %"
    failed=1
fi
check extend 13200 36
check fenced 17700 24
check loop 8300 2
[ "$failed" -eq 0 ]
