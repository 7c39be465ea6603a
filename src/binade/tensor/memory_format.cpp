#include "binade/tensor/memory_format.h"

namespace binade {
namespace {

constexpr int min_rank = 3, max_format_rank = 5;

MemoryFormat format_of(const Shape& shape, const Strides& strides) {
  const bool has_channels = shape.rank() >= min_rank && shape.rank() <= max_format_rank;
  if (!has_channels || shape.numel() == 0 || strides == dense_strides(shape))
    return MemoryFormat::row_major;
  return strides == strides_in(MemoryFormat::channels_last, shape) ? MemoryFormat::channels_last
                                                                   : MemoryFormat::row_major;
}

}  // namespace

Strides strides_in(MemoryFormat format, const Shape& shape) {
  if (format == MemoryFormat::row_major || shape.rank() < min_rank) return dense_strides(shape);
  Strides strides = Strides::filled(shape.rank(), 1);
  int64_t next = shape[1];
  for (int axis = shape.rank() - 1; axis > 1; --axis) {
    strides[axis] = next;
    next *= shape[axis];
  }
  strides[0] = next;
  return strides;
}

MemoryFormat memory_format(const TensorView& x) { return format_of(x.shape, x.strides); }
MemoryFormat memory_format(const Tensor& x) { return format_of(x.shape(), x.strides()); }

bool is_in(MemoryFormat format, const Tensor& x) {
  return format == MemoryFormat::row_major ? x.is_dense() : is_channels_last(x);
}

Tensor empty(const Shape& shape, DType dtype, Device device, MemoryFormat format) {
  const Tensor x = Tensor::empty(shape, dtype, device);
  return format == MemoryFormat::row_major ? x : x.strided(shape, strides_in(format, shape), 0);
}

}  // namespace binade
