/*
 * Colours are told apart by those who see fewer of them, too (blue, yellow, green-blue, violet; red
 * only for what went wrong), and nothing is told by colour alone. The dark theme has its own values
 * of the same names.
 */
#include "report_style.h"

#include <stddef.h>

/* clang-format off */
const char *const report_style[] = {
    ":root{color-scheme:light dark;",
    "--page:#f6f5f2;--card:#fff;--ink:#1f2328;--soft:#5d646d;--faint:#8b929b;--line:#e1dfd9;-"
    "-well:#f3f2ee;",
    "--grid:#ebe9e4;--band:#5b6472;--good:#14706a;--good-bg:#e0f1ee;--bad:#b3261e;--bad-bg:#f"
    "be7e3;",
    "--warn:#8a5a00;--warn-bg:#fbf0d6;--out:#6b3fa0;--out-bg:#efe6f8;--link:#1f5fa8;",
    "--n0:#a3a9b1;--n1:#2f6db5;--n2:#c79400;--n3:#1f9a86;--n4:#8d5cc2;--n5:#6d7885;--n6:#9c5f"
    "2e;",
    "--ok:#5b9bc8;--no:#c8421f;--down:#3c434c;--frozen:#7fb3d9;--barred:#b9bec5;--clock:#7a4b"
    "b0;--dot:#2f6db5;--probe:#2a9a86}",
    "@media (prefers-color-scheme:dark){:root{",
    "--page:#15181c;--card:#1d2126;--ink:#e4e6e9;--soft:#a5acb5;--faint:#7b838d;--line:#32373"
    "e;--well:#24292f;",
    "--grid:#2a2f36;--band:#aab4c2;--good:#6fcfbf;--good-bg:#173431;--bad:#ff8a78;--bad-bg:#4"
    "3211d;",
    "--warn:#e9bd62;--warn-bg:#3a2e14;--out:#c6a3ee;--out-bg:#33264a;--link:#86b8ee;",
    "--n0:#6a727c;--n1:#6aa5e8;--n2:#e3b93c;--n3:#4cc4ae;--n4:#b690e6;--n5:#9aa5b2;--n6:#d09a"
    "6a;",
    "--ok:#4f8fbd;--no:#f0714e;--down:#98a1ac;--frozen:#3f78a3;--barred:#565e68;--clock:#c39a"
    "f0;--dot:#6aa5e8;--probe:#4cc4ae}}",
    "*{box-sizing:border-box}",
    "html{scroll-behavior:smooth;scroll-padding-top:16px}",
    "body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-sys"
    "tem,\"Segoe UI\",Roboto,\"Helvetica Neue\",sans-serif}",
    "main{max-width:1280px;margin:0 auto;padding:28px 24px 64px}",
    "a{color:var(--link);text-decoration-thickness:1px;text-underline-offset:2px}",
    "h1{font-size:26px;line-height:1.25;margin:0 0 4px;letter-spacing:-.01em}",
    "h2{font-size:20px;line-height:1.3;margin:0;letter-spacing:-.005em}",
    "h3{font-size:15px;margin:28px 0 8px}",
    "p{margin:6px 0;max-width:90ch}",
    ".soft{color:var(--soft)}",
    ".note{color:var(--soft);font-size:13px}",
    "code,.code{font-family:ui-monospace,\"SF Mono\",Menlo,Consolas,\"DejaVu Sans Mono\",monospac"
    "e;font-size:.87em}",
    "pre{margin:6px 0;padding:10px 12px;background:var(--well);border-radius:6px;overflow-x:a"
    "uto;white-space:pre-wrap;overflow-wrap:anywhere}",
    "section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:2"
    "2px 24px;margin:20px 0}",
    ".banner{display:flex;align-items:center;gap:16px;border-radius:10px;padding:16px 20px;ma"
    "rgin:18px 0;border:1px solid}",
    ".banner b{font-size:19px;display:block;line-height:1.3}",
    ".banner .sign{font-size:26px;line-height:1;width:40px;height:40px;display:grid;place-ite"
    "ms:center;border-radius:50%;border:2px solid;flex:none}",
    ".v0{color:var(--good);background:var(--good-bg);border-color:var(--good)}",
    ".v1{color:var(--bad);background:var(--bad-bg);border-color:var(--bad)}",
    ".v2{color:var(--warn);background:var(--warn-bg);border-color:var(--warn)}",
    ".v3{color:var(--out);background:var(--out-bg);border-color:var(--out)}",
    ".banner .soft{color:inherit;opacity:.9}",
    ".verdict{display:inline-block;white-space:nowrap;font-size:12.5px;font-weight:600;line-h"
    "eight:1;padding:5px 9px;border-radius:99px}",
    ".head{display:flex;flex-wrap:wrap;align-items:center;gap:10px 14px}",
    ".head .top{margin-left:auto;font-size:13px}",
    ".mode{color:var(--soft);font-weight:400;font-size:15px}",
    ".scroll{overflow-x:auto;overflow-y:hidden}",
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:14px}",
    "table.wide{width:100%}",
    ".checkers td:first-child{width:46px}td.mode{font-size:inherit;white-space:nowrap}",
    "th{text-align:left;font-weight:600;color:var(--soft);font-size:12.5px;white-space:nowrap"
    "}",
    "th,td{padding:6px 14px 6px 0;border-bottom:1px solid var(--line);vertical-align:baseline"
    "}",
    "tr:last-child>td,tr:last-child>th{border-bottom:0}",
    "thead tr:last-child>th{border-bottom:1px solid var(--line)}",
    "td.num,th.num{text-align:right;white-space:nowrap}",
    "td.num+td:not(.num),th.num+th:not(.num){padding-left:14px}",
    "th:last-child,td:last-child{padding-right:0}",
    "tr.zero td.num{color:var(--faint)}",
    ".harm{color:var(--bad);font-weight:700}",
    ".none{color:var(--faint)}",
    "tr.missed td,tr.missed td code{color:var(--bad)}",
    ".met{color:var(--good);white-space:nowrap}.missed .met{color:var(--bad);font-weight:600}",
    ".facts{display:flex;flex-wrap:wrap;gap:10px 24px;margin:16px 0 4px;padding:0}",
    ".facts div{min-width:64px}",
    ".facts dt{font-size:12px;color:var(--soft)}",
    ".facts dd{margin:0;font-size:16px;font-weight:600;font-variant-numeric:tabular-nums}",
    ".reason{font-size:16px;margin:10px 0 0}",
    "ol.violations{list-style:none;margin:0;padding:0}",
    "ol.violations li{border-left:3px solid var(--bad);background:var(--well);border-radius:0"
    " 6px 6px 0;padding:9px 14px;margin:8px 0}",
    "ol.violations li:target{outline:2px solid var(--bad);outline-offset:1px}",
    ".tag{display:inline-block;font-size:12px;font-weight:700;line-height:1;padding:3px 6px;b"
    "order-radius:4px;background:var(--bad);color:var(--card);margin-right:8px}",
    ".where{float:right;margin-left:16px;font-size:13px;white-space:nowrap}",
    "details{margin:14px 0 0;border-top:1px solid var(--line);padding-top:12px}",
    "summary{cursor:pointer;font-weight:600;color:var(--soft);font-size:14px}",
    "details[open]>summary{margin-bottom:8px}",
    "li>details{border:0;padding:0;margin:6px 0 0}",
    "figure{margin:22px 0 0}",
    "figcaption{font-weight:600;font-size:15px;margin-bottom:8px;display:flex;flex-wrap:wrap;"
    "gap:2px 14px;align-items:baseline}",
    "figcaption .note{font-weight:400}",
    ".legend{display:flex;flex-wrap:wrap;gap:2px 18px;font-size:12.5px;color:var(--soft);marg"
    "in:8px 0 0;padding:0;list-style:none}",
    ".legend li{display:flex;align-items:center;gap:6px}",
    ".legend svg{flex:none;overflow:visible}",
    ".compare th.fault{color:var(--ink);font-size:14px;vertical-align:top;padding-top:12px;wh"
    "ite-space:normal;width:130px}",
    ".compare td{vertical-align:top;padding:10px 36px 10px 0}.compare th{padding-right:36px}",
    ".compare .big{font-size:19px;font-weight:650}",
    ".compare .bar{display:block;height:5px;border-radius:3px;background:var(--no);overflow:h"
    "idden;margin:3px 0 7px}",
    ".compare .bar i{display:block;height:100%;background:var(--ok)}",
    ".compare dl{display:grid;grid-template-columns:1fr auto;gap:0 10px;margin:0;font-size:12"
    ".5px;line-height:1.5}",
    ".compare dt{color:var(--soft)}.compare dd{margin:0;text-align:right}",
    ".two{display:grid;grid-template-columns:repeat(auto-fit,minmax(430px,1fr));gap:0 44px}",
    "svg.plot{display:block;width:100%;height:auto}",
    "svg text{font:11px system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",sans-serif"
    ";fill:var(--soft)}",
    ".grid line{stroke:var(--grid)}",
    ".grid text{text-anchor:middle;fill:var(--faint)}.grid text.unit{text-anchor:start}",
    ".scale line{stroke:var(--grid)}.scale text,text.name{text-anchor:end}",
    "text.name{fill:var(--ink)}",
    "text.count{fill:var(--faint)}",
    "text.part{text-anchor:middle;font-weight:600;fill:var(--ink)}",
    ".base{stroke:var(--grid)}",
    ".phase rect{fill:var(--well)}.phase text{text-anchor:middle}",
    ".band rect{fill:var(--band);fill-opacity:.07}",
    ".band path{stroke:var(--band);stroke-opacity:.45;fill:none}",
    ".band.unverified rect{fill-opacity:.04}.band.unverified path{stroke-dasharray:3 3}",
    ".near .band rect{fill-opacity:.04}.near .grid line{stroke:var(--line)}",
    ".hit{fill:var(--band);fill-opacity:.1}",
    ".fault rect{fill:var(--card);stroke:var(--band);stroke-opacity:.6}.fault text{fill:var(-"
    "-ink)}",
    ".fault.unverified rect{stroke-dasharray:3 2}",
    ".fault:target rect{stroke:var(--link);stroke-width:2;stroke-opacity:1}",
    ".state rect{stroke:var(--soft);stroke-opacity:.55}",
    ".state text{font-weight:600;fill:var(--ink);paint-order:stroke;stroke:var(--card);stroke"
    "-width:3px;stroke-linejoin:round}",
    ".down rect{fill:var(--down)}.down text{fill:var(--card);stroke:none}",
    ".frozen rect{fill:url(#frozen)}.barred rect{fill:url(#barred)}.other rect{fill:var(--bar"
    "red)}",
    "#frozen rect{fill:var(--frozen);fill-opacity:.35}#frozen path{stroke:var(--frozen)}",
    "#barred rect{fill:var(--card)}#barred path{stroke:var(--barred)}",
    ".clock path{fill:none;stroke:var(--clock);stroke-width:1.6;stroke-linejoin:round}.clock "
    "text{fill:var(--clock)}",
    ".n0{fill:var(--n0)}.n1{fill:var(--n1)}.n2{fill:var(--n2)}.n3{fill:var(--n3)}.n4{fill:var"
    "(--n4)}.n5{fill:var(--n5)}.n6{fill:var(--n6)}",
    ".s0{stroke:var(--n0)}.s1{stroke:var(--n1)}.s2{stroke:var(--n2)}.s3{stroke:var(--n3)}.s4{"
    "stroke:var(--n4)}.s5{stroke:var(--n5)}.s6{stroke:var(--n6)}",
    ".wait{fill:var(--faint);fill-opacity:.5}.tail{fill:var(--soft)}",
    ".lease.bad rect:not(.wait):not(.tail){stroke:var(--no);stroke-width:1.2}.untrue{fill:ur"
    "l(#untrue)}",
    "#untrue rect{fill:var(--no)}#untrue path{stroke:var(--card);stroke-width:1.4}",
    ".claimed{stroke:var(--ink);stroke-width:1.4}.true{stroke:var(--no);stroke-width:1.6;stro"
    "ke-dasharray:2.4 1.6}",
    ".lost,.legend .lost{fill:var(--no);stroke:var(--card);stroke-width:.8}",
    ".killed{stroke:var(--ink);stroke-width:1.8;fill:none}",
    ".lease:hover rect{stroke:var(--ink);stroke-width:1.2}",
    ".mark .point{fill:var(--no);stroke:var(--card)}.mark .line,.near .line{stroke:var(--no);"
    "stroke-opacity:.4;stroke-dasharray:2 3;fill:none}",
    ".mark:target .line,.mark:hover .line{stroke-opacity:1;stroke-dasharray:none;stroke-width"
    ":1.6}",
    ".mark:target .point{stroke:var(--ink);stroke-width:2}",
    ".probed{stroke:var(--ok);stroke-width:1.4}.unprobed{stroke:var(--no);stroke-width:1.6}",
    ".dot{fill:none;stroke-linecap:round;stroke-width:5;stroke-opacity:.6}",
    ".dot.acquire{stroke:var(--dot)}.dot.probe{stroke:var(--probe)}",
    ".dot.failed{stroke:var(--no);stroke-width:1.4;stroke-opacity:.9}",
    ".dot.bad{stroke-width:9;stroke-opacity:1}",
    ".percentile path{stroke:var(--ink);stroke-width:1.4;fill:none}.percentile.p99 path{strok"
    "e-dasharray:5 3}",
    ".percentile text{text-anchor:end;font-weight:600;fill:var(--ink);paint-order:stroke;stro"
    "ke:var(--card);stroke-width:3.5px;stroke-linejoin:round}",
    ".ok{fill:var(--ok)}.no{fill:var(--no)}",
    "footer{color:var(--soft);font-size:13px}",
    "@media (max-width:700px){main{padding:16px 10px 40px}section{padding:16px 14px}.two{grid"
    "-template-columns:1fr}}",
    "@media print{:root{--page:#fff;--card:#fff;--ink:#000;--soft:#444;--faint:#666;--line:#c"
    "cc;--well:#f3f3f3;--grid:#e4e4e4}",
    "*{print-color-adjust:exact;-webkit-print-color-adjust:exact}",
    "@page{size:A4 landscape;margin:12mm}",
    "body{font-size:12px}main{max-width:none;padding:0}",
    "section{border:0;padding:0;margin:0 0 18px}section.chapter{break-before:page}",
    "figure,table.small,ol.violations li{break-inside:avoid}h3{break-after:avoid}",
    ".scroll{overflow:visible}svg.plot{min-width:0!important;width:100%}",
    ".top{display:none}a{color:inherit}",
    "table.wide:not(.small){font-size:11px}}",
    NULL};
/* clang-format on */

const char report_patterns[] =
    "<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs>\n"
    "<pattern id=\"frozen\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
    "<rect width=\"6\" height=\"6\"/><path d=\"M0 0v6M3 0v6\"/></pattern>\n"
    "<pattern id=\"barred\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
    "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\"/>"
    "<path stroke-width=\"2.4\" d=\"M0 0v6\"/></pattern>\n"
    "<pattern id=\"untrue\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
    "patternTransform=\"rotate(45)\"><rect width=\"5\" height=\"5\"/>"
    "<path d=\"M0 0v5\"/></pattern>\n</defs></svg>\n";
