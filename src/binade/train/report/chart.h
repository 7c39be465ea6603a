#pragma once

#include <string>
#include <utility>
#include <vector>

namespace binade::train {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // by ascending x; non-finite ones leave a gap
};

struct ChartText {
  std::string title;
  std::string x_label;
  std::string y_label;
};

// Line chart as a <figure> with axes and tick labels, and a legend for several series. The page's
// style sheet (html_page.h) colors it. Empty if no point is finite.
std::string line_chart(const ChartText& text, const std::vector<Series>& series);

// Bar chart: horizontal bars with labels for their values.
struct Bar {
  std::string name;
  double value;
  std::string label;
};
std::string bar_chart(const std::string& title, const std::vector<Bar>& bars);

// Round numbers that divide [low, high] into about `count` parts.
std::vector<double> ticks(double low, double high, int count);

// Text for HTML: & < > and quotes escaped.
std::string escaped(const std::string& text);

}  // namespace binade::train
