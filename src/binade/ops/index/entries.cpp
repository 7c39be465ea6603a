#include <algorithm>

#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/in_place.h"
#include "binade/ops/index/index.h"
#include "binade/ops/index/mask.h"
#include "binade/ops/shape/shape.h"

// index() and index_put_() of shape.h.
namespace binade {
namespace {

using namespace ops;

bool is_tensor(const IndexEntry& entry) { return std::holds_alternative<Tensor>(entry); }

// The axes of x that an entry takes.
int64_t axes_of(const IndexEntry& entry) {
  if (const auto* at = std::get_if<Tensor>(&entry))
    return at->dtype() == DType::boolean ? at->rank() : 1;
  return std::holds_alternative<int64_t>(entry) || std::holds_alternative<Slice>(entry) ? 1 : 0;
}

// The axes that an ellipsis stands for; fails on entries that do not fit x.
int64_t ellipsis_axes(const Tensor& x, const std::vector<IndexEntry>& entries) {
  int64_t axes = 0, ellipses = 0, tensors = 0;
  for (const IndexEntry& entry : entries) {
    if (is_tensor(entry)) {
      require_defined("index", "entries", std::get<Tensor>(entry));
      ++tensors;
    }
    axes += axes_of(entry);
    ellipses += std::holds_alternative<EllipsisEntry>(entry);
  }
  if (axes > x.rank()) {
    fail("index", {.argument = "entries",
                   .expected = "at most " + std::to_string(x.rank()) + " for " + describe(x),
                   .found = std::to_string(axes)});
  }
  if (ellipses > 1 || tensors > 1) {
    fail("index", {.argument = "entries",
                   .expected = "at most one Ellipsis and one tensor",
                   .found = std::to_string(ellipses) + " and " + std::to_string(tensors)});
  }
  return x.rank() - axes;
}

// x with `axis` replaced by the axes of `at`, whose indices may count from the back.
Tensor at_indices(const Tensor& x, int axis, const Tensor& at) {
  require_index("index", "entries", at);
  const int64_t size = x.shape()[axis];
  const Tensor flat = reshape(at, {-1});
  Shape shape = x.shape();
  shape.erase(axis);
  for (int i = 0; i < at.rank(); ++i) shape.insert(axis + i, at.shape()[i]);
  return reshape(index_select(x, axis, where(flat < 0, flat + size, flat)), shape);
}

// x with the axes from `axis` on that `mask` has replaced by one, of the elements at which it is
// true.
Tensor at_true(const Tensor& x, int axis, const Tensor& mask) {
  const int last = axis + mask.rank();
  const Shape covered(std::span(x.shape().begin() + axis, x.shape().begin() + last));
  require_shape("index", "entries", mask, covered);
  Tensor y = mask.rank() == 0 ? unsqueeze(x, axis) : flatten(x, axis, last - 1);
  return index_select(y, axis, reshape(nonzero(reshape(mask, {-1})), {-1}));
}

}  // namespace

Tensor index(const Tensor& x, const std::vector<IndexEntry>& entries) {
  require_defined("index", "x", x);
  const int64_t rest = ellipsis_axes(x, entries);
  Tensor y = x;
  int axis = 0;
  for (const IndexEntry& entry : entries) {
    if (const auto* at = std::get_if<int64_t>(&entry)) {
      y = select(y, axis, *at);
    } else if (const auto* range = std::get_if<Slice>(&entry)) {
      y = slice(y, axis, range->begin.value_or(0), range->end.value_or(y.shape()[axis]),
                range->step);
      ++axis;
    } else if (const auto* selected = std::get_if<Tensor>(&entry)) {
      const bool is_mask = selected->dtype() == DType::boolean;
      y = is_mask ? at_true(y, axis, *selected) : at_indices(y, axis, *selected);
      axis += is_mask ? 1 : selected->rank();
    } else if (std::holds_alternative<EllipsisEntry>(entry)) {
      axis += static_cast<int>(rest);
    } else {
      y = unsqueeze(y, axis);
      const auto* kept = std::get_if<bool>(&entry);
      if (kept != nullptr && !*kept) y = slice(y, axis, 0, 0);
      ++axis;
    }
  }
  return y;
}

void index_put_(const Tensor& x, const std::vector<IndexEntry>& entries, const Tensor& values) {
  require_defined("index_put_", "x", x);
  require_defined("index_put_", "values", values);
  if (std::none_of(entries.begin(), entries.end(), is_tensor))
    return copy_(index(x, entries), values);
  // The numbers of the selected elements; f64 has them exactly, and index() takes floats alone.
  const Tensor all = reshape(arange(x.numel(), DType::f64, x.device()), x.shape());
  const Tensor selected = index(all, entries);
  require_writable("index_put_", x, write_records(x, values));
  const Tensor source = expand(cast(values, x.dtype()), selected.shape());
  const Tensor y =
      index_put(reshape(x, {-1}), cast(reshape(selected, {-1}), DType::i64), reshape(source, {-1}));
  write(x, reshape(y, x.shape()), true);
}

void index_put_(const Tensor& x, const std::vector<IndexEntry>& entries, double value) {
  require_defined("index_put_", "x", x);
  index_put_(x, entries, full({}, value, x.dtype(), x.device()));
}

}  // namespace binade
