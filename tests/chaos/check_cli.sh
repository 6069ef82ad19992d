#!/usr/bin/env bash
# redlock-chaos as its user meets it: what is said about a wrong command line or a machine that
# lacks something, what is left after the disk is full, Ctrl-C or kill -9, histories judged again,
# other clients. What the scenarios find out about the lock is not looked at here.
set -euo pipefail

case ${1-} in
-h | --help)
    cat <<'USAGE'
usage: REDLOCK_CHAOS=build/dev/tools/redlock-chaos check_cli.sh
Needs a redis-server. What needs a Docker engine, root or python3 is left out without, and said.
Exit 0: all well. 1: the last lines say what is not, and what the harness said.
USAGE
    exit 0
    ;;
esac
root=$(cd "$(dirname "$0")/../.." && pwd)
chaos=$(realpath "${REDLOCK_CHAOS:-$root/build/dev/tools/redlock-chaos}")
work=$(mktemp -d)
mkdir "$work/tmp"
unset REDLOCK_IMAGE
cd "$work"

running=''
finish() {
    local status=$?
    trap - EXIT INT TERM
    for pid in $running; do
        if kill -INT "$pid" 2>/dev/null; then wait "$pid" || :; fi
    done
    if [ "$status" -ne 0 ]; then
        echo "check_cli: failed at: $step, line $line"
        tail -n 25 out err
    fi
    cd /
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'line=$LINENO' ERR
step=setup line='?'
say() {
    step=$*
    echo "check_cli: $step"
}

# Its directories are below TMPDIR, which is also how its processes are known later.
harness() { TMPDIR=$work/tmp "$chaos" "$@" >out 2>err </dev/null; }
exits() { # exits STATUS COMMAND...
    local wanted=$1 status=0
    shift
    "$@" || status=$?
    [ "$status" -eq "$wanted" ] || { echo "exit status $status, not $wanted: $*"; return 1; }
}
said() { grep -qF -- "$*" out err || { echo "not said: $*"; return 1; }; }
json() { python3 -c "import json, sys; d = json.load(sys.stdin); print($1)"; }
# Where a machine is busy with other things, a share of the probes comes late: that is told by 3, and
# is not what is tested here.
plays() { # plays COMMAND...: sets status
    status=0
    "$@" || status=$?
    [ "$status" -eq 0 ] || [ "$status" -eq 3 ] || { echo "exit status $status, neither 0 nor 3: $*"; return 1; }
}
play() { harness run --quick --quiet --runtime process "$@"; }

# Servers wipe their environment, but have the library for their clock mapped from the run's
# directory. Zombies have neither.
processes() {
    { grep -lsF "$work/tmp" /proc/[0-9]*/environ /proc/[0-9]*/maps 2>/dev/null || :; } | cut -d/ -f3 | sort -u
}
directories() { find tmp -mindepth 2 ! -name lock; }
gone() { # gone COMMAND...: prints nothing, at the latest in five seconds
    local tries
    for ((tries = 0; tries < 50; tries++)); do
        [ -n "$("$@")" ] || return 0
        sleep 0.1
    done
    echo "still there: $("$@")"
    return 1
}
begin() { # begin LOG ARGUMENTS...: in the background; sets pid
    local log=$1
    shift
    TMPDIR=$work/tmp "$chaos" "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    running="$running $pid"
}
end() { # end PID: sets status
    status=0
    wait "$1" || status=$?
    running=${running/ $1/}
}
await() { # await PID LOG PATTERN: until it says so
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        ! grep -qE "$3" "$2" || return 0
        kill -0 "$1" 2>/dev/null || break
        sleep 0.1
    done
    echo "did not say '$3': $(tail -n 5 "$2")"
    return 1
}
exit_status() { return "$1"; }
engine() { timeout 10 docker info >/dev/null 2>&1; }

say "wrong command lines"
exits 64 harness
said "usage: redlock-chaos run"
exits 64 harness begin
said "command 'begin': run, compare, check, list or sweep"
exits 64 harness run
said "redlock-chaos list"
exits 64 harness run calm nosuch
said "no scenario 'nosuch'; see: redlock-chaos list"
exits 64 harness compare nosuch
said "no row 'nosuch'; see: redlock-chaos list"
exits 64 harness check
said "*.jsonl"
exits 64 harness sweep calm
said "'calm': list and sweep take no names"
exits 64 harness run --nosuch calm
said "Try: redlock-chaos --help"
exits 64 harness run calm --seed
said "Try: redlock-chaos --help"
exits 64 harness run calm --runtime podman
said "'podman': auto, process or docker"
exits 64 harness run calm --mode two
said "'two': redlock, single, single-replica or single-replica-wait"
for value in x -1 7x '' 18446744073709551616; do
    exits 64 harness run calm --seed "$value"
    said "'$value': a number from 0 to"
done
exits 64 harness run calm --seconds 0
said "'0': a number from 1 to 86400"
exits 64 harness run calm --peer ' '
said "a program is wanted"
exits 0 harness --help
said "Exit status:"
grep -oE -- '--[a-z]+' out | sort -u >options
while read -r option; do
    grep -qE "^\.It.* Fl ${option#-}( |$)" "$root/docs/man/redlock-chaos.1" ||
        { echo "the man page has no $option"; exit 1; }
done <options
exits 0 harness --version
said "redlock-chaos "

say "places for the report that can't be"
mkdir full empty
touch full/something
exits 64 play --out full calm
said "full is no empty directory; give another --out"
exits 64 play --out full/something calm
said "give another --out"
exits 70 play --out nosuch/below calm
said "nosuch/below: No such file or directory; give another --out"
[ "$(ls full)" = something ]

say "what is missing on this machine"
mkdir bin
for program in redis-server valkey-server; do
    if path=$(command -v "$program"); then ln -s "$path" bin/; fi
done
exits 69 env PATH="$work/bin" TMPDIR="$work/tmp" "$chaos" run --runtime docker --out missing calm >out 2>err
said "no Docker engine answers; start it, or use --runtime process"
exits 69 play --server "$work/nosuch" --out missing calm
said "nosuch cannot be executed"
said "--server"
exits 69 play --server true --out missing calm
said "is no Redis or Valkey server"
exits 69 env PATH=/nosuch TMPDIR="$work/tmp" "$chaos" run --out missing calm >out 2>err
said "there is no redis-server and no valkey-server on PATH"
said "no Docker engine answers"
exits 69 play --server true --out empty calm
[ -d empty ] # it was there before
if engine; then
    begun=$SECONDS
    exits 69 harness run --runtime docker --image registry.invalid/nosuch:1 --out missing calm
    said "registry.invalid/nosuch:1 is not here and cannot be pulled; name another with --image"
    [ $((SECONDS - begun)) -lt 90 ]
else
    echo "check_cli: no engine answers; images are not looked for"
fi
[ ! -e missing ]
gone directories

say "list"
exits 0 harness list
said "calm"
said "Rows of compare"
if command -v python3 >/dev/null; then
    exits 0 harness list --json
    [ "$(json '[s["smoke"] for s in d["scenarios"] if s["name"] == "calm"]' <out)" = "[True]" ]
    [ "$(json 'len(d["rows"]) > 3' <out)" = True ]
fi

say "a run, and its history judged again"
plays harness run --quick --runtime process --seed 7 --out calm calm
verdict=$status
said "seed 7"
said "report: calm/report.html"
history=calm/01-calm-redlock.jsonl
[ -s "$history" ]
[ -s calm/report.html ]
[ -s calm/report.json ]
[ "$(find calm -type f | wc -l)" -eq 3 ]
sed '/^  again/d; /^  history/d' out >judged
exits "$verdict" harness check "$history"
sed '/^  history/d' out | diff judged -
if command -v python3 >/dev/null; then
    exits "$verdict" harness check --json "$history"
    for report in out calm/report.json; do
        [ "$(json 'd["status"], len(d["chapters"][0]["checkers"])' <"$report")" = "$verdict 10" ]
    done
fi

say "histories that are none"
exits 64 harness check nosuch.jsonl
said "nosuch.jsonl: No such file or directory"
exits 64 harness check full
said "Is a directory"
: >bare
exits 64 harness check bare
said 'no record of type "run"'
sed '5s/.*/rubbish/' "$history" >broken
exits 64 harness check "$history" broken
said "broken: line 5: not JSON"
sed '5s/"type"/"kind"/' "$history" >untyped
exits 64 harness check untyped
said "untyped: line 5: "
[ ! -s out ]
# One that a dead harness left is no error, but never a pass either.
{
    head -n 20 "$history"
    sed -n 21p "$history" | head -c 20
} >cut.jsonl
exits 2 harness check cut.jsonl
said "the history ends in the middle of line 21"
exits 2 harness check "$history" cut.jsonl

say "the same seed, the same faults"
faults() { # faults HISTORY: what is done to which nodes, in order
    sed -n '/"type":"fault"/s/.*"action":"\([^"]*\)","state":"\([^"]*\)","nodes":\(\[[^]]*\]\).*/\1 \2 \3/p' "$1"
}
for name in first second; do
    plays play --seed 3 --out "$name" swizzle
    faults "$name"/*.jsonl >"$name.faults"
done
[ "$(sort -u first.faults | wc -l)" -eq 8 ] # four links close and open
diff first.faults second.faults

say "Ctrl-C"
begin log run --quick --runtime process --out interrupted --seconds 100 calm storm
await "$pid" log '^storm +[3-9] s'
[ "$(processes | wc -l)" -gt 10 ]
begun=${EPOCHREALTIME/./}
kill -INT "$pid"
end "$pid"
[ "$status" -eq 130 ] || { echo "exit status $status"; exit 1; }
took_ms=$(((${EPOCHREALTIME/./} - begun) / 1000))
echo "check_cli: ended after $took_ms ms"
[ "$took_ms" -lt 5000 ]
[ -z "$(processes)" ]
[ -z "$(directories)" ]
cp log out
said "calm     redlock"
said "interrupted; everything it started is ended"
[ -s interrupted/report.html ]
[ "$(find interrupted -name '*.jsonl')" = interrupted/01-calm-redlock.jsonl ]
begin log run --quick --runtime process --out interrupted2 --seconds 100 storm
await "$pid" log '^storm'
kill -TERM "$pid"
end "$pid"
[ "$status" -eq 143 ]
[ ! -e interrupted2 ]

say "kill -9, and the sweep after it"
begin log run --quick --runtime process --out killed --seconds 100 storm
await "$pid" log '^storm +[3-9] s'
kill -KILL "$pid"
end "$pid" 2>/dev/null
gone processes
left=$(find tmp -mindepth 2 -maxdepth 2 -type d)
[ -n "$left" ]
exits 0 harness sweep
said "removed $work/$left, of a run that was killed"
gone directories
exits 0 harness sweep
said "nothing was left behind"

say "two at once"
begin log1 run --quick --runtime process --seed 1 --out one calm
one=$pid
begin log2 run --quick --runtime process --seed 2 --out two calm
end "$pid"
plays exit_status "$status"
end "$one"
plays exit_status "$status"
[ -s one/report.html ]
[ -s two/report.html ]
gone directories

if command -v python3 >/dev/null; then
    say "another client"
    # It is wrong, and may be found out here.
    play --out naive --peer "python3 $root/tools/chaos/peers/naive.py" calm || [ $? -eq 1 ] || [ $? -eq 3 ]
    [ -s naive/report.html ]
    [ -s naive/report.json ]
fi
exits 2 play --out false --peer /bin/false calm
said "inconclusive"
said "/bin/false"
exits 2 play --out nobody --peer /nosuch/peer calm
said "inconclusive"
said "/nosuch/peer"
gone directories
gone processes

say "a full disk"
full_disk() { # full_disk OPTIONS: a run on such a tmpfs; what is left on it goes to left
    mkdir -p disk
    # shellcheck disable=SC2016 # for the inner shell
    TMPDIR=$work/tmp unshare -m sh -c '
        mount -t tmpfs -o "$1" none disk && status=0 || exit 1
        "$2" run --quick --quiet --runtime process --out disk/out calm || status=$?
        find disk -mindepth 1 | sort >left
        exit $status' sh "$1" "$chaos" >out 2>err </dev/null
}
if unshare -m true 2>/dev/null; then
    exits 70 full_disk size=64k
    said "disk/out/01-calm-redlock.jsonl: No space left on device"
    [ ! -s left ]
    exits 70 full_disk nr_inodes=2
    said "disk/out/01-calm-redlock.jsonl: No space left on device"
    [ ! -s left ]
    exits 70 full_disk nr_inodes=3
    said "disk/out/report.json: No space left on device"
    said "calm     redlock"
    [ "$(tr '\n' ' ' <left)" = "disk/out disk/out/01-calm-redlock.jsonl " ]
else
    echo "check_cli: no disk can be made here; a full one is not looked at"
fi
gone directories

if engine; then
    say "Ctrl-C and kill -9 with containers"
    things() { # of the harness $pid
        docker ps --all --quiet --filter "name=redlock-chaos-$pid-"
        docker network ls --quiet --filter "name=redlock-chaos-$pid-"
        docker volume ls --quiet --filter "name=redlock-chaos-$pid-"
    }
    begin log run --quick --runtime docker --out docker1 calm
    await "$pid" log '^calm +[1-9]'
    [ "$(things | wc -l)" -ge 6 ]
    kill -INT "$pid"
    end "$pid"
    [ "$status" -eq 130 ]
    [ -z "$(things)" ]
    [ -z "$(directories)" ]
    begin log run --quick --runtime docker --out docker2 calm
    await "$pid" log '^calm +[1-9]'
    kill -KILL "$pid"
    end "$pid" 2>/dev/null
    gone processes # workers; containers stay
    exits 0 harness sweep
    said "removed the container redlock-chaos-$pid-"
    said "of a run that was killed"
    [ -z "$(things)" ]
    [ -z "$(directories)" ]
else
    echo "check_cli: no engine answers; containers are not looked at"
fi
echo "check_cli: all well"
