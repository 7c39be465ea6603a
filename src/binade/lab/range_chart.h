#pragma once

#include <string>
#include <vector>

// Pictures over exponents: what a format reaches, and where values lie. All numbers are log2.
namespace binade::lab {

struct RangeBar {
  std::string name;
  double low = 0, high = 0;  // log2
  double from_normal = 0;    // below it numbers are subnormal and drawn faintly
};
// Horizontal bars of ranges, one below the other.
std::string range_chart(const std::string& title, const std::vector<RangeBar>& bars);

// Counts by exponent, over the same axis, with the formats' ranges below it.
struct ExponentHistogram {
  std::string name;
  int first = 0;               // exponent of the first share
  std::vector<double> shares;  // of all values that are not 0
  double zeros = 0;            // share of all values
};
std::string histogram_chart(const std::string& title,
                            const std::vector<ExponentHistogram>& histograms);

// The ranges of the formats a training run may use.
std::vector<RangeBar> format_ranges();

}  // namespace binade::lab
