#pragma once

#include <string>
#include <utility>
#include <vector>

#include "binade/train/report/chart.h"

namespace binade::train {

// A self-contained HTML page, light and dark, for wide and narrow screens; complete without its
// script, which makes line charts answer the pointer (chart_script.h). `body` is HTML, `title` is
// plain text. Above 0 `refresh_seconds` makes the browser load it again.
//
// Its style sheet has the colors of charts: .s0 to .s7 for lines and .f0 to .f7 for areas in the
// palette that format_style (chart.h) assigns to number formats, .s8 and .f8 in the color of text,
// .d1 to .d4 for dashes, .n0 to .n5 for areas that are not formats.
std::string page(const std::string& title, const std::string& body, int refresh_seconds = 0);

// One number with its name, for a <dl>; `note` is a smaller line below it. All are plain text.
std::string tile(const std::string& name, const std::string& value, const std::string& note = {});

// A table that scrolls on screens narrower than itself. Cells are HTML; `detail` names the columns
// that narrow screens leave out.
struct Table {
  std::vector<std::string> header = {};
  std::vector<std::vector<std::string>> rows = {};
  std::vector<std::string> detail = {};
};
std::string to_html(const Table& table);

// Facts below a title, such as the date of a run: plain text, names first. Empty values are left
// out.
std::string facts(const std::vector<std::pair<std::string, std::string>>& values);

// A small square in the color of a style, for tables.
std::string swatch(const Style& style);

}  // namespace binade::train
