#include "binade/backend/cpu/rows/dense_rows.h"

#include <algorithm>

#include "binade/backend/cpu/rows/strided.h"

namespace binade::backend::cpu {
namespace {

constexpr int64_t chunk = 256;

template <class T>
void store_any(const T* values, const TensorView& y, int64_t offset, int64_t n, bool accumulate) {
  if (!accumulate) {
    const bool there = values == row_target<T>(y, offset, nullptr);
    if (!there) write_run(values, y, offset, 1, n);
    return;
  }
  T present[chunk], sum[chunk];
  for (int64_t at = 0; at < n; at += chunk) {
    const int64_t count = std::min(chunk, n - at);
    const T* old = load(y, offset + at, count, present);
    for (int64_t i = 0; i < count; ++i) sum[i] = old[i] + values[at + i];
    write_run(sum, y, offset + at, 1, count);
  }
}

}  // namespace

const float* load(const TensorView& x, int64_t offset, int64_t n, float* scratch) {
  return load_run(x, offset, 1, n, scratch);
}

const double* load(const TensorView& x, int64_t offset, int64_t n, double* scratch) {
  return load_run(x, offset, 1, n, scratch);
}

void store(const float* values, const TensorView& y, int64_t offset, int64_t n, bool accumulate) {
  store_any(values, y, offset, n, accumulate);
}

void store(const double* values, const TensorView& y, int64_t offset, int64_t n, bool accumulate) {
  store_any(values, y, offset, n, accumulate);
}

}  // namespace binade::backend::cpu
