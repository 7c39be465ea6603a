#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "binade/backend/transfer.h"
#include "binade/tensor/tensor.h"
#include "support/thread_count.h"

// Tensors as vectors of double and back, by the plainest means: no kernel takes part.
namespace binade::test {

// Calls f with the address of every element of a CPU tensor, in row-major order.
template <class T, class F>
void for_each_element(const Tensor& x, F f) {
  Shape index = Shape::filled(x.rank(), 0);
  T* data = static_cast<T*>(x.raw_data());
  for (int64_t left = x.numel(); left > 0; --left) {
    int64_t at = 0;
    for (int axis = 0; axis < x.rank(); ++axis) at += index[axis] * x.strides()[axis];
    f(data[at]);
    for (int axis = x.rank() - 1; axis >= 0; --axis) {
      if (++index[axis] < x.shape()[axis]) break;
      index[axis] = 0;
    }
  }
}

// The same elements with the same strides in the host's memory.
inline Tensor on_host(const Tensor& x) {
  if (!x.device().is_cuda()) return x;
  const auto elements = static_cast<int64_t>(x.storage()->bytes() / size_of(x.dtype()));
  return backend::transfer(x.strided({elements}, {1}, 0), Device::cpu())
      .strided(x.shape(), x.strides(), x.offset());
}

inline std::vector<double> read(const Tensor& given) {
  const Tensor x = on_host(given);
  std::vector<double> values;
  dispatch(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_element<T>(x, [&](T& element) { values.push_back(static_cast<double>(element)); });
  });
  return values;
}

inline void write(const Tensor& x, const std::vector<double>& values) {
  ASSERT_EQ(static_cast<int64_t>(values.size()), x.numel());
  size_t i = 0;
  dispatch(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_element<T>(x, [&](T& element) {
      if constexpr (sizeof(T) <= 2 && is_floating(dtype_of<T>)) {
        element = T(static_cast<float>(values[i++]));
      } else {
        element = static_cast<T>(values[i++]);
      }
    });
  });
}

inline void fill(const Tensor& x, double value) {
  write(x, std::vector<double>(static_cast<size_t>(x.numel()), value));
}

inline bool same_bits(const Tensor& given_a, const Tensor& given_b) {
  if (given_a.defined() != given_b.defined()) return false;
  if (!given_a.defined()) return true;
  const Tensor a = on_host(given_a), b = on_host(given_b);
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  if (a.numel() == 0) return true;
  if (a.is_dense() && b.is_dense())
    return std::memcmp(a.raw_data(), b.raw_data(), static_cast<size_t>(a.bytes())) == 0;
  const auto bytes = [](const Tensor& x) {
    std::string all;
    dispatch(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      for_each_element<T>(
          x, [&](T& element) { all.append(reinterpret_cast<const char*>(&element), sizeof(T)); });
    });
    return all;
  };
  return bytes(a) == bytes(b);
}

// Runs `f` and gives the text of the Error it throws; "" where it throws none.
inline std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace binade::test
