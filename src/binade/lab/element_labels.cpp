#include "binade/lab/element_labels.h"

#include <algorithm>

#include "binade/tensor/dtype.h"

namespace binade::lab {
namespace {

// Calls `visit(flat index, index into the storage)` for every element, in row-major order.
template <class Visit>
void for_each_element(const Tensor& x, Visit visit) {
  const int64_t count = x.numel();
  const int rank = x.rank();
  std::vector<int64_t> index(static_cast<size_t>(rank), 0);
  int64_t at = x.offset();
  for (int64_t flat = 0; flat < count; ++flat) {
    visit(static_cast<size_t>(flat), static_cast<size_t>(at));
    for (int axis = rank - 1; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      at += x.strides()[axis];
      if (++index[a] < x.shape()[axis]) break;
      at -= index[a] * x.strides()[axis];
      index[a] = 0;
    }
  }
}

// The number of leading axes on which both shapes agree, at most `most`.
int common_axes(const Shape& a, const Shape& b, int most) {
  int axes = 0;
  while (axes < most && axes < a.rank() && axes < b.rank() && a[axes] == b[axes]) ++axes;
  return axes;
}

// The elements of `input` whose first `axes` indices are those of element `flat` of `result`.
ElementRange with_same_prefix(const Shape& input, const Shape& result, int64_t flat, int axes) {
  int64_t inner_result = 1, inner_input = 1;
  for (int axis = axes; axis < result.rank(); ++axis) inner_result *= result[axis];
  for (int axis = axes; axis < input.rank(); ++axis) inner_input *= input[axis];
  const int64_t prefix = inner_result == 0 ? 0 : flat / inner_result;
  return {prefix * inner_input, (prefix + 1) * inner_input};
}

// The element of a broadcast input.
ElementRange broadcast_element(const Shape& input, const Shape& result, int64_t flat) {
  if (input == result || (input.numel() == result.numel() && input.rank() != result.rank()))
    return {flat, flat + 1};
  int64_t at = 0, stride = 1;
  for (int axis = result.rank() - 1; axis >= 0; --axis) {
    const int64_t index = flat % result[axis];
    flat /= result[axis];
    const int own = axis - (result.rank() - input.rank());
    if (own < 0) continue;
    if (input[own] != 1) at += index * stride;
    stride *= input[own];
  }
  return {at, at + 1};
}

}  // namespace

std::vector<int> ElementLabels::of(const Tensor& x) const {
  std::vector<int> labels(static_cast<size_t>(x.numel()), none);
  const auto found = entries_.find(x.storage().get());
  if (found == entries_.end()) return labels;
  const std::vector<int>& known = found->second.labels;
  for_each_element(x, [&](size_t flat, size_t at) {
    if (at < known.size()) labels[flat] = known[at];
  });
  return labels;
}

void ElementLabels::set(const Tensor& x, std::span<const int> labels) {
  Entry& entry = entries_[x.storage().get()];
  entry.storage = x.storage();
  for_each_element(x, [&](size_t flat, size_t at) {
    if (labels[flat] == none) return;
    if (at >= entry.labels.size()) entry.labels.resize(at + 1, none);
    entry.labels[at] = labels[flat];
  });
}

Dependency dependency_of(Op op) {
  using enum Op;
  switch (op) {
    case linear:
    case matmul:
    case mm:
    case bmm:
    case softmax:
    case log_softmax:
    case logsumexp:
    case layer_norm:
    case rms_norm:
    case residual_layer_norm:
    case residual_rms_norm:
    case swiglu:
    case rope:
    case sum:
    case mean:
    case prod:
    case max:
    case min:
    case var:
    case norm:
      return Dependency::row;
    case conv1d:
    case conv2d:
    case conv3d:
    case max_pool:
    case avg_pool:
    case group_norm:
    case scaled_dot_product_attention:
    case packed_attention:
      return Dependency::batch;
    case cat:
    case stack:
    case gather:
    case index_select:
    case embedding:
    case slice:
    case permute:
    case expand:
      return Dependency::copy;
    case add:
    case sub:
    case mul:
    case div:
    case atan2:
    case maximum:
    case minimum:
    case pow:
    case where:
    case addcmul:
    case addcdiv:
    case prelu:
    case dropout:
    case clone:
    case reshape:
    case contiguous:
      return Dependency::element;
    default:
      // The unary ops are one block of the table.
      return op >= neg && op <= cast ? Dependency::element : Dependency::whole;
  }
}

ElementRange elements_behind(Dependency dependency, bool first, const Shape& input,
                             const Shape& result, int64_t flat) {
  const ElementRange all{0, input.numel()};
  switch (dependency) {
    case Dependency::element:
      return input.rank() > result.rank() && input.numel() != result.numel()
                 ? all
                 : broadcast_element(input, result, flat);
    case Dependency::row: {
      // A residual beside the first input has its shape.
      if (!first && input != result) return all;
      const int rows = std::max(input.rank() - 1, 0);
      const int axes = common_axes(input, result, rows);
      // A reduction over other axes than the last leaves no common prefix to go by.
      if (axes < rows && result.rank() >= input.rank()) return all;
      return with_same_prefix(input, result, flat, axes);
    }
    case Dependency::batch:
      return first && input.rank() > 0 && result.rank() > 0 && input[0] == result[0]
                 ? with_same_prefix(input, result, flat, 1)
                 : all;
    case Dependency::whole:
    case Dependency::copy:
      return all;
  }
  return all;
}

}  // namespace binade::lab
