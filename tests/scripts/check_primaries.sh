#!/usr/bin/env bash
# tools/primaries with local processes, on free ports and in a directory of its own: idempotent,
# keeps data over a kill, ends only its own processes, leaves nothing behind.
set -euo pipefail

case ${1-} in
-h | --help)
    echo "usage: check_primaries.sh"
    echo "Tests tools/primaries with --runtime process. Exit 0: all well. Needs redis-server."
    exit 0
    ;;
esac
root=${REDLOCK_SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
work=$(mktemp -d)
dir=$work/state

# The build under test, not whatever else is built; without one, none.
REDLOCK_CLI=${REDLOCK_BUILD_DIR:-$root/build/dev}/tools/redlock
export REDLOCK_CLI

primaries() { "$root/tools/primaries" "$@" --dir "$dir" 2>"$work/stderr"; }
finish() {
    local status=$?
    [ "$status" -eq 0 ] || { echo "check_primaries: failed after: $step"; cat "$work/stderr"; }
    primaries stop || :
    [ -z "${bystander-}" ] || kill "$bystander" 2>/dev/null || :
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT
step=setup
say() {
    step=$*
    echo "check_primaries: $step"
}
said() { grep -qF "$*" "$work/stderr"; }
exits() { # exits STATUS COMMAND...
    local wanted=$1 status=0
    shift
    "$@" || status=$?
    [ "$status" -eq "$wanted" ]
}
states() { (primaries status || :) | awk '{ printf "%s ", $3 }'; }
ask() { # ask N COMMAND: one line of answer
    local answer
    exec 3<>"/dev/tcp/127.0.0.1/$((port + $1 - 1))"
    printf '%s\r\n' "$2" >&3
    read -r -t 5 answer <&3
    exec 3>&-
    printf '%s' "${answer%$'\r'}"
}
lines() { # lines N COMMAND: an array of two values
    local answer values=() i
    exec 3<>"/dev/tcp/127.0.0.1/$((port + $1 - 1))"
    printf '%s\r\n' "$2" >&3
    for ((i = 0; i < 5; i++)); do # *2 $length value $length value
        read -r -t 5 answer <&3
        case $i in 2 | 4) values+=("${answer%$'\r'}") ;; esac
    done
    exec 3>&-
    printf '%s' "${values[*]}"
}
free() { # free PORT: six ports from it on are free
    local i
    for ((i = 0; i < 6; i++)); do
        ! (exec 2>/dev/null 3<>"/dev/tcp/127.0.0.1/$(($1 + i))") || return 1
    done
}
for ((tries = 0; ; tries++)); do
    port=$((20000 + RANDOM % 10000))
    ! free "$port" || break
    [ "$tries" -lt 20 ]
done

say "usage errors"
exits 64 primaries
exits 64 primaries begin
exits 64 primaries start --port x
exits 64 primaries kill
exits 69 primaries status
exits 69 primaries nodes

say "start, and start again"
primaries start --runtime process --port "$port"
if [ -x "$REDLOCK_CLI" ]; then
    said "marked, by $REDLOCK_CLI init"
    marked=':1'
else
    said "init --no-leases-out"
    marked=$(ask 1 'EXISTS redlock:fleet')
fi
for n in 1 2 3 4 5; do [ "$(ask $n 'EXISTS redlock:fleet')" = "$marked" ]; done
primaries start --runtime process --port "$port"
said "already up"
[ "$(states)" = "up up up up up " ]
[ "$(stat -c %a "$dir")" = 700 ]
[ "$(primaries nodes | wc -w)" -eq 5 ]
exits 64 primaries start --count 3
said "stop"

say "kill keeps the data"
[ "$(ask 2 'SET here still')" = "+OK" ]
primaries kill 2 3
[ "$(states)" = "up down down up up " ]
exits 69 primaries status
primaries revive 2
[ "$(ask 2 'STRLEN here')" = ":5" ]
primaries start
[ "$(states)" = "up up up up up " ]

say "one that lost its data is not marked by a later start"
primaries kill 3
rm -rf "$dir/n3/data"
primaries start
said "up again: n3"
[ "$(ask 3 'EXISTS redlock:fleet')" = ":0" ]
[ "$(ask 2 'EXISTS redlock:fleet')" = "$marked" ]

say "they are durable"
for setting in 'appendonly yes' 'appendfsync always' 'no-appendfsync-on-rewrite no'; do
    [ "$(lines 1 "CONFIG GET ${setting% *}")" = "$setting" ]
done

say "new ones can be left unmarked"
"$root/tools/primaries" start --no-init --count 1 --runtime process --port "$((port + 5))" \
    --dir "$work/bare" 2>"$work/stderr"
said "redlock init --no-leases-out"
[ "$(ask 6 'EXISTS redlock:fleet')" = ":0" ]
"$root/tools/primaries" stop --dir "$work/bare" 2>"$work/stderr"

say "freeze and thaw"
primaries freeze 4
[ "$(states)" = "up up up frozen up " ]
primaries thaw 4
[ "$(ask 4 PING)" = "+PONG" ]
primaries freeze 5

say "a taken port is named"
exits 69 "$root/tools/primaries" start --runtime process --port "$((port + 4))" --dir "$work/other" 2>"$work/stderr"
said "port $((port + 4)) is taken"
[ ! -e "$work/other" ]

say "stop --keep-data"
primaries stop --keep-data
[ "$(states)" = "down down down down down " ]
primaries start
[ "$(ask 2 'STRLEN here')" = ":5" ]

say "a process that is not its own is left alone"
read -r pid _ <"$dir/n1/pid"
kill -KILL "$pid"
tail -f /dev/null &
bystander=$!
echo "$bystander 1" >"$dir/n1/pid"
primaries kill 1
said "n1 is down"

say "stop removes everything"
pids=$(cat "$dir"/n[2-5]/pid | cut -d' ' -f1)
primaries stop
for pid in $pids; do [ ! -d "/proc/$pid" ] || grep -q '^State:.Z' "/proc/$pid/status"; done
kill -0 "$bystander"
[ ! -e "$dir" ]
primaries stop
said "none were up"
echo "check_primaries: all well"
