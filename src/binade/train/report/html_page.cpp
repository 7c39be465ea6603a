#include "binade/train/report/html_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "binade/train/report/chart_script.h"
#include "binade/train/report/svg.h"

namespace binade::train {
namespace {

// --c0 to --c7 belong to number formats, in the order of format_style: f32, f16, bf16, e4m3, e5m2,
// e2m1, tf32, e4m3fnuz.
constexpr const char* style = R"(
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1d2328; --soft: #5d6770; --line: #dde2e6; --panel: #f5f7f8; --shade: #1d232844;
  --c0: #2468b4; --c1: #d1602b; --c2: #1d8a5f; --c3: #a0449c; --c4: #8a6d00; --c5: #c2304a; --c6: #00808f; --c7: #6b5bd2;
  --n0: #34414c; --n1: #6f8191; --n2: #a9b6c1; --n3: #c9a15b; --n4: #dccdb4; --n5: #e8e3da; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14181b; --ink: #e4e8eb; --soft: #9aa5ae; --line: #333b41; --panel: #1d2226; --shade: #e4e8eb55;
    --c0: #6aaaf0; --c1: #f09a68; --c2: #5cc79a; --c3: #d98ad5; --c4: #d8b93f; --c5: #f2788c; --c6: #4fc3d0; --c7: #a99cf5;
    --n0: #dbe4ea; --n1: #9fb0bd; --n2: #687987; --n3: #b08a48; --n4: #6d5c3d; --n5: #453d30; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 80rem; padding: 1rem; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0.5rem 0; }
h2 { font-size: 1.15rem; margin: 1.75rem 0 0.5rem; }
p { color: var(--soft); margin: 0.25rem 0 1rem; max-width: 50rem; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.4rem, 1fr)); gap: 0.75rem; margin: 0; }
dl div { background: var(--panel); border-radius: 8px; padding: 0.6rem 0.8rem; }
dt { color: var(--soft); font-size: 0.85rem; line-height: 1.3; }
dd { margin: 0; font-size: 1.2rem; font-variant-numeric: tabular-nums; }
dd small { display: block; color: var(--soft); font-size: 0.8rem; line-height: 1.3; }
.facts { list-style: none; margin: 0 0 1rem; padding: 0; display: flex; flex-wrap: wrap; gap: 0.1rem 1.5rem; font-size: 0.9rem; color: var(--soft); }
.facts b { font-weight: 500; color: var(--ink); }
.facts code { color: var(--ink); }
code, pre { font-family: ui-monospace, monospace; font-size: 0.85rem; }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1rem; margin-top: 1rem; align-items: start; }
figure { position: relative; margin: 0; background: var(--panel); border-radius: 8px; padding: 0.75rem; min-width: 0; }
figcaption { font-weight: 600; margin-bottom: 0.25rem; line-height: 1.35; }
figcaption small { display: block; font-weight: 400; color: var(--soft); }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg .tick { fill: var(--soft); }
svg .power { font-size: 10px; }
@media (max-width: 36rem) { svg text { font-size: 16px; } svg .power { font-size: 12px; } }
.key { cursor: pointer; }
.tools { float: right; }
.tools button { font: inherit; font-weight: 400; font-size: 0.8rem; color: var(--soft); background: var(--paper); border: 1px solid var(--line); border-radius: 4px; margin-left: 0.3rem; padding: 0 0.5rem; cursor: pointer; }
.tools button[aria-pressed=true] { color: var(--ink); border-color: var(--soft); }
.values { position: absolute; padding: 0.2rem 0.5rem; background: var(--paper); border: 1px solid var(--line); border-radius: 4px; font-size: 0.8rem; line-height: 1.35; font-variant-numeric: tabular-nums; pointer-events: none; white-space: nowrap; opacity: 0.93; }
.grid { stroke: var(--line); }
.axis { stroke: var(--soft); fill: none; }
.s0, .s1, .s2, .s3, .s4, .s5, .s6, .s7, .s8 { fill: none; stroke-width: 1.75; stroke-linejoin: round; }
.s0 { stroke: var(--c0); } .s1 { stroke: var(--c1); } .s2 { stroke: var(--c2); } .s3 { stroke: var(--c3); }
.s4 { stroke: var(--c4); } .s5 { stroke: var(--c5); } .s6 { stroke: var(--c6); } .s7 { stroke: var(--c7); } .s8 { stroke: var(--ink); }
.d1 { stroke-dasharray: 6 3; } .d2 { stroke-dasharray: 1.5 2.5; } .d3 { stroke-dasharray: 8 3 1.5 3; } .d4 { stroke-dasharray: 12 4; }
.f0 { fill: var(--c0); } .f1 { fill: var(--c1); } .f2 { fill: var(--c2); } .f3 { fill: var(--c3); }
.f4 { fill: var(--c4); } .f5 { fill: var(--c5); } .f6 { fill: var(--c6); } .f7 { fill: var(--c7); } .f8 { fill: var(--ink); }
.n0 { fill: var(--n0); } .n1 { fill: var(--n1); } .n2 { fill: var(--n2); } .n3 { fill: var(--n3); } .n4 { fill: var(--n4); } .n5 { fill: var(--n5); }
.faint { opacity: 0.3; }
.band { fill: var(--soft); opacity: 0.2; }
.hill { opacity: 0.55; }
.range { opacity: 0.13; }
.conclusion { background: var(--panel); border-left: 4px solid var(--soft); border-radius: 4px; padding: 0.6rem 0.9rem; color: var(--ink); }
section { margin-top: 2.5rem; }
.experiment { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 1.5rem; }
.experiment > div { min-width: 0; }
.experiment figure + figure { margin-top: 1rem; }
.wide { overflow-x: auto; background: linear-gradient(90deg, var(--paper) 40%, transparent) 0 0 / 3rem 100% no-repeat local, linear-gradient(270deg, var(--paper) 40%, transparent) 100% 0 / 3rem 100% no-repeat local, linear-gradient(90deg, var(--shade), transparent) 0 0 / 0.9rem 100% no-repeat scroll, linear-gradient(270deg, var(--shade), transparent) 100% 0 / 0.9rem 100% no-repeat scroll; }
nav a { margin-right: 1rem; white-space: nowrap; }
a { color: var(--c0); }
pre { background: var(--panel); border-radius: 8px; padding: 0.75rem; margin: 0 0 1rem; white-space: pre-wrap; }
details { margin-top: 1.75rem; }
summary { font-size: 1.15rem; font-weight: 600; margin-bottom: 0.5rem; cursor: pointer; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 0.92rem; margin-bottom: 0.5rem; }
th, td { text-align: right; padding: 0.35rem 0.45rem; border-bottom: 1px solid var(--line); overflow-wrap: normal; }
td:not(:first-child) { white-space: nowrap; }
th { color: var(--soft); font-weight: 500; font-size: 0.85rem; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; }
td.warn { color: var(--c5); }
.swatch { display: inline-block; width: 0.8em; height: 0.8em; border-radius: 2px; margin-right: 0.4em; vertical-align: -0.05em; }
.swatch svg { width: 100%; height: 100%; }
@media (max-width: 40rem) {
  .detail { display: none; }
  th, td { padding: 0.3rem 0.3rem; font-size: 0.85rem; }
  body { padding: 0.75rem; }
}
)";

}  // namespace

