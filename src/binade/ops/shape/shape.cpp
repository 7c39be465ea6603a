#include "binade/ops/shape/shape.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "binade/base/division.h"
#include "binade/ops/common.h"

namespace binade {
namespace {

using namespace ops;

// The strides of x's elements viewed in `shape`, if they can be without copying.
std::optional<Strides> view_strides(const Tensor& x, const Shape& shape) {
  if (x.numel() == 0 || x.is_dense()) return dense_strides(shape);
  Strides strides = shape;
  int old_axis = x.rank() - 1, axis = shape.rank() - 1;
  while (old_axis >= 0) {
    // Old axes that are contiguous in memory form one long axis.
    int64_t run = x.shape()[old_axis];
    const int64_t base = x.strides()[old_axis];
    while (old_axis > 0 &&
           (x.shape()[old_axis - 1] == 1 || x.strides()[old_axis - 1] == run * base)) {
      run *= x.shape()[--old_axis];
    }
    int64_t covered = 1;
    while (axis >= 0 && (covered < run || shape[axis] == 1)) {
      strides[axis] = covered * base;
      covered *= shape[axis--];
    }
    if (covered != run) return std::nullopt;
    --old_axis;
  }
  return strides;
}

Shape resolved_shape(const Tensor& x, const Shape& requested) {
  const auto bad = [&] {
    fail("reshape", {.argument = "shape",
                     .expected = std::to_string(x.numel()) + " elements for " + describe(x),
                     .found = to_string(requested)});
  };
  Shape shape = requested, known = requested;
  int unknown = -1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] < -1 || (shape[axis] == -1 && unknown >= 0)) bad();
    if (shape[axis] != -1) continue;
    unknown = axis;
    known[axis] = 1;
  }
  const int64_t count = known.numel();
  if (unknown >= 0 && count == 0) bad();
  if (unknown >= 0) shape[unknown] = x.numel() / count;
  if (shape.numel() != x.numel()) bad();
  return shape;
}

// The result of an op that views its input.
template <class F>
Tensor view_result(const Call& call, const Tensor& x, const Tensor& y, F backward) {
  call.result(y, std::move(backward));
  y.set_view_of(x);
  return y;
}

// The gradient of a view: dy at the view's elements, zero elsewhere.
Tensor scattered(const Tensor& dy, const Shape& shape, const Strides& view_strides,
                 int64_t view_offset) {
  Tensor full = Tensor::empty(shape, dy.dtype(), dy.device());
  const auto& kernels = backend::of(dy).elementwise;
  kernels.fill(full, 0);
  kernels.copy(dy, full.strided(dy.shape(), view_strides, view_offset));
  return full;
}

void require_tensors(const char* op, std::span<const Tensor> tensors) {
  if (tensors.empty())
    fail(op, {.argument = "tensors", .expected = "at least one", .found = "none"});
  for (const Tensor& tensor : tensors) require_defined(op, "tensors", tensor);
}

// Both cat and stack: pieces copied side by side along an axis they all have.
Tensor joined(Op op, std::span<const Tensor> tensors, int at) {
  const Call call(op, tensors);
  Shape shape = tensors[0].shape();
  DType dtype = call[0].dtype();
  shape[at] = 0;
  for (size_t i = 0; i < call.size(); ++i) {
    Shape expected = tensors[0].shape();
    if (call[i].rank() == expected.rank()) expected[at] = call[i].shape()[at];
    require_shape(name(op), "tensors", call[i], expected);
    shape[at] += call[i].shape()[at];
    dtype = promote(dtype, call[i].dtype());
  }
  Tensor y = Tensor::empty(shape, dtype, tensors[0].device());
  std::vector<int64_t> sizes;
  int64_t start = 0;
  for (size_t i = 0; i < call.size(); ++i) {
    sizes.push_back(call[i].shape()[at]);
    const Tensor part =
        y.strided(call[i].shape(), y.strides(), y.offset() + start * y.strides()[at]);
    backend::of(y).elementwise.copy(call[i], part);
    start += sizes.back();
  }
  return call.result(y, [at, sizes](const Tensor& dy, GradSlots dx) {
    int64_t start = 0;
    for (size_t i = 0; i < sizes.size(); start += sizes[i++]) {
      if (dx[i].needs_grad()) dx[i].add(slice(dy, at, start, start + sizes[i]));
    }
  });
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& requested) {
  require_defined("reshape", "x", x);
  const Shape shape = resolved_shape(x, requested);
  if (shape == x.shape()) return x;
  const Call call(Op::reshape, {x});
  const std::optional<Strides> strides = view_strides(x, shape);
  const Tensor y = strides ? x.strided(shape, *strides, x.offset()) : viewed(dense(x), shape);
  return view_result(call, x, y, [from = x.shape()](const Tensor& dy, GradSlots dx) {
    dx[0].add(viewed(dense(dy), from));
  });
}

