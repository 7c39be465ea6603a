#include <algorithm>
#include <cstring>

#include "binade/backend/capabilities.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/in_place.h"
#include "binade/ops/index/index.h"
#include "binade/ops/index/mask.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"

// index() and index_put_() of shape.h.
namespace binade {

IndexEntry::IndexEntry(const char* ellipsis) : variant(Ellipsis) {
  if (std::strcmp(ellipsis, "...") != 0)
    fail("index", {.argument = "entries", .expected = "\"...\"", .found = ellipsis});
}

namespace {

using namespace ops;

// A tensor of indices and the axis that it selects along.
struct Selector {
  int axis;
  Tensor index;
};

bool is_tensor(const IndexEntry& entry) { return std::holds_alternative<Tensor>(entry); }

bool is_mask(const Tensor& entry) { return entry.dtype() == DType::boolean; }

// The axes of x that an entry takes.
int64_t axes_of(const IndexEntry& entry) {
  if (const auto* at = std::get_if<Tensor>(&entry)) return is_mask(*at) ? at->rank() : 1;
  return std::holds_alternative<int64_t>(entry) || std::holds_alternative<Slice>(entry) ? 1 : 0;
}

// The axes that an ellipsis stands for; fails on entries that do not fit x.
int64_t ellipsis_axes(const Tensor& x, const std::vector<IndexEntry>& entries) {
  int64_t axes = 0, ellipses = 0;
  for (const IndexEntry& entry : entries) {
    if (is_tensor(entry)) require_defined("index", "entries", std::get<Tensor>(entry));
    axes += axes_of(entry);
    ellipses += std::holds_alternative<EllipsisEntry>(entry);
  }
  if (axes > x.rank()) {
    fail("index", {.argument = "entries",
                   .expected = "at most " + std::to_string(x.rank()) + " for " + describe(x),
                   .found = std::to_string(axes)});
  }
  if (ellipses > 1) {
    fail("index", {.argument = "entries",
                   .expected = "at most one Ellipsis",
                   .found = std::to_string(ellipses)});
  }
  return x.rank() - axes;
}

// The positions, i64, at which a mask over the axes of x from `axis` on is true: one tensor for
// each of its axes.
void select_true(const Tensor& x, int axis, const Tensor& mask, std::vector<Selector>& selectors) {
  const Shape covered(std::span(x.shape().begin() + axis, static_cast<size_t>(mask.rank())));
  require_shape("index", "entries", mask, covered);
  const Tensor positions = nonzero(mask);
  for (int i = 0; i < mask.rank(); ++i) selectors.push_back({axis + i, select(positions, 1, i)});
}

// Indices along an axis of `size` elements, i64 and counted from the front.
Tensor from_front(const Tensor& index, int64_t size) {
  require_index("index", "entries", index);
  const Tensor wide = cast(index, DType::i64);
  return where(wide < 0, wide + size, wide);
}

// The view of x that all entries but tensors select, with the selectors of the tensors.
Tensor plain_view(const Tensor& x, const std::vector<IndexEntry>& entries,
                  std::vector<Selector>& selectors) {
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
    } else if (const auto* given = std::get_if<Tensor>(&entry); given && given->rank() > 0) {
      if (is_mask(*given)) {
        select_true(y, axis, *given, selectors);
      } else {
        selectors.push_back({axis, from_front(*given, y.shape()[axis])});
      }
      axis += static_cast<int>(axes_of(entry));
    } else if (given && !is_mask(*given)) {
      require_index("index", "entries", *given);
      y = select(y, axis, static_cast<int64_t>(given->item()));
    } else if (std::holds_alternative<EllipsisEntry>(entry)) {
      axis += static_cast<int>(rest);
    } else {
      y = unsqueeze(y, axis);
      const auto* kept = std::get_if<bool>(&entry);
      if ((kept && !*kept) || (given && given->item() == 0)) y = slice(y, axis, 0, 0);
      ++axis;
    }
  }
  return y;
}

// The order of axes that puts the selected ones first.
std::vector<int64_t> selected_first(int rank, const std::vector<Selector>& selectors) {
  std::vector<int64_t> order;
  for (const Selector& selector : selectors) order.push_back(selector.axis);
  for (int axis = 0; axis < rank; ++axis) {
    if (std::find(order.begin(), order.end(), axis) == order.end()) order.push_back(axis);
  }
  return order;
}

bool side_by_side(const std::vector<Selector>& selectors) {
  for (size_t i = 1; i < selectors.size(); ++i) {
    if (selectors[i].axis != selectors[i - 1].axis + 1) return false;
  }
  return true;
}

