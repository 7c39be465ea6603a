#pragma once

#include <vector>

#include "binade/tensor/tensor.h"
#include "support/error_of.h"
#include "support/thread_count.h"

// Tensors as vectors of double and back, by the plainest means: no kernel takes part.
namespace binade::test {

// Calls f with the address of every element of a CPU tensor, in row-major order.
template <class T, class F>
void for_each_element(const Tensor& x, F f) {
  Shape index = Shape::filled(x.rank(), 0);
  T* data = static_cast<T*>(x.raw_data());
  const int last = x.rank() - 1;
  const int64_t row = last < 0 ? 1 : x.shape()[last], step = last < 0 ? 1 : x.strides()[last];
  for (int64_t left = x.numel(); left > 0; left -= row) {
    int64_t at = 0;
    for (int axis = 0; axis < last; ++axis) at += index[axis] * x.strides()[axis];
    for (int64_t i = 0; i < row; ++i) f(data[at + i * step]);
    for (int axis = last - 1; axis >= 0; --axis) {
      if (++index[axis] < x.shape()[axis]) break;
      index[axis] = 0;
    }
  }
}

// The same elements with the same strides in the host's memory.
Tensor on_host(const Tensor& x);

std::vector<double> read(const Tensor& x);
void write(const Tensor& x, const std::vector<double>& values);
void fill(const Tensor& x, double value);
bool same_bits(const Tensor& a, const Tensor& b);

}  // namespace binade::test
