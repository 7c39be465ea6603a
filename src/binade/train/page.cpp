#include "binade/train/page.h"

#include "binade/train/chart.h"

namespace binade::train {
namespace {

constexpr const char* style = R"(
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1d2328; --soft: #5d6770; --line: #dde2e6; --panel: #f5f7f8; --c0: #2468b4; --c1: #d1602b; --c2: #2a8a4a; --c3: #9a4bb5; --c4: #b58a00; --c5: #c23a5e; --c6: #128a94; --c7: #6b7280; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14181b; --ink: #e4e8eb; --soft: #9aa5ae; --line: #333b41; --panel: #1d2226; --c0: #6aaaf0; --c1: #f09a68; --c2: #6cc98a; --c3: #cf92e6; --c4: #e0bd4a; --c5: #f0809c; --c6: #5cc6d0; --c7: #a3adb8; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1rem; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0.5rem 0; }
h2 { font-size: 1.15rem; margin: 1.5rem 0 0.5rem; }
p { color: var(--soft); margin: 0.25rem 0 1rem; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: 0.75rem; margin: 0; }
dl div { background: var(--panel); border-radius: 8px; padding: 0.6rem 0.8rem; }
dt { color: var(--soft); font-size: 0.85rem; }
dd { margin: 0; font-size: 1.2rem; font-variant-numeric: tabular-nums; }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 1rem; margin-top: 1rem; }
figure { margin: 0; background: var(--panel); border-radius: 8px; padding: 0.75rem; }
figcaption { font-weight: 600; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg .tick { fill: var(--soft); }
@media (max-width: 36rem) { svg text { font-size: 16px; } }
.grid { stroke: var(--line); }
.axis { stroke: var(--soft); fill: none; }
.s0, .s1, .s2, .s3, .s4, .s5, .s6, .s7 { fill: none; stroke-width: 2; stroke-linejoin: round; }
.s0 { stroke: var(--c0); }
.s1 { stroke: var(--c1); }
.s2 { stroke: var(--c2); }
.s3 { stroke: var(--c3); }
.s4 { stroke: var(--c4); }
.s5 { stroke: var(--c5); }
.s6 { stroke: var(--c6); }
.s7 { stroke: var(--c7); }
.f0 { fill: var(--c0); }
.f1 { fill: var(--c1); }
.f2 { fill: var(--c2); }
.f3 { fill: var(--c3); }
.f4 { fill: var(--c4); }
.f5 { fill: var(--c5); }
.f6 { fill: var(--c6); }
.f7 { fill: var(--c7); }
.bar { fill: var(--c0); }
pre { background: var(--panel); border-radius: 8px; padding: 0.75rem; overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; font-size: 0.85rem; }
.faint { opacity: 0.35; }
.mark { stroke: var(--soft); stroke-dasharray: 4 3; }
table { border-collapse: collapse; margin: 0.5rem 0 1rem; font-variant-numeric: tabular-nums; font-size: 0.95rem; }
th, td { padding: 0.3rem 0.9rem 0.3rem 0; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
th { color: var(--soft); font-weight: 500; }
.wide { overflow-x: auto; }
.proves { background: var(--panel); border-left: 4px solid var(--c2); border-radius: 4px; padding: 0.6rem 0.9rem; color: var(--ink); }
section { margin-top: 2.5rem; }
.told { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 1.5rem; }
.told > div { min-width: 0; }
.told table { font-size: 0.9rem; }
.told th, .told td { padding-right: 0.7rem; }
.told figure + figure { margin-top: 1rem; }
nav a { margin-right: 1rem; white-space: nowrap; }
a { color: var(--c0); }
)";

}  // namespace

std::string html_page(const std::string& title, const std::string& body) {
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
         "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
         escaped(title) + "</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>" + style +
         "</style>\n</head>\n<body>\n" + body + "</body>\n</html>\n";
}

}  // namespace binade::train
