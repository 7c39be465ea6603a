#pragma once

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace binade::train {

// Longer names are shortened from the left: the end of a module's name says most.
inline constexpr size_t longest_shown_name = 48;

// How a series or a bar is drawn. Colors and dashes are classes of the page's style sheet
// (html_page.h).
struct Style {
  int color = by_position;
  int dash = 0;          // 0: a solid line; 1 to 4: patterns
  bool faint = false;    // in the background of another series
  bool markers = false;  // a dot at each point

  static constexpr int by_position = -1;
  static constexpr int ink = 8;  // the color of text, for what is not a number format
};

// The style of a number format (f32, e4m3, ...) or of a precision by its matmuls' format (fp32,
// fp16-noscale, fp8-delayed, ...). All pages show a format in the same color; precisions of the
// same format differ by their dashes, unless `dash` is given. By position for any other name.
Style format_style(std::string_view name, std::optional<int> dash = {});

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // by ascending x; non-finite ones leave a gap
  Style style = {};
};

// A shaded area between two curves.
struct Band {
  std::string name;
  std::vector<std::array<double, 3>> points;  // x, low, high
};

struct ChartOptions {
  std::string title;
  std::string x_label;
  std::string y_label;
  // Larger values are drawn at the upper edge and counted in a note.
  double y_max = std::numeric_limits<double>::infinity();
  bool from_zero = false;  // the axis of y begins at 0
  std::optional<Band> band = {};
  std::string id = {};  // that a page's links name
};

// Line chart as a <figure> with axes and tick labels, and a legend for several series. A line that
// would hide one before it is dashed, and the legend says so. Empty if no point is finite.
std::string line_chart(const ChartOptions& options, const std::vector<Series>& series);

// Bar chart: horizontal bars with labels for their values. A bar may consist of parts, which the
// legend names.
struct Bar {
  std::string name;
  double value;
  std::string label;
  Style style = {.color = 0};
};
std::string bar_chart(const std::string& title, const std::vector<Bar>& bars);

struct StackedBar {
  std::string name;
  std::vector<double> parts;
  std::string label;  // of their sum
};
std::string stacked_bar_chart(const std::string& title, const std::vector<std::string>& parts,
                              const std::vector<StackedBar>& bars);

// The mean of each point and its `reach` neighbors on either side, fewer near the ends.
Series smoothed(const Series& series, size_t reach);

// A limit for ChartOptions::y_max: infinity, unless a few spikes would flatten the rest of the
// curve.
double robust_limit(const std::vector<std::pair<double, double>>& points);

// Round numbers that divide [low, high] into about `count` parts.
std::vector<double> ticks(double low, double high, int count);

// A number on an axis: "0.25", "1500", "20k", "1.5M", "2.5e-4".
std::string tick_text(double value);

// Text for HTML: & < > and quotes escaped; control characters but line ends and tabs, and those
// that change the order of text, shown as their bytes.
std::string escaped(const std::string& text);

}  // namespace binade::train
