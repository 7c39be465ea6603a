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

std::string open(const std::string& title, double height) {
  return fmt::format(
      "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"{}\">",
      train::escaped(title), width, height, train::escaped(title));
}

std::string ticks_of(const Axis& axis, double top, double bottom) {
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

// One range: faint where numbers are subnormal. Ends past the axis are cut.
std::string bar_of(const RangeBar& bar, const Axis& axis, double y, size_t colour) {
  const auto rect = [&](double low, double high, const char* extra) -> std::string {
    low = std::max(low, axis.low);
    high = std::min(high, axis.high);
    if (low >= high) return "";
    return fmt::format(
        "<rect class=\"f{}{}\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"14\" rx=\"2\"/>",
        colour % 8, extra, axis.x(low), y + 5, axis.x(high) - axis.x(low));
  };
  return fmt::format("<text class=\"label\" x=\"0\" y=\"{}\">{}</text>", y + 17,
                     train::escaped(bar.name)) +
         rect(bar.low, bar.from_normal, " faint") + rect(bar.from_normal, bar.high, "");
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
  std::string svg = open(title, bottom + 26) + ticks_of(axis, 4, bottom);
  for (size_t i = 0; i < bars.size(); ++i)
    svg += bar_of(bars[i], axis, row * static_cast<double>(i), i);
  return svg + "</svg></figure>\n";
}

std::string histogram_chart(const std::string& title,
                            const std::vector<ExponentHistogram>& histograms) {
  // Four binades of air around what there is, and at least the range of f16.
  Axis axis{-26, 18};
  double most = 0;
  for (const ExponentHistogram& one : histograms) {
    if (one.shares.empty()) continue;
    axis.low = std::min<double>(axis.low, one.first - 4);
    axis.high = std::max<double>(axis.high, one.first + static_cast<double>(one.shares.size()) + 4);
    most = std::max(most, *std::max_element(one.shares.begin(), one.shares.end()));
  }
  if (!(most > 0)) return "";
  const double top = 30, floor = 190;
  std::vector<RangeBar> bars = format_ranges();
  const double bottom = floor + 8 + row * static_cast<double>(bars.size());
  std::string svg = open(title, bottom + 26) + ticks_of(axis, top, bottom);
  double legend = left;
  for (size_t i = 0; i < histograms.size(); ++i) {
    const ExponentHistogram& one = histograms[i];
    std::string path = fmt::format("M{:.1f} {}", axis.x(one.first), floor);
    for (size_t j = 0; j < one.shares.size(); ++j) {
      const double y = floor - one.shares[j] / most * (floor - top);
      path += fmt::format("V{:.1f}H{:.1f}", y, axis.x(one.first + static_cast<double>(j) + 1));
    }
    svg += fmt::format("<path class=\"s{}\" d=\"{}V{}\"/>", i % 8, path, floor);
    const std::string label =
        one.zeros > 0 ? fmt::format("{} ({:.1f}% zeros)", one.name, 100 * one.zeros) : one.name;
    svg += fmt::format("<line class=\"s{}\" x1=\"{}\" x2=\"{}\" y1=\"14\" y2=\"14\"/>", i % 8,
                       legend, legend + 18);
    svg += fmt::format("<text class=\"tick\" x=\"{}\" y=\"18\">{}</text>", legend + 24,
                       train::escaped(label));
    legend += 44 + 7 * static_cast<double>(label.size());
  }
  for (size_t i = 0; i < bars.size(); ++i)
    svg += bar_of(bars[i], axis, floor + 8 + row * static_cast<double>(i), 7);
  return svg + "</svg></figure>\n";
}

}  // namespace binade::lab
