#include "binade/lab/replay/tensor_summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "binade/io/safetensors.h"
#include "binade/ops/create/create.h"
#include "binade/ops/shape/shape.h"

namespace binade::lab {
namespace {

constexpr size_t max_outliers = 5;

// Infinite for types whose largest number nothing reaches, and for integers.
double largest_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return formats::spec::f16.max();
    case DType::bf16:
      return formats::spec::bf16.max();
    case DType::e4m3:
      return formats::spec::e4m3.max();
    case DType::e5m2:
      return formats::spec::e5m2.max();
    default:
      return std::numeric_limits<double>::infinity();
  }
}

Shape index_of(const Shape& shape, int64_t flat) {
  Shape index = shape;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[axis] = flat % shape[axis];
    flat /= shape[axis];
  }
  return index;
}

std::vector<Outlier> largest_elements(const Shape& shape, std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto count = std::min(max_outliers, order.size());
  // NaN first, then by magnitude; equal ones in their order.
  const auto rank = [&values](size_t i) {
    return std::isnan(values[i]) ? std::numeric_limits<double>::infinity() : std::abs(values[i]);
  };
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
      [&rank](size_t a, size_t b) { return rank(a) != rank(b) ? rank(a) > rank(b) : a < b; });
  std::vector<Outlier> outliers;
  for (size_t i = 0; i < count; ++i)
    outliers.push_back({index_of(shape, static_cast<int64_t>(order[i])), values[order[i]]});
  return outliers;
}

ShadowDifference difference_of(std::span<const double> values, std::span<const double> shadow) {
  ShadowDifference result;
  double squares = 0, of_shadow = 0;
  int64_t flushed = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double difference = values[i] - shadow[i];
    squares += difference * difference;
    of_shadow += shadow[i] * shadow[i];
    result.largest = std::max(result.largest, std::abs(difference));
    if (values[i] == 0 && shadow[i] != 0) ++flushed;
  }
  result.relative = of_shadow > 0 ? std::sqrt(squares / of_shadow) : std::sqrt(squares);
  if (!values.empty())
    result.flushed = static_cast<double>(flushed) / static_cast<double>(values.size());
  return result;
}

}  // namespace

TensorSummary summarize(const Tensor& x, const Tensor& shadow) {
  const Tensor dense = contiguous(x);
  TensorSummary summary;
  summary.numbers = io::statistics_of(
      io::safetensors_format(x.dtype()),
      {static_cast<const std::byte*>(dense.raw_data()), static_cast<size_t>(dense.bytes())});
  const io::Statistics& n = summary.numbers;
  summary.amax = std::max(std::abs(n.min), std::abs(n.max));
  summary.rms = std::sqrt(n.mean * n.mean + n.deviation * n.deviation);
  const std::vector<double> values = to_vector(dense);
  const double limit = largest_of(x.dtype());
  const auto saturated = std::ranges::count_if(
      values, [limit](double value) { return std::abs(value) >= limit || std::isinf(value); });
  if (!values.empty() && std::isfinite(limit))
    summary.saturated = static_cast<double>(saturated) / static_cast<double>(values.size());
  summary.outliers = largest_elements(x.shape(), values);
  if (shadow.defined() && shadow.shape() == x.shape())
    summary.shadow = difference_of(values, to_vector(shadow));
  return summary;
}

}  // namespace binade::lab
