#pragma once

#include <vector>

#include "binade/data/tokens.h"

namespace binade::data {

struct TokenStatistics {
  int64_t count = 0;
  int64_t distinct = 0;
  int64_t smallest = 0, largest = 0;
  double entropy = 0;  // bits per token, of the distribution of single tokens
  std::vector<std::pair<int64_t, int64_t>> commonest;  // id and count, at most ten
};

TokenStatistics statistics_of(const Tokens& tokens);

}  // namespace binade::data
