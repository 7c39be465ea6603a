#include "binade/train/report/html_page.h"

#include <fmt/format.h>

#include "binade/train/report/chart.h"

namespace binade::train {
namespace {

constexpr const char* style = R"(
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1d2328; --soft: #5d6770; --line: #dde2e6; --panel: #f5f7f8;
  --c0: #2468b4; --c1: #d1602b; --c2: #1d8a5f; --c3: #a0449c; --c4: #8a6d00; --c5: #c2304a; --c6: #00808f; --c7: #6b5bd2; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14181b; --ink: #e4e8eb; --soft: #9aa5ae; --line: #333b41; --panel: #1d2226;
    --c0: #6aaaf0; --c1: #f09a68; --c2: #5cc79a; --c3: #d98ad5; --c4: #d8b93f; --c5: #f2788c; --c6: #4fc3d0; --c7: #a99cf5; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 80rem; padding: 1rem; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0.5rem 0; }
h2 { font-size: 1.15rem; margin: 1.5rem 0 0.5rem; }
p { color: var(--soft); margin: 0.25rem 0 1rem; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: 0.75rem; margin: 0; }
dl div { background: var(--panel); border-radius: 8px; padding: 0.6rem 0.8rem; }
dt { color: var(--soft); font-size: 0.85rem; line-height: 1.3; }
dd { margin: 0; font-size: 1.2rem; font-variant-numeric: tabular-nums; }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1rem; margin-top: 1rem; }
main.two { grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }
figure { margin: 0; background: var(--panel); border-radius: 8px; padding: 0.75rem; }
figcaption { font-weight: 600; margin-bottom: 0.25rem; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg .tick { fill: var(--soft); }
@media (max-width: 36rem) { svg text { font-size: 16px; } }
.grid { stroke: var(--line); }
.axis { stroke: var(--soft); fill: none; }
.s0, .s1, .s2, .s3, .s4, .s5, .s6, .s7 { fill: none; stroke-width: 1.75; stroke-linejoin: round; }
.s0 { stroke: var(--c0); } .s1 { stroke: var(--c1); } .s2 { stroke: var(--c2); } .s3 { stroke: var(--c3); }
.s4 { stroke: var(--c4); } .s5 { stroke: var(--c5); } .s6 { stroke: var(--c6); } .s7 { stroke: var(--c7); }
.again { stroke-dasharray: 5 3; }
.f0 { fill: var(--c0); } .f1 { fill: var(--c1); } .f2 { fill: var(--c2); } .f3 { fill: var(--c3); }
.f4 { fill: var(--c4); } .f5 { fill: var(--c5); } .f6 { fill: var(--c6); } .f7 { fill: var(--c7); }
.bar { fill: var(--c0); }
.faint { opacity: 0.35; }
.mark { stroke: var(--soft); stroke-dasharray: 4 3; }
.conclusion { background: var(--panel); border-left: 4px solid var(--c2); border-radius: 4px; padding: 0.6rem 0.9rem; color: var(--ink); }
section { margin-top: 2.5rem; }
.experiment { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 1.5rem; }
.experiment > div { min-width: 0; }
.experiment figure + figure { margin-top: 1rem; }
.wide { overflow-x: auto; }
nav a { margin-right: 1rem; white-space: nowrap; }
a { color: var(--c0); }
pre { background: var(--panel); border-radius: 8px; padding: 0.75rem; margin: 0; white-space: pre-wrap; font-size: 0.85rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 0.92rem; }
th, td { text-align: right; padding: 0.35rem 0.45rem; border-bottom: 1px solid var(--line); overflow-wrap: normal; }
td:not(:first-child) { white-space: nowrap; }
th { color: var(--soft); font-weight: 500; font-size: 0.85rem; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; }
@media (max-width: 40rem) {
  table, tbody, tr, td { display: block; }
  thead { display: none; }
  tr { background: var(--panel); border-radius: 8px; padding: 0.4rem 0.8rem; margin-bottom: 0.75rem; }
  td { display: flex; justify-content: space-between; gap: 1rem; padding: 0.15rem 0; border: 0; }
  td:first-child { font-weight: 600; }
  td:not(:first-child)::before { content: attr(data-name); color: var(--soft); }
}
)";

}  // namespace

std::string page(const std::string& title, const std::string& body) {
  std::string html =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  // The empty icon keeps a browser from asking for one.
  html += fmt::format(
      "<title>Binade: {}</title>\n<link rel=\"icon\" "
      "href=\"data:,\">\n<style>{}</style>\n</head>\n<body>\n<h1>{}</h1>\n",
      escaped(title), style, escaped(title));
  return html + body + "</body>\n</html>\n";
}

std::string tile(const std::string& name, const std::string& value) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped(name), escaped(value));
}

}  // namespace binade::train
