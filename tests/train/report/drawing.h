#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "support/pattern.h"

// What a reader sees in a chart: its texts, lines and areas, and numbers read off its axes.
namespace binade::test {

using Point = std::pair<double, double>;

struct Drawing {
  struct Text {
    std::string css, anchor, content;
    double x, y;

    double left() const {
      const double wide = letter * static_cast<double>(content.size());
      return anchor == "start" ? x : anchor == "middle" ? x - wide / 2 : x - wide;
    }
    double right() const { return left() + letter * static_cast<double>(content.size()); }
    static constexpr double letter = 8.3;  // of narrow screens, where letters are largest
  };
  struct Area {
    std::string css;
    double x, y, width, height, opacity;
  };
  struct Line {
    std::string css;
    Point from, to;
  };
  struct Path {
    std::string css;
    std::vector<std::vector<Point>> strokes;
  };

  std::string title;
  double width = 0, height = 0;
  std::vector<Text> texts;
  std::vector<Area> areas;
  std::vector<Line> lines;
  std::vector<Path> paths;
  std::vector<Point> markers;

  std::vector<std::string> contents(const std::string& css) const {
    std::vector<std::string> found;
    for (const Text& text : texts)
      if (text.css == css) found.push_back(text.content);
    return found;
  }
  const Text* text(const std::string& content) const {
    const auto found = std::find_if(texts.begin(), texts.end(),
                                    [&](const Text& one) { return one.content == content; });
    return found == texts.end() ? nullptr : &*found;
  }
  const Path* path(const std::string& css) const {
    const auto found =
        std::find_if(paths.begin(), paths.end(), [&](const Path& one) { return one.css == css; });
    return found == paths.end() ? nullptr : &*found;
  }
};

inline std::vector<std::vector<Point>> strokes_of(const std::string& path) {
  static const Pattern step("([MLVHZ])(-?[0-9.]+)?(?: (-?[0-9.]+))?");
  std::vector<std::vector<Point>> strokes;
  for (const Pattern::Match& one : step.find_all(path)) {
    const double a = std::atof(one[2].c_str()), b = std::atof(one[3].c_str());
    if (one[1] == "M") strokes.emplace_back();
    if (one[1] == "M" || one[1] == "L") strokes.back().emplace_back(a, b);
    if (one[1] == "V") strokes.back().emplace_back(strokes.back().back().first, a);
    if (one[1] == "H") strokes.back().emplace_back(a, strokes.back().back().second);
  }
  return strokes;
}

// The value of an attribute of an element; 0 without it.
inline double attribute(const std::string& element, const std::string& name) {
  const size_t at = element.find(" " + name + "=\"");
  return at == std::string::npos ? 0 : std::atof(element.c_str() + at + name.size() + 3);
}

inline std::string css_of(const std::string& element) {
  const size_t at = element.find(" class=\"");
  return at == std::string::npos ? "" : element.substr(at + 8, element.find('"', at + 8) - at - 8);
}

inline Drawing drawing_of(const std::string& svg) {
  static const Pattern texts("<text class=\"([^\"]*)\" text-anchor=\"([a-z]+)\" ([^>]*)>([^<]*)<"),
      elements("<(rect|line|circle|path)[^>]*>"), title("<figcaption>([^<]*)<"),
      box("viewBox=\"0 0 ([0-9.]+) ([0-9.]+)\""), data(" d=\"([^\"]*)\"");
  Drawing drawing;
  if (const auto found = title.find_all(svg); !found.empty()) drawing.title = found[0][1];
  if (const auto found = box.find_all(svg); !found.empty()) {
    drawing.width = std::atof(found[0][1].c_str());
    drawing.height = std::atof(found[0][2].c_str());
  }
  for (const Pattern::Match& one : texts.find_all(svg))
    drawing.texts.push_back(
        {one[1], one[2], one[4], attribute(" " + one[3], "x"), attribute(" " + one[3], "y")});
  for (const Pattern::Match& found : elements.find_all(svg)) {
    const std::string& one = found[0];
    const auto number = [&one](const char* name) { return attribute(one, name); };
    if (found[1] == "rect")
      drawing.areas.push_back({css_of(one), number("x"), number("y"), number("width"),
                               number("height"), number("fill-opacity")});
    if (found[1] == "line")
      drawing.lines.push_back(
          {css_of(one), {number("x1"), number("y1")}, {number("x2"), number("y2")}});
    if (found[1] == "circle") drawing.markers.emplace_back(number("cx"), number("cy"));
    if (found[1] == "path")
      drawing.paths.push_back({css_of(one), strokes_of(data.find_all(one).at(0)[1])});
  }
  return drawing;
}

// The charts of a page, in its order.
inline std::vector<Drawing> drawings_of(const std::string& html) {
  std::vector<Drawing> drawings;
  for (size_t at = html.find("<figure"); at != std::string::npos; at = html.find("<figure", at)) {
    const size_t end = html.find("</figure>", at);
    drawings.push_back(drawing_of(html.substr(at, end - at)));
    at = end;
  }
  return drawings;
}

// "20k" is 20000.
inline double number_of_tick(const std::string& text) {
  char* rest = nullptr;
  const double value = std::strtod(text.c_str(), &rest);
  return value * (*rest == 'k' ? 1e3 : *rest == 'M' ? 1e6 : *rest == 'G' ? 1e9 : 1);
}

// From positions to values by two of an axis's labels, the first and the last.
struct Axis {
  std::vector<Point> ticks;  // position, value

  double at(double position) const {
    const auto& [a, low] = ticks.front();
    const auto& [b, high] = ticks.back();
    return low + (position - a) / (b - a) * (high - low);
  }
  // What a tenth of a unit makes, as positions are rounded, with the rounding of the labels' own.
  double tolerance() const { return std::abs(at(0.3) - at(0)); }
};

inline Axis x_axis(const Drawing& drawing) {
  Axis axis;
  for (const Drawing::Text& text : drawing.texts)
    if (text.css == "tick" && text.anchor == "middle")
      axis.ticks.emplace_back(text.x, number_of_tick(text.content));
  return axis;
}

// A label stands beside its grid line.
inline Axis y_axis(const Drawing& drawing) {
  Axis axis;
  for (const Drawing::Line& line : drawing.lines) {
    if (line.css != "grid") continue;
    for (const Drawing::Text& text : drawing.texts)
      if (text.css == "tick" && text.anchor == "end" && text.x < line.from.first &&
          std::abs(text.y - 4 - line.from.second) < 0.2)
        axis.ticks.emplace_back(line.from.second, number_of_tick(text.content));
  }
  return axis;
}

}  // namespace binade::test
