#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "binade/train/report/chart.h"

// Charts over exponents (log2): the ranges of formats and the distribution of values.
namespace binade::lab {

struct RangeBar {
  std::string name;
  double low = 0, high = 0;  // log2
  double from_normal = 0;    // values below it are subnormal and drawn faintly
};
// Horizontal bars of ranges, one per row.
std::string range_chart(const std::string& title, const std::vector<RangeBar>& bars);

// The ranges of the formats a training run may use.
std::vector<RangeBar> format_ranges();

// A histogram of exponents.
struct ExponentHistogram {
  std::string name;
  int first = 0;                  // exponent of the first fraction
  std::vector<double> fractions;  // of all values, by exponent
  double zeros = 0;               // fraction of all values
};

// An interval of exponents that several charts share.
struct ExponentAxis {
  double low = 0, high = 0;

  // With a margin around all values, and at least f16's range.
  static ExponentAxis around(const std::vector<const ExponentHistogram*>& histograms);
};

// One row of a histogram chart.
struct HistogramRow {
  std::string name;
  const ExponentHistogram* histogram;
  train::Style style;
  std::optional<RangeBar> range;  // of the format; shaded behind the histogram
};
// Histograms below each other over one axis. Empty if no row has values.
std::string histogram_chart(const std::string& title, const std::vector<HistogramRow>& rows,
                            const ExponentAxis& axis);

}  // namespace binade::lab
