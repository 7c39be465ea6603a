#pragma once

#include <cstdint>
#include <tuple>

#include "binade/tensor/tensor.h"

namespace binade {

// Elements and their positions (i64) in x.
struct Sorted {
  Tensor values, index;

  // std::tie(values, index) = sort(x).
  operator std::tuple<Tensor&, Tensor&>() { return {values, index}; }
};

// x sorted along an axis. Equal elements keep their order, and NaN counts as the largest number.
// Values are differentiable. On a GPU the order is found on the host, which waits.
Sorted sort(const Tensor& x, int64_t axis = -1, Order order = Order::ascending);
Tensor argsort(const Tensor& x, int64_t axis = -1, Order order = Order::ascending);
// The k largest elements along an axis in descending order, or the k smallest in ascending order.
Sorted topk(const Tensor& x, int64_t k, int64_t axis = -1, Order order = Order::descending);

}  // namespace binade

namespace std {
// std::get<0>(sort(x)), as LibTorch's tuples have it.
template <size_t I>
const binade::Tensor& get(const binade::Sorted& sorted) {  // NOLINT: of our own type
  static_assert(I < 2);
  return I == 0 ? sorted.values : sorted.index;
}
}  // namespace std
