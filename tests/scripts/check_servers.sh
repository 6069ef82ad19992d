#!/usr/bin/env bash
# tools/servers.sh without a network: what it answers, and that a failed get leaves nothing behind.
# apt-get here is one that can do nothing, so this says nothing about the servers themselves;
# tests/integration/test_flavours.c does.
set -euo pipefail

case ${1-} in
-h | --help)
    echo "usage: check_servers.sh"
    echo "Tests tools/servers.sh without a network. Exit 0: all well."
    exit 0
    ;;
esac
root=${REDLOCK_SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
servers=$root/tools/servers.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export REDLOCK_CACHE=$work/cache

fail() {
    echo "check_servers: $*" >&2
    exit 1
}
answers() { # answers STATUS WORDS ARGUMENTS...: its exit status, and what it says
    local status=0 wanted=$1 words=$2
    shift 2
    "$servers" "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
    [ "$status" = "$wanted" ] || fail "'$*' gives $status, not $wanted: $(cat "$work/err")"
    cat "$work/out" "$work/err" | grep -qF -- "$words" || fail "'$*' does not say '$words'"
}

answers 0 "usage: tools/servers.sh" --help
answers 64 "usage: tools/servers.sh"
answers 64 "unknown command 'fetch'" fetch
answers 64 "unknown flavour 'redis-1.0'" get redis-1.0
answers 64 "unknown flavour 'redis-8'" path redis-8
answers 64 "path takes one flavour" path
answers 0 "redis-8.6   not there" list
answers 69 "tools/servers.sh get redis-8.6" path redis-8.6
[ ! -s "$work/out" ] || fail "path prints a program that is not there"
[ ! -e "$REDLOCK_CACHE" ] || fail "asking alone makes a cache"

# Tools that are there and fail, as without a network.
mkdir "$work/bin"
printf '#!/bin/sh\necho "E: no network" >&2\nexit 100\n' >"$work/bin/apt-get"
printf '#!/bin/sh\nexit 100\n' >"$work/bin/apt-cache"
cp "$work/bin/apt-cache" "$work/bin/apt-config"
chmod 755 "$work"/bin/*
for tool in dpkg-deb dpkg; do
    command -v "$tool" >/dev/null || cp "$work/bin/apt-cache" "$work/bin/$tool"
done
PATH=$work/bin:$PATH REDLOCK_DEBIAN_MIRROR=http://mirror.invalid answers 69 "not to be had: redis-8.0 valkey-9.1" \
    get redis-8.0 valkey-9.1
[ "$(ls -A "$REDLOCK_CACHE/servers")" = .lock ] || fail "a failed get leaves something behind: $(ls -A "$REDLOCK_CACHE/servers")"

REDLOCK_CACHE=$work/a:b answers 69 "choose another place" get redis-8.0
[ ! -e "$work/a:b" ] || fail "a refused place is made all the same"

# What is there is used as it is, and needs no network.
for flavour in redis-8.0 redis-8.6 valkey-8.1 valkey-9.1; do
    program=$REDLOCK_CACHE/servers/$flavour/bin/${flavour%-*}-server
    mkdir -p "${program%/*}"
    printf '#!/bin/sh\n' >"$program"
    chmod 755 "$program"
    answers 0 "$program" path "$flavour"
    answers 0 "$program" list
done
PATH=$work/bin:$PATH answers 0 "$program" get
[ "$(wc -l <"$work/out")" = 4 ] || fail "get does not print all four"
echo "check_servers: all is well"
