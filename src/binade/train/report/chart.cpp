#include "binade/train/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/base/text.h"
#include "binade/train/report/svg.h"

namespace binade::train {
namespace {

constexpr double right = 20, bottom = 44;
constexpr int y_ticks = 5;
constexpr size_t max_points = 1200;
// More markers than this would merge into a line of their own.
constexpr size_t max_markers = 60;

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    if (!std::isfinite(value)) return;
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
  // Keeps curves off the axis.
  void pad_below() {
    const double padded = low - 0.04 * (high - low);
    low = low >= 0 ? std::max(padded, 0.0) : padded;
  }
};

struct Frame {
  Range x, y;
  double top = 14, left = 74, height = 280;
  double px(double value) const {
    return left + (value - x.low) / (x.high - x.low) * (svg::width - left - right);
  }
  // Begins below a legend, and grows with one of more than two rows.
  void make_room(double legend_bottom) {
    constexpr double two_rows = 56;
    top = legend_bottom;
    height += std::max(0.0, legend_bottom - two_rows);
  }
  // Leaves room for the label of the axis of y beside its numbers.
  void fit_ticks() {
    constexpr double label = 26, gap = 6;
    for (const double value : ticks(y.low, y.high, y_ticks))
      left = std::max(left, label + svg::text_width(tick_text(value)) + gap);
  }
  // Values above the range are drawn at its edge.
  double py(double value) const {
    return height - bottom -
           (std::min(value, y.high) - y.low) / (y.high - y.low) * (height - top - bottom);
  }
};

bool finite(const std::pair<double, double>& point) {
  return std::isfinite(point.first) && std::isfinite(point.second);
}

// Keeps the lowest and highest of each stretch of many points, so that spikes stay visible.
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

// Points for the page's script, with a ";" at each gap.
std::string point_values(const std::vector<std::pair<double, double>>& points) {
  std::string text;
  bool is_gap = false;
  for (const auto& point : points) {
    if (!finite(point)) {
      is_gap = !text.empty();
      continue;
    }
    if (!text.empty()) text += is_gap ? ";" : " ";
    text += fmt::format("{:.8g},{:.5g}", point.first, point.second);
    is_gap = false;
  }
  return text;
}

std::string draw_line(const Series& series, const Style& style, const Frame& frame) {
  std::string path, markers;
  const std::vector<std::pair<double, double>> points = thinned(series.points);
  // A single point has no line and would not be seen.
  const bool marked = points.size() == 1 || (style.markers && points.size() <= max_markers);
  bool drawing = false;
  for (const auto& point : points) {
    if (finite(point)) {
      const double x = frame.px(point.first), y = frame.py(point.second);
      path += fmt::format("{}{:.1f} {:.1f}", drawing ? "L" : "M", x, y);
      if (marked) markers += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>", x, y);
    }
    drawing = finite(point);
  }
  std::string result =
      fmt::format("<path class=\"{}\" d=\"{}\" data-name=\"{}\" data-points=\"{}\"/>",
                  svg::line_class(style), path, escaped(series.name), point_values(points));
  if (!markers.empty())
    result += fmt::format("<g class=\"{}\">{}</g>", svg::area_class(style), markers);
  return result;
}

std::string draw_band(const Band& band, const Frame& frame) {
  std::string there, back, values;
  for (const auto& [x, low, high] : band.points) {
    values += fmt::format("{}{:.8g},{:.5g},{:.5g}", values.empty() ? "" : " ", x, low, high);
    there += fmt::format("{}{:.1f} {:.1f}", there.empty() ? "M" : "L", frame.px(x), frame.py(high));
  }
  for (auto point = band.points.rbegin(); point != band.points.rend(); ++point)
    back += fmt::format("L{:.1f} {:.1f}", frame.px((*point)[0]), frame.py((*point)[1]));
  return fmt::format("<path class=\"band\" d=\"{}{}Z\" data-band=\"{}\"/>", there, back, values);
}

std::string axes(const ChartOptions& options, const Frame& frame) {
  const double left = frame.left, height = frame.height;
  std::string result = "<g class=\"ticks\">";
  for (const double y : ticks(frame.y.low, frame.y.high, y_ticks)) {
    result += svg::grid_line(left, frame.py(y), svg::width - right, frame.py(y)) +
              svg::text("tick", "end", left - 6, frame.py(y) + 4, tick_text(y));
  }
  for (const double x : ticks(frame.x.low, frame.x.high, 6))
    result += svg::text("tick", "middle", frame.px(x), height - bottom + 18, tick_text(x));
  result += fmt::format("</g><path class=\"axis\" d=\"M{} {}V{}H{}\"/>", left, frame.top,
                        height - bottom, svg::width - right);
  result +=
      svg::text("label", "middle", (left + svg::width - right) / 2, height - 8, options.x_label);
  result += fmt::format(
      "<text class=\"label\" text-anchor=\"middle\" transform=\"translate(13 {}) "
      "rotate(-90)\">{}</text>",
      (frame.top + height - bottom) / 2, escaped(options.y_label));
  return result;
}

// Whether the line of one series hides that of another, drawn before it.
bool hides(const Series& front, const Series& back, const Frame& frame) {
  constexpr double pixel = 1;
  bool has_points = false;
  return front.points.size() == back.points.size() &&
         std::equal(front.points.begin(), front.points.end(), back.points.begin(),
                    [&](const auto& a, const auto& b) {
                      if (!finite(a) || !finite(b)) return finite(a) == finite(b);
                      has_points = true;
                      return a.first == b.first &&
                             std::abs(frame.py(a.second) - frame.py(b.second)) < pixel;
                    }) &&
         has_points;
}

// The series with dashes for those that would hide another, so that both show; how many these are.
size_t dash_equal_lines(std::vector<Series>& series, const Frame& frame) {
  size_t count = 0;
  for (size_t i = 0; i < series.size(); ++i) {
    const auto hidden =
        std::count_if(series.begin(), series.begin() + static_cast<std::ptrdiff_t>(i),
                      [&](const Series& back) { return hides(series[i], back, frame); });
    if (hidden == 0) continue;
    series[i].style.dash =
        1 + static_cast<int>(static_cast<size_t>(hidden - 1) % (svg::dashes - 1));
    series[i].style.markers = false;
    ++count;
  }
  return count;
}

// The legend of a line chart with this many lines on others.
std::vector<svg::LegendEntry> entries(const ChartOptions& options,
                                      const std::vector<Series>& series, size_t equal_lines) {
  std::vector<svg::LegendEntry> result;
  for (const Series& one : series) {
    const bool has_values = std::any_of(one.points.begin(), one.points.end(), finite);
    result.push_back(
        {shortened_from_left(one.name, longest_shown_name) + (has_values ? "" : " (no values)"),
         svg::line_class(one.style),
         {}});
  }
  if (options.band) result.push_back({options.band->name, {}, "band"});
  if (equal_lines > 0)
    result.push_back({fmt::format("{} dashed line{} on another", equal_lines,
                                  equal_lines == 1 ? " lies" : "s lie"),
                      {},
                      {}});
  return result;
}

// A note on the values above the frame.
std::string outliers(const std::vector<Series>& series, const Frame& frame) {
  size_t count = 0;
  double most = 0;
  for (const Series& one : series) {
    for (const auto& point : one.points) {
      if (!finite(point) || point.second <= frame.y.high) continue;
      ++count;
      most = std::max(most, point.second);
    }
  }
  if (count == 0) return "";
  return "<g class=\"outliers\">" +
         svg::text("tick", "end", svg::width - right, frame.top + 12,
                   fmt::format("{} higher, up to {:.3g}", count, most)) +
         "</g>";
}

// The group of a chart, with what the page's script (chart_script.h) reads.
std::string open_plot(const ChartOptions& options, const Frame& frame) {
  return fmt::format(
      "<g class=\"plot\" data-x=\"{:.10g} {:.10g}\" data-y=\"{:.10g} {:.10g}\" "
      "data-frame=\"{} {} {}\" data-label=\"{}\"{}>",
      frame.x.low, frame.x.high, frame.y.low, frame.y.high, frame.left, frame.top,
      frame.height - bottom, escaped(options.x_label), options.from_zero ? " data-zero=\"1\"" : "");
}

// Series with a color each.
std::vector<Series> colored(std::vector<Series> series) {
  for (size_t i = 0; i < series.size(); ++i) {
    Style& style = series[i].style;
    if (style.color != Style::by_position) continue;
    style.color = static_cast<int>(i % svg::colors);
    style.dash = static_cast<int>(i / svg::colors % svg::dashes);
  }
  return series;
}

}  // namespace

