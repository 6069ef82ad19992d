#!/usr/bin/env bash
# Builds and tests everything; what CI runs, and what a developer runs before a commit.
set -euo pipefail

usage() {
    cat <<'USAGE'
usage: tools/test.sh [--quick] [--preset P]...
Installs what is missing, gets the servers of other versions to test on (tools/servers.sh), then
  dev     gcc, warnings are errors, all tests
  asan    AddressSanitizer and UndefinedBehaviorSanitizer, all tests but the scripts
  tsan    ThreadSanitizer, the tests that have threads
  clang   clang, optimised, warnings are errors; build only
  format, shellcheck, cppcheck
A table at the end says how each went; ctest's closing lines follow it.
  --quick      dev only, on the servers that are there
  --preset P   the same, only P (dev, asan, tsan, clang, format, shellcheck or cppcheck); repeatable
Exit 0: all passed. 1: something failed. 64: usage. 69: something is missing; what to do is said.
USAGE
}

all="dev asan tsan clang format shellcheck cppcheck"
wanted=''
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --quick) wanted="$wanted dev" ;;
    --preset)
        [[ " $all " == *" ${2:-?} "* ]] || { echo "test.sh: --preset is one of: $all" >&2; exit 64; }
        wanted="$wanted $2"
        shift
        ;;
    *) usage >&2; exit 64 ;;
    esac
    shift
done
full=''
[ -n "$wanted" ] || full=1 wanted=$all

exec </dev/null
cd "$(dirname "$0")/.."
export CC=${CC:-gcc} # for a build directory's first configuration
tools/install-deps.sh --for test
mkdir -p build/log
rm -f build/log/*

if [ -n "$full" ]; then
    timeout 300 tools/servers.sh get || echo "test.sh: the tests on servers that are not there will be skipped" >&2
fi

c_files() { find src include tests tools -name '*.[ch]' | sort; }
shell_files() { printf '%s\n' .ci/run tools/primaries; find tests tools -name '*.sh' | sort; }

build() { # build PRESET
    cmake --preset "$1" -DREDLOCK_WERROR=ON >build/log/configure 2>&1 || { cat build/log/configure; return 1; }
    cmake --build --preset "$1"
}
build_and_test() { # build_and_test PRESET
    build "$1" && ctest --preset "$1" 2>&1 | tee "build/log/ctest-$1"
}

step_dev() { build_and_test dev; }
step_asan() { build_and_test asan; }
step_tsan() { build_and_test tsan; }
step_clang() { build clang; }
step_format() {
    # Other versions lay some lines out differently; this one is the judge.
    if ! clang-format --version | grep -q 'version 14\.'; then
        echo "skipped: clang-format 14 is the judge, this is $(clang-format --version)"
        return 0
    fi
    c_files | xargs clang-format --dry-run -Werror && return
    echo "mend it with: clang-format -i \$(find src include tests tools -name '*.[ch]')"
    return 1
}
step_shellcheck() { shell_files | xargs shellcheck; }
step_cppcheck() {
    cppcheck --quiet --error-exitcode=1 --std=c11 --language=c -j 2 --inline-suppr \
        --enable=warning,performance,portability --suppress=missingInclude \
        --suppress=normalCheckLevelMaxBranches -D_GNU_SOURCE '-DREDLOCK_VERSION_STRING=""' \
        -I include -I src src tools
}

table=''
failed=''
for step in $wanted; do
    printf '\n==== %s\n' "$step"
    begun=$SECONDS
    if "step_$step"; then result=passed; else result=FAILED failed="$failed $step"; fi
    table+=$(printf '%-12s %-7s %4s s' "$step" "$result" $((SECONDS - begun)))$'\n'
done

printf '\n==== summary\n%s' "$table"
for step in $wanted; do # so that the last lines say what the tests said
    if [ -f "build/log/ctest-$step" ] && [[ " dev asan tsan " == *" $step "* ]]; then
        printf '\n%s:\n' "$step"
        grep -E '^[0-9]+% tests passed|^Total Test time|^The following tests|^\s+[0-9]+ - ' "build/log/ctest-$step" || :
    fi
done
if [ -n "$failed" ]; then
    printf '\nFailed:%s. One of them alone: tools/test.sh --preset NAME\n' "$failed" >&2
    exit 1
fi
