#include "binade/lab/range_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/formats/format.h"
#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

constexpr double width = 640, left = 84, right = 12, row = 26;

struct Axis {
  double low, high;
  double x(double exponent) const {
    return left + (exponent - low) / (high - low) * (width - left - right);
  }
};

std::string open_figure(const std::string& title, double height) {
  return fmt::format(
      "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"{}\">",
      train::escaped(title), width, height, train::escaped(title));
}

std::string tick_marks(const Axis& axis, double top, double bottom) {
  std::string svg;
  for (const double exponent : train::ticks(axis.low, axis.high, 7)) {
    const double x = axis.x(exponent);
    svg += fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>",
                       x, top, bottom);
    svg += fmt::format(
        "<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{}\">2<tspan dy=\"-5\" "
        "font-size=\"10\">{:g}</tspan></text>",
        x, bottom + 18, exponent);
  }
  return svg;
}

// One range, faint in its subnormal part and clipped to the axis.
std::string draw_bar(const RangeBar& bar, const Axis& axis, double y, size_t color) {
  const auto rect = [&](double low, double high, const char* extra) -> std::string {
    low = std::max(low, axis.low);
    high = std::min(high, axis.high);
    if (low >= high) return "";
    return fmt::format(
        "<rect class=\"f{}{}\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"14\" rx=\"2\"/>",
        color % 8, extra, axis.x(low), y + 5, axis.x(high) - axis.x(low));
  };
  return fmt::format("<text class=\"label\" x=\"0\" y=\"{}\">{}</text>", y + 17,
                     train::escaped(bar.name)) +
         rect(bar.low, bar.from_normal, " faint") + rect(bar.from_normal, bar.high, "");
}

struct Heights {
  double top, floor;  // y of the largest fraction and of 0
  double highest;     // the largest fraction
};

std::string draw_histogram(const ExponentHistogram& histogram, const Axis& axis, Heights heights,
                           size_t color) {
  std::string path = fmt::format("M{:.1f} {}", axis.x(histogram.first), heights.floor);
  for (size_t i = 0; i < histogram.fractions.size(); ++i) {
    const double y =
        heights.floor - histogram.fractions[i] / heights.highest * (heights.floor - heights.top);
    path += fmt::format("V{:.1f}H{:.1f}", y, axis.x(histogram.first + static_cast<double>(i) + 1));
  }
  return fmt::format("<path class=\"s{}\" d=\"{}V{}\"/>", color % 8, path, heights.floor);
}

}  // namespace

std::vector<RangeBar> format_ranges() {
  std::vector<RangeBar> bars;
  for (const formats::Format* format :
       {&formats::spec::f32, &formats::spec::bf16, &formats::spec::f16, &formats::spec::e5m2,
        &formats::spec::e4m3, &formats::spec::e4m3fnuz}) {
    bars.push_back({format->name, std::log2(format->min_subnormal()), std::log2(format->max()),
                    std::log2(format->min_normal())});
  }
  return bars;
}

std::string range_chart(const std::string& title, const std::vector<RangeBar>& bars) {
  Axis axis{bars.front().low, bars.front().high};
  for (const RangeBar& bar : bars) {
    axis.low = std::min(axis.low, bar.low);
    axis.high = std::max(axis.high, bar.high);
  }
  const double bottom = row * static_cast<double>(bars.size()) + 4;
  std::string svg = open_figure(title, bottom + 26) + tick_marks(axis, 4, bottom);
  for (size_t i = 0; i < bars.size(); ++i)
    svg += draw_bar(bars[i], axis, row * static_cast<double>(i), i);
  return svg + "</svg></figure>\n";
}

std::string histogram_chart(const std::string& title,
                            const std::vector<ExponentHistogram>& histograms) {
  // Four binades of margin around the values, and at least the range of f16.
  Axis axis{-26, 18};
  double highest = 0;
  for (const ExponentHistogram& one : histograms) {
    if (one.fractions.empty()) continue;
    axis.low = std::min<double>(axis.low, one.first - 4);
    axis.high =
        std::max<double>(axis.high, one.first + static_cast<double>(one.fractions.size()) + 4);
    highest = std::max(highest, *std::max_element(one.fractions.begin(), one.fractions.end()));
  }
  if (!(highest > 0)) return "";
  const double top = 30, floor = 190;
  std::vector<RangeBar> bars = format_ranges();
  const double bottom = floor + 8 + row * static_cast<double>(bars.size());
  std::string svg = open_figure(title, bottom + 26) + tick_marks(axis, top, bottom);
  double legend_x = left;
  for (size_t i = 0; i < histograms.size(); ++i) {
    const ExponentHistogram& one = histograms[i];
    svg += draw_histogram(one, axis, {.top = top, .floor = floor, .highest = highest}, i);
    const std::string label =
        one.zeros > 0 ? fmt::format("{} ({:.1f}% zeros)", one.name, 100 * one.zeros) : one.name;
    svg += fmt::format("<line class=\"s{}\" x1=\"{}\" x2=\"{}\" y1=\"14\" y2=\"14\"/>", i % 8,
                       legend_x, legend_x + 18);
    svg += fmt::format("<text class=\"tick\" x=\"{}\" y=\"18\">{}</text>", legend_x + 24,
                       train::escaped(label));
    legend_x += 44 + 7 * static_cast<double>(label.size());
  }
  for (size_t i = 0; i < bars.size(); ++i)
    svg += draw_bar(bars[i], axis, floor + 8 + row * static_cast<double>(i), 7);
  return svg + "</svg></figure>\n";
}

}  // namespace binade::lab
