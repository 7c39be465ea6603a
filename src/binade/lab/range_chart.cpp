#include "binade/lab/range_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/formats/format.h"
#include "binade/train/report/svg.h"

namespace binade::lab {
namespace {

namespace svg = train::svg;

constexpr double right = 14;

// An axis with its place in a chart.
struct Scale {
  ExponentAxis axis;
  double left;
  double x(double exponent) const {
    return left + (exponent - axis.low) / (axis.high - axis.low) * (svg::width - left - right);
  }
};

std::string tick_marks(const Scale& scale, double top, double bottom) {
  std::string result;
  for (const double exponent : train::ticks(scale.axis.low, scale.axis.high, 6)) {
    const double x = scale.x(exponent);
    result += svg::grid_line(x, top, x, bottom);
    result += fmt::format(
        "<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{}\">2<tspan class=\"power\" "
        "dy=\"-5\">{:g}</tspan></text>",
        x, bottom + 18, exponent);
  }
  return result;
}

struct Strip {
  double y, height;
};

// A part of a row from one exponent to another, clipped to the axis.
std::string strip(const Scale& scale, double low, double high, Strip place,
                  const std::string& css_class) {
  low = std::max(low, scale.axis.low);
  high = std::min(high, scale.axis.high);
  if (low >= high) return "";
  return fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" rx=\"2\"/>",
      css_class, scale.x(low), place.y, scale.x(high) - scale.x(low), place.height);
}

struct Heights {
  double top, floor;  // y of the largest fraction and of 0
  double highest;     // the largest fraction
};

// An outline over an area in the same color.
std::string draw_histogram(const HistogramRow& row, const Scale& scale, Heights heights) {
  const ExponentHistogram& histogram = *row.histogram;
  if (histogram.fractions.empty()) return "";
  std::string path = fmt::format("M{:.1f} {:.1f}", scale.x(histogram.first), heights.floor);
  for (size_t i = 0; i < histogram.fractions.size(); ++i) {
    const double y =
        heights.floor - histogram.fractions[i] / heights.highest * (heights.floor - heights.top);
    path += fmt::format("V{:.1f}H{:.1f}", y, scale.x(histogram.first + static_cast<double>(i) + 1));
  }
  path += fmt::format("V{:.1f}", heights.floor);
  return fmt::format("<path class=\"{} hill\" d=\"{}\"/><path class=\"{}\" d=\"{}\"/>",
                     svg::area_class(row.style), path, svg::line_class(row.style), path);
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
  constexpr double row = 28;
  Scale scale{{bars.front().low, bars.front().high}, 84};
  for (const RangeBar& bar : bars) {
    scale.axis.low = std::min(scale.axis.low, bar.low);
    scale.axis.high = std::max(scale.axis.high, bar.high);
  }
  const double bottom = row * static_cast<double>(bars.size()) + 4;
  std::string result = svg::open_figure(title, bottom + 26) + tick_marks(scale, 4, bottom);
  for (size_t i = 0; i < bars.size(); ++i) {
    const RangeBar& bar = bars[i];
    const double y = row * static_cast<double>(i);
    const std::string area = svg::area_class(train::format_style(bar.name));
    result += svg::text("label", "start", 0, y + 19, bar.name);
    result += strip(scale, bar.low, bar.from_normal, {y + 6, 16}, area + " faint") +
              strip(scale, bar.from_normal, bar.high, {y + 6, 16}, area);
  }
  return result + svg::close_figure;
}

ExponentAxis ExponentAxis::around(const std::vector<const ExponentHistogram*>& histograms) {
  constexpr double margin = 2;
  ExponentAxis axis{-26, 18};
  for (const ExponentHistogram* one : histograms) {
    if (one->fractions.empty()) continue;
    axis.low = std::min<double>(axis.low, one->first - margin);
    axis.high = std::max<double>(axis.high,
                                 one->first + static_cast<double>(one->fractions.size()) + margin);
  }
  return axis;
}

std::string histogram_chart(const std::string& title, const std::vector<HistogramRow>& rows,
                            const ExponentAxis& axis) {
  constexpr double row_height = 52, gap = 6;
  double highest = 0;
  for (const HistogramRow& row : rows) {
    for (const double fraction : row.histogram->fractions) highest = std::max(highest, fraction);
  }
  if (!(highest > 0)) return "";
  const Scale scale{axis, 108};
  const double bottom = row_height * static_cast<double>(rows.size());
  std::string result = svg::open_figure(title, bottom + 28) + tick_marks(scale, 0, bottom);
  for (size_t i = 0; i < rows.size(); ++i) {
    const HistogramRow& row = rows[i];
    const double top = row_height * static_cast<double>(i) + gap, floor = top + row_height - gap;
    if (row.range)
      result += strip(scale, row.range->low, row.range->high, {top, floor - top},
                      svg::area_class(row.style) + " range");
    result += draw_histogram(row, scale, {.top = top, .floor = floor, .highest = highest});
    result += svg::text("label", "start", 0, floor - 22, row.name);
    if (const double percent = 100 * row.histogram->zeros; percent > 0)
      result += svg::text("tick", "start", 0, floor - 4,
                          percent < 0.05 ? "<0.1% zeros" : fmt::format("{:.1f}% zeros", percent));
  }
  return result + svg::close_figure;
}

}  // namespace binade::lab
