#include "binade/backend/cpu/index/sort.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "binade/backend/cpu/rows/strided.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {
namespace {

template <class T>
struct Element {
  T value;
  int64_t at;
};

// NaN is the largest number.
template <class T>
bool is_less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a < b || (std::isnan(b) && !std::isnan(a));
  return a < b;
}

// Sorts the first k of a row to its front. Positions break ties, so that the order is the same
// whatever the algorithm does.
template <class T>
void sort_front(std::vector<Element<T>>& row, int64_t k, bool descending) {
  const auto before = [descending](const Element<T>& a, const Element<T>& b) {
    const T &low = descending ? b.value : a.value, &high = descending ? a.value : b.value;
    if (is_less(low, high)) return true;
    return !is_less(high, low) && a.at < b.at;
  };
  const auto end = row.begin() + k;
  if (end != row.end()) std::nth_element(row.begin(), end, row.end(), before);
  std::sort(row.begin(), end, before);
}

}  // namespace

void sort(TensorView x, bool descending, TensorView index) {
  const int64_t rows = x.shape[0], width = x.shape[1], k = index.shape[1];
  with_exact_type(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(rows, grain_for(width), [&](int64_t begin, int64_t end) {
      std::vector<T> values(static_cast<size_t>(width));
      std::vector<Element<T>> row(static_cast<size_t>(width));
      for (int64_t r = begin; r < end; ++r) {
        const T* in = load_run(x, r * width, 1, width, values.data());
        for (int64_t i = 0; i < width; ++i) row[static_cast<size_t>(i)] = {in[i], i};
        sort_front(row, k, descending);
        int64_t* out = index.as<int64_t>() + r * k;
        for (int64_t i = 0; i < k; ++i) out[i] = row[static_cast<size_t>(i)].at;
      }
    });
  });
}

}  // namespace binade::backend::cpu