Tensor flatten(const Tensor& x, int64_t first, int64_t last) {
  require_defined("flatten", "x", x);
  if (x.rank() == 0) return reshape(x, {1});
  const int from = normalize_axis("flatten", first, x.rank()),
            to = normalize_axis("flatten", last, x.rank());
  if (from > to)
    fail("flatten", {.argument = "axes",
                     .expected = "first before last",
                     .found = std::to_string(from) + " and " + std::to_string(to)});
  Shape shape;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (axis > from && axis <= to) {
      shape[from] *= x.shape()[axis];
    } else {
      shape.push_back(x.shape()[axis]);
    }
  }
  return reshape(x, shape);
}

Tensor permute(const Tensor& x, const std::vector<int64_t>& axes) {
  require_defined("permute", "x", x);
  const auto rank = static_cast<size_t>(x.rank());
  std::vector<int64_t> inverse(rank, -1);
  Shape shape, strides;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int axis = normalize_axis("permute", axes[i], x.rank());
    inverse[static_cast<size_t>(axis)] = static_cast<int64_t>(i);
    shape.push_back(x.shape()[axis]);
    strides.push_back(x.strides()[axis]);
  }
  if (axes.size() != rank || std::count(inverse.begin(), inverse.end(), -1) > 0) {
    fail("permute", {.argument = "axes",
                     .expected = "each axis of " + describe(x) + " once",
                     .found = to_string(Shape(axes))});
  }
  const Call call(Op::permute, {x});
  return view_result(
      call, x, x.strided(shape, strides, x.offset()),
      [inverse](const Tensor& dy, GradSlots dx) { dx[0].add(permute(dy, inverse)); });
}

Tensor transpose(const Tensor& x, int64_t a, int64_t b) {
  require_defined("transpose", "x", x);
  std::vector<int64_t> axes(static_cast<size_t>(x.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[static_cast<size_t>(normalize_axis("transpose", a, x.rank()))],
            axes[static_cast<size_t>(normalize_axis("transpose", b, x.rank()))]);
  return permute(x, axes);
}

Tensor slice(const Tensor& x, int64_t axis, int64_t begin, int64_t end, int64_t step) {
  require_defined("slice", "x", x);
  const int at = normalize_axis("slice", axis, x.rank());
  if (step < 1)
    fail("slice", {.argument = "step", .expected = "at least 1", .found = std::to_string(step)});
  const int64_t size = x.shape()[at];
  begin = std::clamp(begin < 0 ? begin + size : begin, int64_t{0}, size);
  end = std::clamp(end < 0 ? end + size : end, begin, size);
  const Call call(Op::slice, {x});
  Shape shape = x.shape();
  Strides strides = x.strides();
  // Written so that no step overflows: a stride matters only between two elements.
  shape[at] = end > begin ? 1 + (end - begin - 1) / step : 0;
  if (shape[at] > 1) strides[at] *= step;
  const Tensor y = x.strided(shape, strides, x.offset() + begin * x.strides()[at]);
  return view_result(call, x, y,
                     [from = x.shape(), at, begin, step](const Tensor& dy, GradSlots dx) {
                       Strides into = dense_strides(from);
                       const int64_t offset = begin * into[at];
                       if (dy.shape()[at] > 1) into[at] *= step;
                       dx[0].add(scattered(dy, from, into, offset));
                     });
}

Tensor select(const Tensor& x, int64_t axis, int64_t index) {
  require_defined("select", "x", x);
  const int at = normalize_axis("select", axis, x.rank());
  const int64_t positive = index < 0 ? index + x.shape()[at] : index;
  if (positive < 0 || positive >= x.shape()[at]) {
    fail("select", {.argument = "index",
                    .expected = "inside axis " + std::to_string(at) + " of " + describe(x),
                    .found = std::to_string(index)});
  }
  return squeeze(slice(x, at, positive, positive + 1), at);
}

Tensor Tensor::operator[](int64_t index) const {
  if (rank() == 0) {
    fail("select", {.argument = "x",
                    .expected = "at least one dimension",
                    .found = describe(*this),
                    .hint = "item() is the value of a scalar"});
  }
  return binade::select(*this, 0, index);
}

Tensor expand(const Tensor& x, const Shape& wanted) {
  require_defined("expand", "x", x);
  Shape shape = wanted;
  for (int i = 0; i < shape.rank(); ++i) {
    const int own = i - shape.rank() + x.rank();
    if (shape[i] == -1 && own >= 0) shape[i] = x.shape()[own];
  }
  if (std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size < 0; })) {
    fail("expand", {.argument = "shape",
                    .expected = "sizes of at least 0, or -1 for those of " + describe(x),
                    .found = to_string(wanted)});
  }
  if (broadcast("expand", x.shape(), shape) != shape) {
    fail("expand", {.argument = "shape",
                    .expected = "one that " + describe(x) + " broadcasts to",
                    .found = to_string(shape)});
  }
  if (shape == x.shape()) return x;
  shape.numel();  // fails if it overflows
  const Call call(Op::expand, {x});
  return view_result(call, x, x.strided(shape, TensorView(x).expanded(shape).strides, x.offset()),
                     [](const Tensor& dy, GradSlots dx) { add_reduced(dx[0], dy); });
}

