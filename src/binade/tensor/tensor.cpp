#include "binade/tensor/tensor.h"

#include <limits>

namespace binade {
namespace {

bool is_row_major(const Shape& shape, const Strides& strides) {
  int64_t expected = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] == 0) return true;
    if (shape[axis] != 1 && strides[axis] != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

// Bytes of a dense tensor; fails on negative sizes and from 2^63 bytes on.
size_t checked_bytes(const Shape& shape, DType dtype) {
  int64_t bytes = static_cast<int64_t>(size_of(dtype));
  bool is_empty = false;
  for (const int64_t size : shape) {
    if (size < 0)
      fail("empty",
           {.argument = "shape", .expected = "sizes of at least 0", .found = to_string(shape)});
    is_empty |= size == 0;
    if (size > 0 && bytes > std::numeric_limits<int64_t>::max() / size) {
      fail("empty",
           {.argument = "shape", .expected = "fewer than 2^63 bytes", .found = to_string(shape)});
    }
    if (size > 0) bytes *= size;
  }
  return is_empty ? 0 : static_cast<size_t>(bytes);
}

// Whether a view is valid and all its elements are among the first `elements` of its storage.
bool lies_inside(const Shape& shape, const Strides& strides, int64_t offset, int64_t elements) {
  if (shape.rank() != strides.rank()) return false;
  int64_t first = offset, last = offset;
  bool is_empty = false, overflows = false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] < 0) return false;
    if (shape[axis] == 0) is_empty = true;
    int64_t reach = 0;
    int64_t& end = strides[axis] < 0 ? first : last;
    overflows |= __builtin_mul_overflow(shape[axis] - 1, strides[axis], &reach) ||
                 __builtin_add_overflow(end, reach, &end);
  }
  return is_empty || (!overflows && first >= 0 && last < elements);
}

}  // namespace

bool TensorView::is_dense() const { return is_row_major(shape, strides); }

TensorView TensorView::expanded(const Shape& wider) const {
  TensorView view = *this;
  view.shape = wider;
  view.strides = Strides::filled(wider.rank(), 0);
  const int offset = wider.rank() - shape.rank();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] != 1) view.strides[axis + offset] = strides[axis];
  }
  return view;
}

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  auto impl = std::make_shared<Impl>();
  impl->storage =
      std::make_shared<Storage>(checked_bytes(shape, dtype), device, memory::current_category());
  impl->shape = shape;
  impl->strides = dense_strides(shape);
  impl->dtype = dtype;
  return Tensor(std::move(impl));
}

Tensor Tensor::of_storage(std::shared_ptr<Storage> storage, const Shape& shape,
                          const Strides& strides, DType dtype) {
  auto impl = std::make_shared<Impl>();
  impl->storage = std::move(storage);
  impl->shape = shape;
  impl->strides = strides;
  impl->dtype = dtype;
  return Tensor(std::move(impl));
}

int64_t Tensor::size(int64_t axis) const { return shape()[normalize_axis("size", axis, rank())]; }

bool Tensor::is_dense() const { return is_row_major(shape(), strides()); }

Tensor Tensor::strided(const Shape& shape, const Strides& strides, int64_t offset) const {
  const auto elements = static_cast<int64_t>(storage()->bytes() / size_of(dtype()));
  if (!lies_inside(shape, strides, offset, elements)) {
    fail("strided", {.argument = "view",
                     .expected = "inside the storage's " + std::to_string(elements) + " elements",
                     .found = to_string(shape) + " with strides " + to_string(strides) +
                              " from element " + std::to_string(offset)});
  }
  auto impl = std::make_shared<Impl>();
  impl->storage = storage();
  impl->offset = offset;
  impl->shape = shape;
  impl->strides = strides;
  impl->dtype = dtype();
  return Tensor(std::move(impl));
}

void* Tensor::raw_data() const {
  std::byte* start = storage()->data();
  return start == nullptr ? nullptr : start + offset() * static_cast<int64_t>(size_of(dtype()));
}

Tensor::operator TensorView() const {
  if (!defined()) return {};
  return {raw_data(), dtype(), shape(), strides(), true};
}

void Tensor::refuse_undefined() {
  fail("tensor", {.argument = "handle",
                  .expected = "a defined tensor",
                  .found = "none",
                  .hint = "a default-constructed Tensor refers to no data"});
}

void Tensor::check_access(DType requested) const {
  if (!defined())
    fail("data", {.argument = "tensor", .expected = "a defined tensor", .found = "none"});
  if (dtype() != requested) {
    fail("data", {.argument = "type",
                  .expected = std::string(name(dtype())),
                  .found = std::string(name(requested))});
  }
  if (!device().is_cpu()) {
    fail("data", {.argument = "device",
                  .expected = "cpu",
                  .found = to_string(device()),
                  .hint = "copy it with to(x, Device::cpu())"});
  }
}

std::string describe(const Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  return to_string(tensor.shape()) + " " + std::string(name(tensor.dtype())) + " " +
         to_string(tensor.device());
}

}  // namespace binade
