#!/bin/sh
# docs/cases.md names tests: each must exist and be run. That a wrong name is found is tried first.
# shellcheck disable=SC2016 # backquotes in patterns are Markdown's
set -eu

case ${1-} in
-h | --help)
    cat <<'USAGE'
usage: check_cases.sh
Checks that each `label/test_file.c: name` in docs/cases.md is a test in tests/label/test_file.c
that runs, and that each row of its tables has one, or says "no test".
Exit 0: all in order. 1: each line says what is wrong.
USAGE
    exit 0
    ;;
esac
root=${REDLOCK_SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
span='`[a-z]*/test_[a-z0-9_]*\.c: [A-Za-z0-9_]*`'

complaints() { # complaints PAGE: a line for each mistake in it
    grep -o "$span" "$1" | tr -d '`:' | sort -u | while read -r file name; do
        if ! grep -qs "^START_TEST($name)" "$root/tests/$file"; then
            echo "tests/$file has no test $name"
        elif ! grep -v "^START_TEST" "$root/tests/$file" | grep -qw "$name"; then
            echo "tests/$file never runs $name"
        fi
    done
    grep '^| ' "$1" | grep -v '^| Reported |' | grep -v "$span" | grep -v '| no test: ' |
        sed 's/^/no test in the row: /' || true
    # a name in another form would not be looked at
    sed "s#$span##g" "$1" | grep -n '/test_[a-z0-9_]*\.c' | sed 's/^/not understood, line /' || true
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
finds() { # finds WORDS ROW: a page with that row is complained about in these words
    printf '%s\n' "$2" >"$work/page"
    complaints "$work/page" >"$work/said"
    grep -qF -- "$1" "$work/said" || {
        echo "check_cases: nothing is said about: $2" >&2
        exit 1
    }
}
finds 'has no test nobody_wrote_this' '| a | `unit/test_round.c: nobody_wrote_this` |'
finds 'has no test x' '| a | `unit/test_no_such_file.c: x` |'
finds 'no test in the row' '| a | |'
finds 'not understood' '| a | `unit/test_round.c`: half_against_half_is_busy_and_never_hangs |'

complaints "$root/docs/cases.md" >"$work/said"
count=$(grep -o "$span" "$root/docs/cases.md" | sort -u | wc -l)
if [ -s "$work/said" ] || [ "$count" -eq 0 ]; then
    cat "$work/said"
    echo "check_cases: docs/cases.md and the tests differ" >&2
    exit 1
fi
echo "check_cases: $count tests"
