#pragma once

#include <string>
#include <vector>

// Charts over exponents (log2): the ranges of formats and the distribution of values.
namespace binade::lab {

struct RangeBar {
  std::string name;
  double low = 0, high = 0;  // log2
  double from_normal = 0;    // values below it are subnormal and drawn faintly
};
// Horizontal bars of ranges, one per row.
std::string range_chart(const std::string& title, const std::vector<RangeBar>& bars);

// A histogram of exponents.
struct ExponentHistogram {
  std::string name;
  int first = 0;                  // exponent of the first fraction
  std::vector<double> fractions;  // of all values, by exponent
  double zeros = 0;               // fraction of all values
};
// Histograms over one axis, with the ranges of the formats below.
std::string histogram_chart(const std::string& title,
                            const std::vector<ExponentHistogram>& histograms);

// The ranges of the formats a training run may use.
std::vector<RangeBar> format_ranges();

}  // namespace binade::lab
