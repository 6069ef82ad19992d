#!/bin/sh
# Installs the build into an empty prefix and uses it as a stranger would: pkg-config, static
# linking, CMake, C++, the README's example. Looks at what the shared library exports.
set -eu

case ${1-} in
-h | --help)
    cat <<'USAGE'
usage: REDLOCK_BUILD_DIR=build/dev check_installed.sh
Installs REDLOCK_BUILD_DIR (already built) into a temporary prefix and builds consumers of it.
Exit 0: all of them build, run and print the version. 1: the last lines say which does not.
USAGE
    exit 0
    ;;
esac
root=${REDLOCK_SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${REDLOCK_BUILD_DIR:-$root/build/dev}
cc=${CC:-cc}
cxx=${CXX:-c++}
strict='-Wall -Wextra -Werror -pedantic'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
step=setup
say() {
    step=$*
    echo "check_installed: $step"
}
fail() {
    echo "check_installed: $step: $*" >&2
    exit 1
}

say "install"
[ -f "$build/cmake_install.cmake" ] ||
    fail "$build is no build directory; run: cmake --preset dev && cmake --build --preset dev"
if ! cmake --install "$build" --prefix "$prefix" >"$work/log" 2>&1; then
    cat "$work/log"
    fail "cmake --install failed"
fi
libdir=$(dirname "$(find "$prefix" -name 'libredlock.a')")
generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build/CMakeCache.txt")
version=$(sed -nE 's/^project\(redlock VERSION ([0-9.]+).*/\1/p' "$root/CMakeLists.txt")
export PKG_CONFIG_PATH="$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
[ "$(find "$prefix/include" -type f | wc -l)" -eq 1 ] || fail "redlock.h must be the only installed header"
[ "$(pkg-config --modversion redlock)" = "$version" ] || fail "redlock.pc does not say version $version"

expect_version() { # expect_version COMMAND...: must print the project's version
    seen=$("$@") || fail "$* did not run"
    [ "$seen" = "$version" ] || fail "$1 printed '$seen', not '$version'"
}

# shellcheck disable=SC2086,SC2046 # flags are lists of words
{
    say "shared library by pkg-config"
    $cc -std=c11 $strict "$root/tests/consumer/main.c" -o "$work/shared" $(pkg-config --cflags --libs redlock)
    expect_version env LD_LIBRARY_PATH="$libdir" "$work/shared"
    readelf -d "$work/shared" | grep -q 'NEEDED.*\[libredlock\.so\.0\]' || fail "libredlock.so.0 is not what it needs"

    say "static library by pkg-config --static"
    mkdir "$work/static"
    cp -r "$prefix" "$work/static/prefix" # moved, and without the shared library
    rm "$work/static/prefix/${libdir#"$prefix"/}"/libredlock.so*
    $cc -std=c11 $strict "$root/tests/consumer/main.c" -o "$work/static/main" \
        $(PKG_CONFIG_PATH="$work/static/prefix/${libdir#"$prefix"/}/pkgconfig" pkg-config --static --cflags --libs redlock)
    expect_version "$work/static/main"

    say "CMake package"
    if ! { cmake -S "$root/tests/consumer" -B "$work/cmake" -G "$generator" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" &&
        cmake --build "$work/cmake"; } >"$work/log" 2>&1; then
        cat "$work/log"
        fail "find_package(redlock) does not work"
    fi
    expect_version "$work/cmake/consumer"
    expect_version "$work/cmake/consumer_static"

    say "header as C++17"
    printf '#include <redlock.h>\nint main() { return redlock_version() == nullptr; }\n' >"$work/main.cpp"
    $cxx -std=c++17 $strict "$work/main.cpp" -o "$work/cpp" $(pkg-config --cflags --libs redlock)
    LD_LIBRARY_PATH="$libdir" "$work/cpp" || fail "the C++ program did not run"

    say "header as strict C11, twice, first of all"
    printf '#include <redlock.h>\n#include <redlock.h>\n' >"$work/header.c"
    $cc -std=c11 $strict -Wstrict-prototypes -Wconversion -fsyntax-only "$work/header.c" $(pkg-config --cflags redlock)
}

if [ -x "$prefix/bin/redlock-chaos" ]; then
    say "fault-injection harness"
    for file in docker-compose.yml peers/naive.py; do
        [ -f "$prefix/share/redlock/$file" ] || fail "there is no share/redlock/$file"
    done
    [ -f "$prefix/share/man/man1/redlock-chaos.1" ] || fail "there is no man page of redlock-chaos"
    [ -x "$prefix/bin/redlock-chaos-control" ] || fail "there is no redlock-chaos-control"
    [ -f "$libdir/redlock/libredlock_clock_preload.so" ] || fail "there is no library for clocks"
    # 3: too busy a machine; here it matters that it finds everything, in a prefix that was moved.
    mkdir "$work/moved"
    cp -r "$prefix" "$work/moved/prefix"
    status=0
    "$work/moved/prefix/bin/redlock-chaos" run --quick --quiet --runtime process --out "$work/report" calm \
        >"$work/log" 2>&1 || status=$?
    if [ "$status" -ne 0 ] && [ "$status" -ne 3 ]; then
        cat "$work/log"
        fail "redlock-chaos: exit status $status"
    fi
fi

say "exported symbols"
nm -D --defined-only "$libdir/libredlock.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$work/exported"
# Declarations end in ; and carry the attribute; comments and macros are gone after cpp.
$cc -E -P "$prefix/include/redlock.h" | tr '\n' ' ' | tr ';' '\n' | grep 'visibility("default")' |
    grep -oE 'redlock_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u >"$work/declared"
[ -s "$work/declared" ] || fail "found no declaration in redlock.h"
if ! diff "$work/declared" "$work/exported" >"$work/diff"; then
    sed -n 's/^</declared, not exported:/p; s/^>/exported, not declared:/p' "$work/diff"
    fail "redlock.h and the shared library differ"
fi
bad=$(grep -vE '^redlock_[a-z]' "$work/exported" || :)
[ -z "$bad" ] || fail "internal names are exported: $bad"

say "README example"
marker='<!-- example: checked by tests/scripts/check_installed.sh -->'
if [ ! -f "$root/README.md" ]; then
    echo "check_installed: there is no README.md yet; its example is not checked"
else
    awk -v marker="$marker" '$0 == marker { seen = 1; next } seen && /^```c$/ { inside = 1; next }
        inside && /^```$/ { exit } inside' "$root/README.md" >"$work/example.c"
    lines=$(wc -l <"$work/example.c")
    [ "$lines" -gt 0 ] || fail "README.md has no \`\`\`c block after the line: $marker"
    [ "$lines" -le 25 ] || fail "the example has $lines lines; 25 at most"
    # shellcheck disable=SC2086,SC2046
    $cc -std=c11 $strict "$work/example.c" -o "$work/example" $(pkg-config --cflags --libs redlock)
    echo "check_installed: $lines lines compile as they are"
fi
echo "check_installed: all well, $(wc -l <"$work/exported") exported functions, version $version"