std::string page(const std::string& title, const std::string& body, int refresh_seconds) {
  std::string html =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  if (refresh_seconds > 0)
    html += fmt::format("<meta http-equiv=\"refresh\" content=\"{}\">\n", refresh_seconds);
  // The empty icon keeps a browser from asking for one.
  html += fmt::format(
      "<title>Binade: {}</title>\n<link rel=\"icon\" "
      "href=\"data:,\">\n<style>{}</style>\n</head>\n<body>\n<h1>{}</h1>\n",
      escaped(title), style, escaped(title));
  html += body;
  if (body.find("<g class=\"plot\"") != std::string::npos)
    html += fmt::format("<script>{}</script>\n", chart_script);
  return html + "</body>\n</html>\n";
}

std::string tile(const std::string& name, const std::string& value, const std::string& note) {
  const std::string small =
      note.empty() ? std::string() : fmt::format("<small>{}</small>", escaped(note));
  return fmt::format("<div><dt>{}</dt><dd>{}{}</dd></div>\n", escaped(name), escaped(value), small);
}

std::string to_html(const Table& table) {
  const auto attributes = [&table](size_t column) {
    const auto& detail = table.detail;
    return std::find(detail.begin(), detail.end(), table.header[column]) != detail.end()
               ? " class=\"detail\""
               : "";
  };
  // It can be scrolled by keys, and its shaded edges show that there is more.
  std::string html = "<div class=\"wide\" tabindex=\"0\"><table>\n<thead><tr>";
  for (size_t i = 0; i < table.header.size(); ++i)
    html += fmt::format("<th{}>{}</th>", attributes(i), escaped(table.header[i]));
  html += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    html += "<tr>";
    for (size_t i = 0; i < row.size(); ++i)
      html += fmt::format("<td{}>{}</td>", attributes(i), row[i]);
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table></div>\n";
}

std::string facts(const std::vector<std::pair<std::string, std::string>>& values) {
  std::string items;
  for (const auto& [name, value] : values) {
    if (!value.empty())
      items += fmt::format("<li>{} <b>{}</b></li>\n", escaped(name), escaped(value));
  }
  return items.empty() ? "" : "<ul class=\"facts\">\n" + items + "</ul>\n";
}

std::string swatch(const Style& style) {
  return fmt::format(
      "<span class=\"swatch\"><svg viewBox=\"0 0 10 10\"><rect class=\"{}\" width=\"10\" "
      "height=\"10\"/></svg></span>",
      svg::area_class(style));
}

}  // namespace binade::train
