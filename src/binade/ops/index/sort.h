#pragma once

#include <cstdint>

#include "binade/tensor/tensor.h"

namespace binade {

enum class Order : uint8_t { ascending, descending };

// Elements and their positions (i64) in x.
struct Sorted {
  Tensor values, index;
};

// x sorted along an axis. Equal elements keep their order, and NaN counts as the largest number.
// Values are differentiable. On a GPU the order is found on the host, which waits.
Sorted sort(const Tensor& x, int64_t axis = -1, Order order = Order::ascending);
Tensor argsort(const Tensor& x, int64_t axis = -1, Order order = Order::ascending);
// The k largest elements along an axis in descending order, or the k smallest in ascending order.
Sorted topk(const Tensor& x, int64_t k, int64_t axis = -1, Order order = Order::descending);

}  // namespace binade
