#pragma once

#include "binade/tensor/tensor.h"

namespace binade {

// Orders of the elements of x [n, channels, spatial...] in memory, without gaps. The shape is the
// same in both: channels-last is a matter of strides, as in PyTorch.
enum class MemoryFormat : uint8_t {
  row_major,      // [n, channels, spatial...]
  channels_last,  // [n, spatial..., channels]
};

Strides strides_in(MemoryFormat format, const Shape& shape);

// Channels-last if x has one to three spatial axes and exactly the strides of that format, else
// row-major, which then says nothing about the strides of x.
MemoryFormat memory_format(const TensorView& x);
MemoryFormat memory_format(const Tensor& x);
inline bool is_channels_last(const TensorView& x) {
  return memory_format(x) == MemoryFormat::channels_last;
}
inline bool is_channels_last(const Tensor& x) {
  return memory_format(x) == MemoryFormat::channels_last;
}

// Whether the elements of x are in this order, without gaps.
bool is_in(MemoryFormat format, const Tensor& x);

// Tensor::empty() in a format.
Tensor empty(const Shape& shape, DType dtype, Device device, MemoryFormat format);

}  // namespace binade
