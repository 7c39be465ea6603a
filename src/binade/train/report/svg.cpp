#include "binade/train/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace binade::train::svg {
namespace {

constexpr double legend_row = 21;
// Average width of a letter at the font size of narrow screens, the larger one.
constexpr double letter = 8.3;

}  // namespace

double text_width(const std::string& text) { return letter * static_cast<double>(text.size()); }

std::string open_figure(const std::string& title, double height, const std::string& id) {
  return fmt::format(
      "<figure{}><figcaption>{}</figcaption><svg viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"{}\">",
      id.empty() ? "" : fmt::format(" id=\"{}\"", escaped(id)), escaped(title), width, height,
      escaped(title));
}

std::string line_class(const Style& style) {
  std::string result = fmt::format("s{}", style.color);
  if (style.dash > 0) result += fmt::format(" d{}", style.dash);
  return style.faint ? result + " faint" : result;
}

std::string area_class(const Style& style) {
  return fmt::format("f{}{}", style.color, style.faint ? " faint" : "");
}

std::string text(const char* css_class, const char* anchor, double x, double y,
                 const std::string& content) {
  return fmt::format("<text class=\"{}\" text-anchor=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                     css_class, anchor, x, y, escaped(content));
}

std::string grid_line(double x1, double y1, double x2, double y2) {
  return fmt::format(
      "<line class=\"grid\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>", x1, y1, x2,
      y2);
}

Legend legend(const std::vector<LegendEntry>& entries, double left) {
  constexpr double sample = 24;
  Legend result;
  double x = left, y = 14;
  for (const LegendEntry& entry : entries) {
    const bool is_note = entry.line_class.empty() && entry.area_class.empty();
    const double wide = (is_note ? 0 : sample) + 20 + text_width(entry.name);
    if (x > left && x + wide > width) {
      x = left;
      y += legend_row;
    }
    if (is_note) {
      result.svg += text("tick", "start", x, y + 4, entry.name);
      x += wide;
      continue;
    }
    if (entry.line_class.empty()) {
      result.svg += fmt::format(
          "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" rx=\"2\"/>",
          entry.area_class, x + sample - 14, y - 6);
      result.svg += text("tick", "start", x + sample + 2, y + 4, entry.name);
    } else {
      result.svg += fmt::format(
          "<g class=\"key\"><line class=\"{}\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\"/>",
          entry.line_class, x, x + sample - 2, y, y);
      result.svg += text("tick", "start", x + sample + 2, y + 4, entry.name) + "</g>";
    }
    x += wide;
  }
  result.bottom = y + legend_row;
  return result;
}

std::string draw_bars(const Bars& chart) {
  double most = 0, names = 70, labels = 60;
  for (const StackedBar& bar : chart.bars) {
    most = std::max(most, std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0));
    names = std::max(names, text_width(bar.name) + 10);
    labels = std::max(labels, text_width(bar.label) + 22);
  }
  if (!(most > 0)) return "";
  // Long names stand above their bars.
  const bool above = names > width / 3;
  if (above) names = 0;
  std::vector<LegendEntry> entries;
  for (size_t i = 0; i < chart.parts.size(); ++i)
    entries.push_back({chart.parts[i], {}, fmt::format("n{}", i)});
  const Legend legend = svg::legend(entries, 0);
  const double top = entries.empty() ? 4 : legend.bottom, row = above ? 48 : 32;
  std::string svg =
      open_figure(chart.title, top + row * static_cast<double>(chart.bars.size()) + 4) +
      (entries.empty() ? "" : legend.svg);
  for (size_t i = 0; i < chart.bars.size(); ++i) {
    const StackedBar& bar = chart.bars[i];
    const double y = top + row * static_cast<double>(i), y_bar = above ? y + 18 : y;
    svg += text("label", "start", 0, above ? y + 13 : y + 16, bar.name);
    double x = names;
    for (size_t part = 0; part < bar.parts.size(); ++part) {
      const double length = bar.parts[part] / most * (width - names - labels);
      const std::string css =
          chart.styles.empty() ? fmt::format("n{}", part) : area_class(chart.styles[i]);
      svg += fmt::format(
          "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"22\"/>", css, x,
          y_bar, length);
      x += length;
    }
    svg += text("tick", "start", x + 8, y_bar + 16, bar.label);
  }
  return svg + close_figure;
}

}  // namespace binade::train::svg
