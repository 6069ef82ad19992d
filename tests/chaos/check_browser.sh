#!/bin/sh
# A browser's view of report.html: whether it complains, and where things really are. Labels are
# placed without measuring text, so here they are measured.
set -eu

usage() {
    cat <<'USAGE'
usage: check_browser.sh [REPORT.html]
Opens a report in headless Chromium. Without an argument the report is a sample, written by the
program that CHAOS_REPORT_TEST names.
Exit 0: all in order. 1: something is not; each line says what. 77: no Chromium here.
USAGE
}

case ${1-} in -h | --help) usage; exit 0 ;; esac
browser=
for name in chromium chromium-browser google-chrome; do
    browser=$(command -v "$name") && break
done
[ -n "$browser" ] || { echo "skipped: no Chromium; tools/install-deps.sh --for browser"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
report=${1-}
if [ -z "$report" ]; then
    report=$work/report.html
    CHAOS_REPORT_SAMPLE=$report "$CHAOS_REPORT_TEST" >/dev/null
fi
failed=0
fail() {
    printf '%s\n' "$1"
    failed=1
}

browse() { # browse FILE OPTION...: its DOM on standard output, what it says in $work/log
    page=$1
    shift
    timeout 120 "$browser" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --no-first-run --user-data-dir="$work/profile" --window-size=1300,2000 \
        --enable-logging=stderr "$@" "file://$page" 2>"$work/log"
}

# As it is. Whatever the console says is too much: there is no script, and nothing to load.
browse "$(realpath "$report")" --dump-dom >"$work/dom" || fail "Chromium failed: $(tail -n 3 "$work/log")"
grep -q '<svg[^>]*class="plot timeline"' "$work/dom" || fail "no timeline in it"
if grep ':CONSOLE' "$work/log"; then fail "the console is not silent"; fi
browse "$(realpath "$report")" --screenshot="$work/picture.png" >/dev/null || fail "no picture"
[ "$(wc -c <"$work/picture.png")" -gt 20000 ] || fail "the picture shows nothing"

# Once more with a script that measures; the page's own policy would refuse it.
cat >"$work/measure" <<'SCRIPT'
<pre id="measured"></pre><script>
const said = [];
const inside = (a, b) => a.left >= b.left - .5 && a.right <= b.right + .5;
const meet = (a, b) => a.left < b.right - .5 && b.left < a.right - .5 &&
    a.top < b.bottom - .5 && b.top < a.bottom - .5;
const box = element => element.getBoundingClientRect();
for (const svg of document.querySelectorAll('svg.plot')) {
    const whole = box(svg), where = svg.getAttribute('class') + ' of ' +
        (svg.closest('section') || document.body).id;
    if (whole.width < 300 || whole.height < 30) said.push('no size: ' + where);
    for (const text of svg.querySelectorAll('text'))
        if (!inside(box(text), whole)) said.push('cut: ' + text.textContent + ', ' + where);
    for (const group of svg.querySelectorAll('.fault, .phase, .state')) {
        const text = group.querySelector(':scope > text');
        if (text && !inside(box(text), box(group.querySelector('rect'))))
            said.push('too wide: ' + text.textContent + ', ' + where);
    }
    const labels = [...svg.querySelectorAll('.fault > rect, text.name')].map(box);
    labels.forEach((one, i) => labels.slice(i + 1).forEach(other => {
        if (meet(one, other)) said.push('labels overlap, ' + where);
    }));
}
for (const link of document.querySelectorAll('td > a[href*="-f"]')) {
    const fault = document.querySelector(link.hash);
    if (!fault || !fault.querySelector('text')) said.push('no label: ' + link.textContent);
}
if (document.documentElement.scrollWidth > innerWidth) said.push('the page scrolls sideways');
document.getElementById('measured').textContent =
    document.querySelectorAll('svg.plot').length + ' drawings\n' + said.join('\n') + '\nmeasured';
</script></body></html>
SCRIPT
sed -e '/http-equiv="Content-Security-Policy"/,/\/>/d' -e 's,</body></html>,,' "$report" >"$work/measured.html"
cat "$work/measure" >>"$work/measured.html"
browse "$work/measured.html" --dump-dom >"$work/dom" || fail "Chromium failed: $(tail -n 3 "$work/log")"
sed -n '/<pre id="measured">/,/^measured/p' "$work/dom" | sed 's/.*<pre id="measured">//; /^measured/d; /^$/d' >"$work/said"
grep -q '^measured' "$work/dom" || fail "nothing was measured: $(grep ':CONSOLE' "$work/log")"
grep -q '^[1-9][0-9]* drawings$' "$work/said" || fail "there is no drawing"
if grep -v ' drawings$' "$work/said"; then failed=1; fi
exit "$failed"
