#!/usr/bin/env bash
# Servers of other versions than the machine's, from Debian's packages, to run tests on. Nothing is
# installed: a server and its shared libraries lie in a cache and run through their own loader.
#
# CACHE/FLAVOUR/   bin/NAME-server  what to run: a script that becomes the server, same process id
#                  libexec/, lib/   the program; its loader and libraries
#                  packages         what all this is from, one NAME=VERSION a line
set -euo pipefail

cache=${REDLOCK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/redlock}/servers
[[ $cache == /* ]] || cache=$PWD/$cache
# name, then the suites to look in; libraries come from the first
flavours="redis-8.0: trixie
redis-8.6: sid experimental
valkey-8.1: trixie
valkey-9.1: sid"

usage() {
    cat <<USAGE
usage: tools/servers.sh get [FLAVOUR...]   make what is not there yet (all if none is named), and
                                           print each one's program
       tools/servers.sh path FLAVOUR       print the program, if it is there; downloads nothing
       tools/servers.sh list               what is there
Flavours: $(names)
The program printed is used like redis-server. To get one anew (a newer 8.6.x), remove its directory
in $cache first.

get needs apt and Debian's archive keys, but no root. The packages come from the mirror that this
machine's apt uses, by its settings (proxy, what it checks), signatures verified; where apt knows no
mirror of Debian, REDLOCK_DEBIAN_MIRROR names one. About 25 MB of package lists, and 15 MB a flavour
to download; 10 to 20 MB a flavour stay in the cache, which serves without a network.
REDLOCK_CACHE is the cache's directory (it gets a directory servers).
Exit 0: done. 64: usage. 69: one is not there, or can't be had; the reason and what to do are said.
USAGE
}

names() { cut -d: -f1 <<<"$flavours" | paste -sd' '; }
say() { printf 'servers: %s\n' "$*" >&2; }
die() { # die STATUS MESSAGE...
    local status=$1
    shift
    say "$@"
    exit "$status"
}
bad_usage() { die 64 "$* (see tools/servers.sh --help)"; }
check_flavour() { [[ " $(names) " == *" $1 "* ]] || bad_usage "unknown flavour '$1'; there are: $(names)"; }
suites_of() { sed -n "s/^$1: //p" <<<"$flavours"; }
program_of() { echo "$cache/$1/bin/${1%-*}-server"; }
is_there() { [ -x "$(program_of "$1")" ]; }

# ---- an apt of our own -------------------------------------------------------

# Our apt knows nothing of the machine's packages and sources, but goes about it as the machine's
# does: proxy, time limits, and how strictly it checks dates.
make_apt() { # make_apt SUITE...
    local site keyring found suite
    for keyring in debian-archive-keyring.gpg debian-archive-keyring.pgp ''; do
        [ ! -f "/usr/share/keyrings/$keyring" ] || break
    done
    [ -n "$keyring" ] ||
        die 69 "Debian's archive keys are missing; install them with: apt-get install debian-archive-keyring"
    site=${REDLOCK_DEBIAN_MIRROR-}
    if [ -z "$site" ]; then
        # shellcheck disable=SC2016 # the dollar is apt-get's
        found=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian')
        site=${found%%$'\n'*}
    fi
    [ -n "$site" ] ||
        die 69 "apt knows no mirror of Debian; run apt-get update, or name one: REDLOCK_DEBIAN_MIRROR=URL tools/servers.sh get"

    mkdir -p "$work"/apt/{etc/apt.conf.d,etc/preferences.d,etc/sources.list.d,state/lists/partial,cache/archives/partial}
    : >"$work/apt/status"
    for suite; do
        printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n\n' \
            "$site" "$suite" "/usr/share/keyrings/$keyring"
    done >"$work/apt/etc/sources.list.d/suites.sources"
    {
        apt-config dump Acquire | grep -Ev '^Acquire::(IndexTargets|Languages)' || :
        cat <<CONF
Acquire::Languages { "none"; };
APT::Architectures { "$(dpkg --print-architecture)"; };
APT::Install-Recommends "false";
APT::Sandbox::User "root"; // or whoever runs this
Debug::NoLocking "true";
Dir "$work/apt";
Dir::State "$work/apt/state";
Dir::State::status "$work/apt/status";
Dir::Cache "$work/apt/cache";
Dir::Etc "$work/apt/etc";
Dir::Etc::netrc "/etc/apt/auth.conf";
Dir::Etc::netrcparts "/etc/apt/auth.conf.d";
CONF
    } >"$work/apt.conf"
    export APT_CONFIG=$work/apt.conf

    if apt-config dump Acquire::Check-Valid-Until | grep -Eq '"(false|no|off|0)"'; then
        say "this machine's apt takes package lists of any age (Acquire::Check-Valid-Until), so does this"
    fi
    say "reading the package lists of $*"
    # What a suite lacks shows when its packages are looked for; the others may do.
    apt-get update -q >"$work/update.log" 2>&1 </dev/null || :
}

# The packages of the flavour and all they depend on, one NAME=VERSION a line.
packages_of() { # packages_of FLAVOUR
    local name=${1%-*} number=${1#*-} suites version
    read -r -a suites <<<"$(suites_of "$1")"
    version=$(apt-cache madison "$name-server" | awk -F' *[|] *' -v number="$number" -v suites="${suites[*]}" '
        { split($3, from, " "); split(from[2], suite, "/"); bare = $2; sub(/^[0-9]+:/, "", bare) }
        index(" " suites " ", " " suite[1] " ") && index(bare, number ".") == 1 { print $2; exit }')
    if [ -z "$version" ]; then
        say "$1: no $name-server $number in ${suites[*]}; the lists there have: $(apt-cache madison "$name-server" |
            awk '{ printf "%s%s", sep, $3; sep = ", " } END { if (!NR) print "none" }')"
        grep -E '^(E|W|Err)' "$work/update.log" >&2 || :
        if grep -q NO_PUBKEY "$work/update.log"; then
            say "the suite is signed with a newer key; get it with: apt-get install --only-upgrade debian-archive-keyring"
        elif grep -q 'Release file .* expired' "$work/update.log"; then
            say "the mirror is behind, or the clock is ahead; set the clock, or use another mirror (REDLOCK_DEBIAN_MIRROR)"
        elif grep -Eq '^(E|W|Err)' "$work/update.log"; then
            say "see that the mirror can be reached, then run the same command again"
        else
            say "Debian has moved on; the table in tools/servers.sh needs another suite or number"
        fi
        return 1
    fi
    if ! apt-get -s install -t "${suites[0]}" "$name-server=$version" "$name-tools=$version" \
        >"$work/resolve.log" 2>&1 </dev/null; then
        tail -n 20 "$work/resolve.log" >&2
        say "$1: the packages it needs don't fit together on the mirror; try again in a day"
        return 1
    fi
    awk '$1 == "Inst" { print $2 "=" substr($3, 2) }' "$work/resolve.log"
}

# ---- one flavour -------------------------------------------------------------

# Takes the server, its loader and the libraries it needs out of the unpacked packages.
pick() { # pick NAME ROOT OUT
    local name=$1 root=$2 out=$3 server loader path file
    mkdir -p "$out/bin" "$out/lib" "$out/libexec" || return 1
    server=$(find "$root" -path "*/bin/$name-server")
    loader=$(find "$root" -name 'ld-linux*.so.[0-9]' -type f -print -quit)
    [ -n "$server" ] && [ -n "$loader" ] || return 1
    cp -L "$server" "$out/libexec/$name-server" || return 1
    cp "$loader" "$out/lib/loader.so" || return 1
    path=$(find "$root" -name '*.so.*' -printf '%h\n' | sort -u | paste -sd:)
    "$loader" --inhibit-cache --library-path "$path" --list "$out/libexec/$name-server" >"$work/libraries" || return 1
    while read -r file; do
        [[ $file != "$root"/* ]] || cp -L "$file" "$out/lib/" || return 1 # check() sees to the others
    done < <(sed -n 's/^.* => \(.*\) (0x[0-9a-f]*)$/\1/p' "$work/libraries")
    find "$root" -name libgcc_s.so.1 -exec cp -L {} "$out/lib/" \; || return 1 # for threads that end
    cat >"$out/bin/$name-server" <<'WRAPPER'
#!/bin/sh
# The locales of the machine belong to another C library.
export LC_ALL=C
here=${0%/*}/..
exec "$here/lib/loader.so" --inhibit-cache --library-path "$here/lib" --argv0 "${0##*/}" "$here/libexec/${0##*/}" "$@"
WRAPPER
    chmod 755 "$out/bin/$name-server"
}

# Nothing the machine has may take part: what runs here ran with these very libraries.
check() { # check FLAVOUR OUT
    local name=${1%-*} number=${1#*-} text
    if "$2/lib/loader.so" --inhibit-cache --library-path "$2/lib" --list "$2/libexec/$name-server" |
        grep '=>' | grep -vF "$2/lib/" >&2; then
        say "$1: these libraries are not from its packages"
        return 1
    fi
    text=$("$2/bin/$name-server" --version) || { say "$1: the server does not run here"; return 1; }
    [[ $text == *" v=$number."* ]] || { say "$1: the server says it is: $text"; return 1; }
}

build() { # build FLAVOUR
    local flavour=$1 here=$work/$1 begun=$SECONDS deb packages
    packages=$(packages_of "$flavour") || return 1
    mkdir -p "$here/debs" "$here/root" "$here/out"
    say "$flavour: downloading $(wc -l <<<"$packages") packages"
    # shellcheck disable=SC2086 # a list of words
    if ! (cd "$here/debs" && apt-get download -q $packages) >"$here/log" 2>&1 </dev/null; then
        grep -E '^(E|W|Err)' "$here/log" >&2 || :
        say "$flavour: the download failed; see that the mirror can be reached, then run the same command again"
        return 1
    fi
    for deb in "$here"/debs/*.deb; do
        dpkg-deb -x "$deb" "$here/root" || { say "$flavour: $deb can't be unpacked; is the disk full?"; return 1; }
    done
    pick "${flavour%-*}" "$here/root" "$here/out" || { say "$flavour: its packages lack the server or its loader"; return 1; }
    check "$flavour" "$here/out" || return 1
    echo "$packages" >"$here/out/packages"
    rm -rf "${cache:?}/$flavour"
    mv -T "$here/out" "$cache/$flavour" || return 1
    say "$flavour: $(du -sm "$here/debs" | cut -f1) MB of packages, $(du -sm "$cache/$flavour" | cut -f1) MB kept," \
        "$((SECONDS - begun)) s"
    rm -rf "$here"
}

# ---- commands ----------------------------------------------------------------

cmd_get() {
    local flavour suites missing=() failed=()
    for flavour; do check_flavour "$flavour"; done
    # shellcheck disable=SC2046 # a list of words
    [ $# -gt 0 ] || set -- $(names)
    for flavour; do is_there "$flavour" || missing+=("$flavour"); done
    if [ ${#missing[@]} -gt 0 ]; then
        for tool in apt-get dpkg-deb flock; do
            command -v "$tool" >/dev/null || die 69 "$tool is not here; this needs Debian or one of its kin"
        done
        [[ $cache != *[:\;\"\$]* ]] ||
            die 69 "a loader can't use $cache, for a character in it; choose another place: REDLOCK_CACHE=DIR"
        mkdir -p "$cache" || die 69 "$cache can't be made; choose another place: REDLOCK_CACHE=DIR"
        exec 9>"$cache/.lock"
        flock -n 9 || say "waiting for another tools/servers.sh"
        flock -w 600 9 || die 69 "another tools/servers.sh has been at it for ten minutes; see what it does: fuser $cache/.lock"
        rm -rf "$cache"/.work.* # from one that was killed
        work=$(mktemp -d "$cache/.work.XXXXXX")
        trap 'rm -rf "$work"' EXIT
        trap 'exit 130' INT
        trap 'exit 143' TERM
        missing=()
        for flavour; do is_there "$flavour" || missing+=("$flavour"); done
    fi
    if [ ${#missing[@]} -gt 0 ]; then
        suites=$(for flavour in "${missing[@]}"; do suites_of "$flavour" | tr ' ' '\n'; done | sort -u)
        # shellcheck disable=SC2086 # a list of words
        make_apt $suites
        for flavour in "${missing[@]}"; do build "$flavour" || failed+=("$flavour"); done
    fi
    for flavour; do
        if is_there "$flavour"; then program_of "$flavour"; fi
    done
    [ ${#failed[@]} -eq 0 ] || die 69 "not to be had: ${failed[*]}"
}

cmd_path() {
    [ $# -eq 1 ] || bad_usage "path takes one flavour"
    check_flavour "$1"
    is_there "$1" || die 69 "$1 is not in the cache; tools/servers.sh get $1"
    program_of "$1"
}

cmd_list() {
    local flavour
    [ $# -eq 0 ] || bad_usage "list takes nothing"
    for flavour in $(names); do
        if is_there "$flavour"; then
            printf '%-11s %s\n' "$flavour" "$(program_of "$flavour")"
        else
            printf '%-11s not there; tools/servers.sh get %s\n' "$flavour" "$flavour"
        fi
    done
}

for argument; do
    case $argument in
    -h | --help) usage; exit 0 ;;
    -*) bad_usage "unknown option '$argument'" ;;
    esac
done
command=${1-}
case $command in
get | path | list) shift ;;
'') usage >&2; exit 64 ;;
*) bad_usage "unknown command '$command'" ;;
esac
"cmd_$command" "$@"