Tensor squeeze(const Tensor& x, int64_t axis) {
  require_defined("squeeze", "x", x);
  const int at = normalize_axis("squeeze", axis, x.rank());
  if (x.shape()[at] != 1) {
    fail("squeeze", {.argument = "axis",
                     .expected = "an axis of size 1",
                     .found = "axis " + std::to_string(at) + " of " + describe(x)});
  }
  Shape shape = x.shape();
  shape.erase(at);
  return reshape(x, shape);
}

Tensor unsqueeze(const Tensor& x, int64_t axis) {
  require_defined("unsqueeze", "x", x);
  Shape shape = x.shape();
  shape.insert(normalize_axis("unsqueeze", axis, x.rank() + 1), 1);
  return reshape(x, shape);
}

Tensor contiguous(const Tensor& x) {
  require_defined("contiguous", "x", x);
  if (x.is_dense()) return x;
  const Call call(Op::contiguous, {x});
  return call.result(dense(x), [](const Tensor& dy, GradSlots dx) { dx[0].add(dy); });
}

Tensor channels_last(const Tensor& x) {
  require_defined("channels_last", "x", x);
  if (x.rank() < 3 || x.rank() > 5) {
    fail("channels_last",
         {.argument = "x", .expected = "[n, c, 1 to 3 spatial axes]", .found = describe(x)});
  }
  if (is_channels_last(x)) return x;
  const Call call(Op::contiguous, {x});
  return call.result(in_format(x, MemoryFormat::channels_last),
                     [](const Tensor& dy, GradSlots dx) { dx[0].add(dy); });
}

Tensor cat(std::span<const Tensor> tensors, int64_t axis) {
  require_tensors("cat", tensors);
  return joined(Op::cat, tensors, normalize_axis("cat", axis, tensors[0].rank()));
}

Tensor cat(std::initializer_list<Tensor> tensors, int64_t axis) {
  return cat(std::span(tensors.begin(), tensors.size()), axis);
}

Tensor stack(std::span<const Tensor> tensors, int64_t axis) {
  require_tensors("stack", tensors);
  const int at = normalize_axis("stack", axis, tensors[0].rank() + 1);
  std::vector<Tensor> parts;
  for (const Tensor& tensor : tensors) {
    require_shape("stack", "tensors", tensor, tensors[0].shape());
    parts.push_back(unsqueeze(tensor, at));
  }
  return joined(Op::stack, parts, at);
}

Tensor stack(std::initializer_list<Tensor> tensors, int64_t axis) {
  return stack(std::span(tensors.begin(), tensors.size()), axis);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t axis) {
  require_defined("split", "x", x);
  const int at = normalize_axis("split", axis, x.rank());
  // Subtracted one by one: a sum could overflow.
  int64_t left = x.shape()[at];
  const bool fit = std::all_of(sizes.begin(), sizes.end(), [&left](int64_t size) {
    return size >= 0 && (left -= std::min(size, left + 1)) >= 0;
  });
  if (!fit || left != 0) {
    fail("split", {.argument = "sizes",
                   .expected = "a sum of " + std::to_string(x.shape()[at]) + " for axis " +
                               std::to_string(at) + " of " + describe(x),
                   .found = fmt::format("[{}]", fmt::join(sizes, ", "))});
  }
  std::vector<Tensor> parts;
  int64_t start = 0;
  for (const int64_t size : sizes) {
    parts.push_back(slice(x, at, start, start + size));
    start += size;
  }
  return parts;
}

std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t axis) {
  require_defined("split", "x", x);
  if (size < 1)
    fail("split", {.argument = "size", .expected = "at least 1", .found = std::to_string(size)});
  const int64_t total = x.shape()[normalize_axis("split", axis, x.rank())];
  std::vector<int64_t> sizes;
  for (int64_t left = total; left > 0; left -= sizes.back()) sizes.push_back(std::min(size, left));
  if (total == 0) sizes.push_back(0);  // one part, as in PyTorch
  return split(x, sizes, axis);
}

std::vector<Tensor> chunk(const Tensor& x, int64_t count, int64_t axis) {
  require_defined("chunk", "x", x);
  if (count < 1)
    fail("chunk", {.argument = "count", .expected = "at least 1", .found = std::to_string(count)});
  const int64_t size = x.shape()[normalize_axis("chunk", axis, x.rank())];
  if (size == 0) return {x};
  return split(x, divide_up(size, std::min(count, size)), axis);
}

}  // namespace binade
