#pragma once

#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "binade/tensor/tensor.h"

namespace binade {

// Views share x's data if its strides allow it, and are differentiable.

// The elements of x in another shape; one size may be -1 and is computed. Copies if x's strides
// do not allow a view.
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor flatten(const Tensor& x, int64_t first = 0, int64_t last = -1);
Tensor permute(const Tensor& x, const std::vector<int64_t>& axes);
Tensor transpose(const Tensor& x, int64_t a, int64_t b);
// Elements begin, begin + step, ... before end, along an axis. Negative bounds count from the back.
Tensor slice(const Tensor& x, int64_t axis, int64_t begin, int64_t end, int64_t step = 1);
// One index of an axis, without that axis; x[i] for the first axis.
Tensor select(const Tensor& x, int64_t axis, int64_t index);

// A new axis of size 1, and as many whole axes as the other entries leave: Python's None and "...".
struct NoneEntry {
  operator std::optional<int64_t>() const { return {}; }  // NOLINT: a bound of a Slice
};
struct EllipsisEntry {};
inline constexpr NoneEntry None;
inline constexpr EllipsisEntry Ellipsis;

// Python's begin:end:step. Absent bounds are the ends of the axis.
struct Slice {
  Slice(std::optional<int64_t> begin = {}, std::optional<int64_t> end = {}, int64_t step = 1)
      : begin(begin), end(end), step(step) {}

  std::optional<int64_t> begin, end;
  int64_t step;
};

// What index() takes for an axis.
class IndexEntry : public std::variant<int64_t, bool, Slice, NoneEntry, EllipsisEntry, Tensor> {
 public:
  using variant::variant;
  IndexEntry(const char* ellipsis);  // NOLINT: "...", as in LibTorch
};

// One entry per axis, from the first. Python's x[1, 2:] is index(x, {1, Slice(2)}).
//   an index       removes the axis
//   a Slice        keeps a part of it
//   None, Ellipsis see above; true is None, and false a new axis of size 0
//   a tensor       of integers selects along the axis; a bool one takes as many axes as it has and
//                  selects where it is true
// Several tensors are broadcast to one shape and select together, element by element. Their shape
// replaces their axes if these lie side by side, else it comes first, as in PyTorch and NumPy. The
// result is a view of x, or a copy if an entry is a tensor.
Tensor index(const Tensor& x, const std::vector<IndexEntry>& entries);
// Writes `values`, broadcast, or one number to the elements of x that index() selects, as copy_()
// does. With `accumulate` it adds, and an element may be selected several times.
void index_put_(const Tensor& x, const std::vector<IndexEntry>& entries, const Tensor& values,
                bool accumulate = false);
void index_put_(const Tensor& x, const std::vector<IndexEntry>& entries, double value);
// Axes of size 1 repeated, and new ones put in front, without copying.
Tensor expand(const Tensor& x, const Shape& shape);
Tensor squeeze(const Tensor& x, int64_t axis);
Tensor unsqueeze(const Tensor& x, int64_t axis);
// x itself if it is dense, else a dense copy.
Tensor contiguous(const Tensor& x);
// x [n, c, spatial...] with its elements in the order [n, spatial..., c]; the shape stays. Give it
// to a convolutional model on a GPU: convolutions, batch norms and pools of such tensors have
// kernels of their own there, and results that are channels-last too. All other ops take any
// strides, and the CPU copies to row-major order first.
Tensor channels_last(const Tensor& x);

// Along an existing axis; along a new one.
Tensor cat(std::span<const Tensor> tensors, int64_t axis = 0);
Tensor cat(std::initializer_list<Tensor> tensors, int64_t axis = 0);
Tensor stack(std::span<const Tensor> tensors, int64_t axis = 0);
Tensor stack(std::initializer_list<Tensor> tensors, int64_t axis = 0);
// Pieces of the given sizes, or of one size (the last may be smaller).
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t axis = 0);
std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t axis = 0);
// Up to `count` parts of equal size; the last one may be smaller, and fewer may do.
std::vector<Tensor> chunk(const Tensor& x, int64_t count, int64_t axis = 0);

}  // namespace binade