// x with its first `count` axes, those of the selectors' shape, moved to `axis`.
Tensor moved(const Tensor& x, int count, int axis) {
  std::vector<int64_t> order;
  for (int i = 0; i < axis; ++i) order.push_back(count + i);
  for (int i = 0; i < count; ++i) order.push_back(i);
  for (int i = axis + count; i < x.rank(); ++i) order.push_back(i);
  return permute(x, order);
}

Tensor selected(const Tensor& x, const std::vector<Selector>& selectors) {
  Shape shape;
  for (const Selector& one : selectors) shape = broadcast("index", shape, one.index.shape());
  Tensor flat = zeros({}, DType::i64, x.device());
  for (const Selector& one : selectors) {
    const int64_t size = x.shape()[one.axis];
    const Tensor is_outside = (one.index < 0) | (one.index >= size);
    if (size > 0 && backend::capabilities(x.device()).is_host_readable &&
        any(is_outside).item() != 0) {
      fail("index", {.argument = "entries",
                     .expected = "indices from " + std::to_string(-size) + " to " +
                                 std::to_string(size - 1) + " for axis " + std::to_string(one.axis),
                     .found = std::to_string(static_cast<int64_t>(
                         masked_select(one.index, is_outside).cpu().data<int64_t>()[0]))});
    }
    flat = flat * size + one.index;
  }
  const Tensor front = permute(x, selected_first(x.rank(), selectors));
  const auto count = static_cast<int64_t>(selectors.size());
  Shape rows{-1}, result = shape;
  int64_t lines = 1;
  for (int64_t i = 0; i < count; ++i) lines *= front.shape()[static_cast<int>(i)];
  rows[0] = lines;
  for (int i = static_cast<int>(count); i < front.rank(); ++i) {
    rows.push_back(front.shape()[i]);
    result.push_back(front.shape()[i]);
  }
  const Tensor y = index_select(reshape(front, rows), 0, reshape(expand(flat, shape), {-1}));
  const bool stays = side_by_side(selectors);
  return moved(reshape(y, result), shape.rank(), stays ? selectors.front().axis : 0);
}

// y with elements `at`, i64 positions of flat y, replaced by `values`, for any type: whose turn it
// is at each position is a number below 2^53, which f64 has exactly.
Tensor replaced(const Tensor& y, const Tensor& at, const Tensor& values) {
  if (is_compute(y.dtype())) return index_put(y, at, values);
  const Tensor none = full(y.shape(), -1, DType::f64, y.device());
  const Tensor numbers = arange(at.numel(), DType::f64, y.device());
  const Tensor turn = cast(index_put(none, at, numbers), DType::i64);
  if (values.numel() == 0) return y;
  return where(turn >= 0, index_select(values, 0, where(turn < 0, zeros_like(turn), turn)), y);
}

Tensor added(const Tensor& y, const Tensor& at, const Tensor& values) {
  if (is_compute(y.dtype())) return index_put(y, at, values, true);
  const Tensor wide = index_put(cast(y, DType::f64), at, cast(values, DType::f64), true);
  return cast(wide, y.dtype());
}

}  // namespace

Tensor index(const Tensor& x, const std::vector<IndexEntry>& entries) {
  require_defined("index", "x", x);
  std::vector<Selector> selectors;
  const Tensor y = plain_view(x, entries, selectors);
  return selectors.empty() ? y : selected(y, selectors);
}

void index_put_(const Tensor& x, const std::vector<IndexEntry>& entries, const Tensor& values,
                bool accumulate) {
  require_defined("index_put_", "x", x);
  require_defined("index_put_", "values", values);
  if (std::none_of(entries.begin(), entries.end(), is_tensor)) {
    const Tensor view = index(x, entries);
    return accumulate ? add_(view, values) : copy_(view, values);
  }
  // The numbers of the selected elements.
  const Tensor all = reshape(arange(x.numel(), DType::i64, x.device()), x.shape());
  const Tensor at = index(all, entries);
  require_writable("index_put_", x, write_records(x, values));
  const Tensor source = reshape(expand(cast(values, x.dtype()), at.shape()), {-1});
  const Tensor line = reshape(x, {-1}), where_put = reshape(at, {-1});
  const Tensor y = accumulate ? added(line, where_put, source) : replaced(line, where_put, source);
  write(x, reshape(y, x.shape()), true);
}

void index_put_(const Tensor& x, const std::vector<IndexEntry>& entries, double value) {
  require_defined("index_put_", "x", x);
  index_put_(x, entries, full({}, value, x.dtype(), x.device()));
}

}  // namespace binade
