#pragma once

#include <string>
#include <vector>

#include "binade/train/report/chart.h"

// Pieces of charts, shared by their kinds.
namespace binade::train::svg {

// In the style sheet (html_page.h).
inline constexpr size_t colors = 8, dashes = 5;

// Of every chart, in its own units. Small enough that its text stays readable on a phone, where a
// chart is 340 pixels wide.
inline constexpr double width = 460;

std::string open_figure(const std::string& title, double height, const std::string& id = {});
inline constexpr const char* close_figure = "</svg></figure>\n";

std::string line_class(const Style& style);
std::string area_class(const Style& style);

// The width of a text as drawn on narrow screens, where letters are largest.
double text_width(const std::string& text);

// `anchor` is start, middle or end.
std::string text(const char* css_class, const char* anchor, double x, double y,
                 const std::string& content);
std::string grid_line(double x1, double y1, double x2, double y2);

struct LegendEntry {
  std::string name;
  std::string line_class;  // one of the two, or neither for a note
  std::string area_class;
};
struct Legend {
  std::string svg = {};
  double bottom = 0;  // y at which the chart may begin
};
// Names in as many rows as needed, from x = `left` on.
Legend legend(const std::vector<LegendEntry>& entries, double left);

struct Bars {
  std::string title;
  std::vector<std::string> parts;  // names; empty: bars of one part without a legend
  std::vector<StackedBar> bars;
  std::vector<Style> styles;  // of bars of one part
};
std::string draw_bars(const Bars& bars);

}  // namespace binade::train::svg
