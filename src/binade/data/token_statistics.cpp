#include "binade/data/token_statistics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

namespace binade::data {
namespace {

constexpr int64_t dense_ids = 1 << 20;  // counted in an array; larger ones in a hash table
constexpr size_t shown = 10;

}  // namespace

TokenStatistics statistics_of(const Tokens& tokens) {
  std::vector<int64_t> dense(static_cast<size_t>(dense_ids));
  std::unordered_map<int64_t, int64_t> sparse;
  for (int64_t i = 0; i < tokens.size(); ++i) {
    const int64_t id = tokens[i];
    ++(id < dense_ids ? dense[static_cast<size_t>(id)] : sparse[id]);
  }
  std::map<int64_t, int64_t> counts(sparse.begin(), sparse.end());
  for (int64_t id = 0; id < dense_ids; ++id) {
    if (dense[static_cast<size_t>(id)] > 0) counts[id] = dense[static_cast<size_t>(id)];
  }
  TokenStatistics result{.count = tokens.size(), .distinct = static_cast<int64_t>(counts.size())};
  if (counts.empty()) return result;
  result.smallest = counts.begin()->first;
  result.largest = counts.rbegin()->first;
  for (const auto& [id, count] : counts) {
    const double probability = static_cast<double>(count) / static_cast<double>(result.count);
    result.entropy -= probability * std::log2(probability);
  }
  result.commonest.assign(counts.begin(), counts.end());
  std::stable_sort(result.commonest.begin(), result.commonest.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  result.commonest.resize(std::min(result.commonest.size(), shown));
  return result;
}

}  // namespace binade::data
