#include "binade/train/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace binade::train {
namespace {

// Small enough that its text stays readable on a phone, where a chart is 340 pixels wide.
constexpr double width = 460, height = 280;
constexpr double left = 72, right = 24, bottom = 44;
constexpr double legend_row = 20, letter = 7.5;
constexpr size_t max_points = 1200;
constexpr size_t longest_name = 48;
constexpr size_t colors = 8;  // in the style sheet

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
  // Gives an extent to a range without one.
  void widen() {
    if (low < high) return;
    const double half = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= half;
    high += half;
  }
};

struct Frame {
  Range x, y;
  double top = 14;
  double px(double value) const {
    return left + (value - x.low) / (x.high - x.low) * (width - left - right);
  }
  double py(double value) const {
    return height - bottom - (value - y.low) / (y.high - y.low) * (height - top - bottom);
  }
};

bool finite(const std::pair<double, double>& point) {
  return std::isfinite(point.first) && std::isfinite(point.second);
}

// Of many points, the lowest and highest of each stretch, so that spikes stay visible.
std::vector<std::pair<double, double>> thinned(
    const std::vector<std::pair<double, double>>& points) {
  if (points.size() <= max_points) return points;
  std::vector<std::pair<double, double>> result;
  const size_t stretches = max_points / 2;
  for (size_t i = 0; i < stretches; ++i) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(points.size() * i / stretches);
    const auto end =
        points.begin() + static_cast<std::ptrdiff_t>(points.size() * (i + 1) / stretches);
    auto [low, high] = std::minmax_element(
        begin, end, [](const auto& a, const auto& b) { return a.second < b.second; });
    if (low > high) std::swap(low, high);
    result.push_back(*low);
    if (low != high) result.push_back(*high);
  }
  return result;
}

std::string path_of(const Series& series, const Frame& frame) {
  std::string path;
  bool drawing = false;
  for (const auto& point : thinned(series.points)) {
    if (finite(point))
      path += fmt::format("{}{:.1f} {:.1f}", drawing ? "L" : "M", frame.px(point.first),
                          frame.py(point.second));
    drawing = finite(point);
  }
  return path;
}

std::string axes(const ChartText& text, const Frame& frame) {
  std::string svg;
  for (const double y : ticks(frame.y.low, frame.y.high, 5)) {
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", left,
        width - right, frame.py(y), frame.py(y));
    svg += fmt::format(
        "<text class=\"tick\" text-anchor=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{:g}</text>", left - 6,
        frame.py(y) + 4, y);
  }
  for (const double x : ticks(frame.x.low, frame.x.high, 6)) {
    svg += fmt::format(
        "<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{:.1f}\">{:g}</text>",
        frame.px(x), height - bottom + 18, x);
  }
  svg += fmt::format("<path class=\"axis\" d=\"M{} {}V{}H{}\"/>", left, frame.top, height - bottom,
                     width - right);
  svg += fmt::format("<text class=\"label\" text-anchor=\"middle\" x=\"{}\" y=\"{}\">{}</text>",
                     (left + width - right) / 2, height - 10, escaped(text.x_label));
  svg += fmt::format(
      "<text class=\"label\" text-anchor=\"middle\" transform=\"translate(12 {}) "
      "rotate(-90)\">{}</text>",
      (frame.top + height - bottom) / 2, escaped(text.y_label));
  return svg;
}

std::string class_of(size_t series) {
  return fmt::format("s{}{}", series % colors, series >= colors ? " again" : "");
}

// Names in as many rows as needed; moves the frame's top below them.
std::string legend(const std::vector<Series>& series, Frame& frame) {
  if (series.size() < 2) return "";
  std::string svg;
  double x = left, y = 14;
  for (size_t i = 0; i < series.size(); ++i) {
    const std::string& name = series[i].name;
    const std::string shown =
        name.size() <= longest_name ? name : "..." + name.substr(name.size() - longest_name + 3);
    const double wide = 40 + letter * static_cast<double>(shown.size());
    if (x > left && x + wide > width) {
      x = left;
      y += legend_row;
    }
    svg += fmt::format("<line class=\"{}\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", class_of(i),
                       x, x + 16, y, y);
    svg += fmt::format("<text class=\"tick\" x=\"{}\" y=\"{}\">{}</text>", x + 21, y + 4,
                       escaped(shown));
    x += wide;
  }
  frame.top = y + legend_row;
  return svg;
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::vector<double> ticks(double low, double high, int count) {
  const double rough = (high - low) / count;
  if (!(rough > 0) || !std::isfinite(rough)) return {};
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= rough) step = factor * power;
  }
  std::vector<double> result;
  const auto first = static_cast<int64_t>(std::ceil(low / step - 1e-9)),
             last = static_cast<int64_t>(std::floor(high / step + 1e-9));
  for (int64_t i = first; i <= last; ++i) result.push_back(static_cast<double>(i) * step);
  return result;
}

std::string line_chart(const ChartText& text, const std::vector<Series>& series) {
  Frame frame;
  for (const Series& one : series) {
    for (const auto& point : one.points) {
      if (!finite(point)) continue;
      frame.x.add(point.first);
      frame.y.add(point.second);
    }
  }
  if (frame.x.empty()) return "";
  frame.x.widen();
  frame.y.widen();
  std::string svg = fmt::format(
      "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"{}\">",
      escaped(text.title), width, height, escaped(text.title));
  svg += legend(series, frame);
  svg += axes(text, frame);
  for (size_t i = 0; i < series.size(); ++i)
    svg += fmt::format("<path class=\"{}\" d=\"{}\"/>", class_of(i), path_of(series[i], frame));
  return svg + "</svg></figure>\n";
}

std::string bar_chart(const std::string& title, const std::vector<Bar>& bars) {
  double most = 0, names = 96;
  for (const Bar& bar : bars) {
    most = std::max(most, bar.value);
    names = std::max(names, 9 * static_cast<double>(bar.name.size()) + 6);
  }
  if (!(most > 0)) return "";
  const double row = 32, values = 76, tall = row * static_cast<double>(bars.size()) + 8;
  std::string svg = fmt::format(
      "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"{}\">",
      escaped(title), width, tall, escaped(title));
  for (size_t i = 0; i < bars.size(); ++i) {
    const double y = row * static_cast<double>(i) + 4,
                 length = bars[i].value / most * (width - names - values);
    svg += fmt::format("<text class=\"label\" x=\"0\" y=\"{}\">{}</text>", y + 18,
                       escaped(bars[i].name));
    svg += fmt::format("<rect class=\"bar\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"22\"/>",
                       names, y, length);
    svg += fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{}\">{}</text>", names + length + 8,
                       y + 17, escaped(bars[i].label));
  }
  return svg + "</svg></figure>\n";
}

}  // namespace binade::train
