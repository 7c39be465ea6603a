#include "binade/tensor/overlap.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace binade {
namespace {

struct AxisReach {
  int64_t stride;
  int64_t size;
};

// The axes that move, by growing stride.
std::vector<AxisReach> moving_axes(const Tensor& x) {
  std::vector<AxisReach> axes;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (x.shape()[axis] > 1) axes.push_back({std::abs(x.strides()[axis]), x.shape()[axis]});
  }
  std::sort(axes.begin(), axes.end(),
            [](const AxisReach& a, const AxisReach& b) { return a.stride < b.stride; });
  return axes;
}

struct AddressRange {
  intptr_t first, last;  // of elements
};

AddressRange range_of(const Tensor& x) {
  const auto size = static_cast<int64_t>(size_of(x.dtype()));
  const auto start = reinterpret_cast<intptr_t>(x.raw_data());  // NOLINT: compared only
  AddressRange range{start, start};
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int64_t reach = (x.shape()[axis] - 1) * x.strides()[axis] * size;
    (reach < 0 ? range.first : range.last) += reach;
  }
  return range;
}

// Counts how often each element is reached, for strides that interleave.
bool reaches_one_twice(const std::vector<AxisReach>& axes, int64_t span) {
  std::vector<bool> seen(static_cast<size_t>(span));
  std::vector<int64_t> index(axes.size(), 0);
  int64_t at = 0;
  while (true) {
    if (seen[static_cast<size_t>(at)]) return true;
    seen[static_cast<size_t>(at)] = true;
    size_t axis = 0;
    while (axis < axes.size() && ++index[axis] == axes[axis].size) {
      at -= (axes[axis].size - 1) * axes[axis].stride;
      index[axis++] = 0;
    }
    if (axis == axes.size()) return false;
    at += axes[axis].stride;
  }
}

}  // namespace

bool overlaps_itself(const Tensor& x) {
  if (x.numel() < 2 || x.is_dense()) return false;
  const std::vector<AxisReach> axes = moving_axes(x);
  if (axes.front().stride == 0) return true;
  int64_t reach = 0;
  bool nested = true;  // each step passes all that the smaller ones reach
  for (const AxisReach& axis : axes) {
    nested = nested && axis.stride > reach;
    reach += (axis.size - 1) * axis.stride;
  }
  return !nested && reaches_one_twice(axes, reach + 1);
}

bool write_changes(const Tensor& x, const Tensor& source) {
  const bool has_memory = x.numel() > 0 && source.numel() > 0 && x.raw_data() != nullptr;
  if (!has_memory || x.device() != source.device()) return false;
  const AddressRange a = range_of(x), b = range_of(source);
  const auto size = static_cast<intptr_t>(size_of(x.dtype())),
             source_size = static_cast<intptr_t>(size_of(source.dtype()));
  if (a.last + size <= b.first || b.last + source_size <= a.first) return false;
  if (x.dtype() != source.dtype()) return true;
  if (x.raw_data() == source.raw_data() && x.shape() == source.shape() &&
      x.strides() == source.strides())
    return false;
  int64_t step = 0;
  for (const Tensor* each : {&x, &source}) {
    for (const AxisReach& axis : moving_axes(*each)) step = std::gcd(step, axis.stride);
  }
  const intptr_t distance = a.first - b.first;
  return step == 0 ? distance == 0 : distance % (step * size) == 0;
}

}  // namespace binade
