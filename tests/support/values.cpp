#include "support/values.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "binade/backend/transfer.h"
#include "binade/tensor/dtype.h"

namespace binade::test {

Tensor on_host(const Tensor& x) {
  if (!x.device().is_cuda()) return x;
  const auto elements = static_cast<int64_t>(x.storage()->bytes() / size_of(x.dtype()));
  return backend::transfer(x.strided({elements}, {1}, 0), Device::cpu())
      .strided(x.shape(), x.strides(), x.offset());
}

std::vector<double> read(const Tensor& given) {
  const Tensor x = on_host(given);
  std::vector<double> values;
  dispatch(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_element<T>(x, [&](T& element) { values.push_back(static_cast<double>(element)); });
  });
  return values;
}

void write(const Tensor& x, const std::vector<double>& values) {
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

void fill(const Tensor& x, double value) {
  write(x, std::vector<double>(static_cast<size_t>(x.numel()), value));
}

bool same_bits(const Tensor& given_a, const Tensor& given_b) {
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

}  // namespace binade::test
