#!/bin/sh
# Installs what is missing to build or to test, and nothing else.
set -eu

usage() {
    cat <<'USAGE'
usage: tools/install-deps.sh [--for build|test|browser|image]
Installs what is missing, from the system's packages.
  --for build   library, command line tool, local primaries (the default)
  --for test    that, and what tools/test.sh uses: Check, clang, cppcheck, shellcheck, ...
  --for browser Chromium, in which the harness's reports are looked at; that test is skipped without
  --for image   what tools/build-image.sh needs
Needs root or sudo without a password on a system with apt. Elsewhere it installs nothing and
prints the command to type.
Exit 0: nothing is missing (any more). 64: usage. 69: something is missing; what to do is said.
USAGE
}

purpose=build
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --for) [ $# -ge 2 ] || { usage >&2; exit 64; }; purpose=$2; shift ;;
    --for=*) purpose=${1#--for=} ;;
    *) usage >&2; exit 64 ;;
    esac
    shift
done
case $purpose in build | test | browser | image) ;; *) usage >&2; exit 64 ;; esac

missing=
want() { # want PACKAGES TEST...: PACKAGES are missing if the command TEST fails
    packages=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $packages"
}
has_libc() {
    echo '#include <stdio.h>' | cc -E - 2>/dev/null
}
has_browser() {
    command -v chromium || command -v chromium-browser || command -v google-chrome
}

if [ "$purpose" = image ]; then
    want debootstrap command -v debootstrap
elif [ "$purpose" = browser ]; then
    want chromium has_browser
else
    want cmake command -v cmake
    want ninja-build command -v ninja
    want pkg-config command -v pkg-config
    want "gcc libc6-dev" has_libc
    want libhiredis-dev pkg-config --exists "hiredis >= 0.14.1"
    want libssl-dev pkg-config --exists "openssl >= 1.1.1"
    want libjansson-dev pkg-config --exists "jansson >= 2.10"
    want redis-server command -v redis-server
    want redis-tools command -v redis-cli
fi
if [ "$purpose" = test ]; then
    want gcc command -v gcc
    want g++ command -v c++
    want binutils command -v readelf
    want check pkg-config --exists check
    want git command -v git
    want openssl command -v openssl
    want valgrind command -v valgrind
    want clang command -v clang
    want clang-format command -v clang-format
    want cppcheck command -v cppcheck
    want shellcheck command -v shellcheck
fi
[ -n "$missing" ] || exit 0
missing=${missing# }

if ! command -v apt-get >/dev/null; then
    if command -v dnf >/dev/null; then
        echo "Type: sudo dnf install cmake ninja-build pkgconf-pkg-config gcc gcc-c++ hiredis-devel openssl-devel openssl jansson-devel check-devel redis git valgrind clang clang-tools-extra cppcheck ShellCheck"
    elif command -v pacman >/dev/null; then
        echo "Type: sudo pacman -S --needed cmake ninja pkgconf gcc hiredis openssl jansson check redis git valgrind clang cppcheck shellcheck"
    elif command -v apk >/dev/null; then
        echo "Type: sudo apk add cmake ninja pkgconf gcc g++ musl-dev hiredis-dev openssl-dev openssl jansson-dev check-dev redis git valgrind clang clang-extra-tools cppcheck shellcheck"
    else
        echo "Install these with your package manager (Debian's names): $missing"
    fi >&2
    exit 69
fi

if [ "$(id -u)" -eq 0 ]; then
    sudo=
elif sudo -n true 2>/dev/null; then
    sudo="sudo -n"
else
    {
        echo "Missing: $missing. Type this, then run the same command again:"
        echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends $missing"
    } >&2
    exit 69
fi

# Debian's redis-server package starts a server on port 6379; nobody asked for that one. A policy
# of "start nothing" stands while we install, unless the system has a policy of its own.
policy=/usr/sbin/policy-rc.d
finish() {
    status=$?
    [ -z "${our_policy-}" ] || $sudo rm -f "$policy"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [ ! -e "$policy" ] && [ ! -L "$policy" ]; then
    our_policy=1
    printf '#!/bin/sh\nexit 101\n' | $sudo tee "$policy" >/dev/null
    $sudo chmod 755 "$policy"
fi

echo "Installing: $missing"
log=$(mktemp)
# shellcheck disable=SC2086 # lists of words
if ! { $sudo apt-get update -q &&
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing; } \
    >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    echo "apt-get could not install: $missing. The whole log: $log" >&2
    exit 69
fi
rm -f "$log"

# Nor shall it come up at the next boot, where this script brought it.
case " $missing " in
*" redis-server "*)
    if [ -d /run/systemd/system ]; then
        $sudo systemctl disable --quiet redis-server 2>/dev/null || :
    fi
    ;;
esac
echo "Installed."
