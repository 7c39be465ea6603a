#include "binade/train/report/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/train/report/svg.h"

namespace binade::train {
namespace {

constexpr double least_opacity = 0.06;
constexpr double letter_width = 8.3;

// From 0, the lightest, to 1.
double darkness(const HeatMap& map, double value) {
  const auto position = [&map](double x) {
    return map.logarithmic ? std::log10(std::max(x, 1e-30)) : x;
  };
  const double light = position(map.light), dark = position(map.dark);
  return std::clamp((position(value) - light) / (dark - light), 0.0, 1.0);
}

struct HeatCell {
  double x, y, width, height;
};

std::string draw_cell(const HeatMap& map, const HeatCell& cell, double dark) {
  return fmt::format(
      "<rect class=\"f{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" "
      "fill-opacity=\"{:.2f}\"/>",
      map.style.color, cell.x, cell.y, cell.width, cell.height,
      least_opacity + (1 - least_opacity) * dark);
}

// Squares from light to dark between the values they stand for.
std::string draw_scale(const HeatMap& map, double y) {
  constexpr int squares = 7;
  constexpr double side = 14;
  const double left = svg::width / 2 - squares * side / 2;
  const auto label = [&map](double value) {
    return fmt::format("{:g}{}{}", value, map.unit.empty() ? "" : " ", map.unit);
  };
  std::string svg = svg::text("tick", "end", left - 8, y + 12, label(map.light));
  for (int i = 0; i < squares; ++i)
    svg += draw_cell(map, {left + i * side, y, side, side}, i / (squares - 1.0));
  return svg + svg::text("tick", "start", left + squares * side + 8, y + 12, label(map.dark));
}

}  // namespace

std::string heat_map(const HeatMap& map) {
  if (map.rows.empty() || map.steps.empty()) return "";
  size_t longest = 0;
  for (const HeatMap::Row& row : map.rows) longest = std::max(longest, row.name.size());
  const double names = std::min(letter_width * static_cast<double>(longest) + 8, svg::width * 0.52);
  const double columns = svg::width - names - (map.shows_last ? 60 : 0);
  const double width = columns / static_cast<double>(map.steps.size());
  const double floor = map.row_height * static_cast<double>(map.rows.size());
  const double gap = map.row_height > 16 ? 1 : 0;  // between rows
  std::string svg = svg::open_figure(map.title, floor + 64);
  for (size_t i = 0; i < map.rows.size(); ++i) {
    const HeatMap::Row& row = map.rows[i];
    const double y = map.row_height * static_cast<double>(i), middle = y + map.row_height / 2 + 5.5;
    if (!row.name.empty()) svg += svg::text("label", "start", 0, middle, row.name);
    for (size_t j = 0; j < row.values.size(); ++j) {
      if (!std::isfinite(row.values[j])) continue;
      svg += draw_cell(map,
                       {names + width * static_cast<double>(j), y + gap, width + 0.1,
                        map.row_height - 2 * gap + (gap > 0 ? 0 : 0.1)},
                       darkness(map, row.values[j]));
    }
    if (map.shows_last && std::isfinite(row.values.back()))
      svg += svg::text("tick", "start", names + columns + 6, middle,
                       fmt::format("{:.2g}", row.values.back()));
  }
  svg += svg::text("tick", "start", names, floor + 16, fmt::format("{}", map.steps.front()));
  if (map.steps.size() > 1)
    svg +=
        svg::text("tick", "end", names + columns, floor + 16, fmt::format("{}", map.steps.back()));
  svg += svg::text("label", "middle", names + columns / 2, floor + 16, "step");
  if (map.shows_last) svg += svg::text("tick", "start", names + columns + 6, floor + 16, "last");
  return svg + draw_scale(map, floor + 40) + svg::close_figure;
}

}  // namespace binade::train
