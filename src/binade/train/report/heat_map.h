#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "binade/train/report/chart.h"

namespace binade::train {

// Values over time: one row per name, one column per step; the darker, the nearer to `dark`.
struct HeatMap {
  struct Row {
    std::string name;            // may be empty
    std::vector<double> values;  // one per step; non-finite ones leave a gap
  };

  std::string title;
  std::vector<int64_t> steps;
  std::vector<Row> rows;  // from the top down
  // Values of the lightest and the darkest color; those beyond them have the same color.
  double light = 0, dark = 1;
  bool logarithmic = false;
  std::string unit = {};  // of the values, for the legend
  Style style = {};
  double row_height = 21;
  bool shows_last = true;  // the last value of each row beside it
};

// As a <figure> with names, steps and a legend. Empty without rows or steps.
std::string heat_map(const HeatMap& map);

}  // namespace binade::train