Style format_style(std::string_view name, std::optional<int> dash) {
  struct Entry {
    std::string_view name;
    int color, dash;
  };
  // The palette's order in html_page.cpp.
  constexpr Entry known[] = {{"f32", 0, 0},         {"fp32", 0, 0},         {"f16", 1, 0},
                             {"fp16", 1, 0},        {"fp16-noscale", 1, 1}, {"bf16", 2, 0},
                             {"e4m3", 3, 0},        {"fp8", 3, 0},          {"fp8-delayed", 3, 0},
                             {"fp8-current", 3, 1}, {"fp8-row", 3, 2},      {"fp8-block", 3, 3},
                             {"fp8-mx", 3, 4},      {"e5m2", 4, 0},         {"e2m1", 5, 0},
                             {"tf32", 6, 0},        {"e4m3fnuz", 7, 0}};
  for (const Entry& entry : known) {
    if (entry.name == name) return {.color = entry.color, .dash = dash.value_or(entry.dash)};
  }
  return {};
}

std::string escaped(const std::string& text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t length = std::max<size_t>(utf8_length(text, at), 1);
    const std::string character = text.substr(at, length);
    at += length;
    const bool hidden = is_bidi_control(character) || is_control(character);
    switch (character[0]) {
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
      case '\n':
      case '\t':
        result += character;
        break;
      default:
        result += hidden ? visible(character) : character;
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

std::string tick_text(double value) {
  constexpr std::pair<double, const char*> units[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  if (std::abs(value) >= 1e4 && std::abs(value) < 1e13) {
    for (const auto& [size, unit] : units) {
      if (std::abs(value) >= size) return fmt::format("{:g}{}", value / size, unit);
    }
  }
  if (value != 0 && (std::abs(value) < 1e-3 || std::abs(value) >= 1e13)) {
    const double power = std::floor(std::log10(std::abs(value)) + 1e-9);
    return fmt::format("{:.4g}e{:g}", value / std::pow(10, power), power);
  }
  return fmt::format("{:g}", value);
}

Series smoothed(const Series& series, size_t reach) {
  Series result{series.name, {}, series.style};
  const size_t count = series.points.size();
  for (size_t i = 0; i < count; ++i) {
    // As far on one side as on the other, so that a slope does not shift the mean.
    const size_t around = std::min({reach, i, count - 1 - i});
    double sum = 0;
    for (size_t j = i - around; j <= i + around; ++j) sum += series.points[j].second;
    result.points.emplace_back(series.points[i].first, sum / static_cast<double>(2 * around + 1));
  }
  return result;
}

double robust_limit(const std::vector<std::pair<double, double>>& points) {
  std::vector<double> values;
  for (const auto& point : points) {
    if (finite(point)) values.push_back(point.second);
  }
  if (values.size() < 20) return std::numeric_limits<double>::infinity();
  std::sort(values.begin(), values.end());
  // Room above the usual values; a curve that fits into twice that room is shown in full.
  const double usual = 1.5 * values[values.size() * 97 / 100];
  return values.back() > 2 * usual ? usual : std::numeric_limits<double>::infinity();
}

std::string line_chart(const ChartOptions& options, const std::vector<Series>& given) {
  std::vector<Series> series = colored(given);
  Frame frame;
  for (const Series& one : series) {
    for (const auto& point : one.points) {
      if (!finite(point)) continue;
      frame.x.add(point.first);
      frame.y.add(point.second);
    }
  }
  if (frame.x.empty()) return "";
  if (options.band) {
    for (const auto& point : options.band->points) {
      frame.y.add(point[1]);
      frame.y.add(point[2]);
    }
  }
  frame.y.high = std::min(frame.y.high, std::max(options.y_max, frame.y.low));
  frame.x.widen();
  frame.y.widen();
  frame.y.pad_below();
  if (options.from_zero) frame.y.low = std::min(frame.y.low, 0.0);
  frame.fit_ticks();
  const size_t equal_lines = dash_equal_lines(series, frame);
  svg::Legend legend;
  if (series.size() + (options.band ? 1 : 0) > 1) {
    legend = svg::legend(entries(options, series, equal_lines), frame.left);
    frame.make_room(legend.bottom);
  }
  std::string svg = svg::open_figure(options.title, frame.height, options.id) + legend.svg +
                    open_plot(options, frame) + axes(options, frame) + "<g class=\"curves\">";
  if (options.band) svg += draw_band(*options.band, frame);
  for (const Series& one : series) svg += draw_line(one, one.style, frame);
  return svg + "</g>" + outliers(series, frame) + "</g>" + svg::close_figure;
}

std::string bar_chart(const std::string& title, const std::vector<Bar>& bars) {
  std::vector<StackedBar> stacked;
  std::vector<Style> styles;
  for (const Bar& bar : bars) {
    stacked.push_back({bar.name, {bar.value}, bar.label});
    styles.push_back(bar.style);
  }
  return svg::draw_bars({.title = title, .parts = {}, .bars = stacked, .styles = styles});
}

std::string stacked_bar_chart(const std::string& title, const std::vector<std::string>& parts,
                              const std::vector<StackedBar>& bars) {
  return svg::draw_bars({.title = title, .parts = parts, .bars = bars, .styles = {}});
}

}  // namespace binade::train
