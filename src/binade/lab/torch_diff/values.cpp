#include "binade/lab/torch_diff/values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/shape/shape.h"

namespace binade::lab {
namespace {

constexpr int max_axes = 5;         // of which all orders are tried
constexpr int64_t sampled = 64;     // elements that tell most tensors apart
constexpr int64_t measured = 4096;  // elements by which the nearest order is chosen

double norm_of(const std::vector<float>& elements) {
  double squares = 0;
  for (const float x : elements) {
    if (std::isfinite(x)) squares += static_cast<double>(x) * x;
  }
  return std::sqrt(squares);
}

// A tensor in another order of its axes, one element at a time.
class Reordered {
 public:
  Reordered(const Values& y, const AxisOrder& order) : y_(y) {
    const Strides strides = dense_strides(y.shape);
    for (const int axis : order) {
      sizes_.push_back(y.shape[axis]);
      steps_.push_back(strides[axis]);
    }
  }
  float operator[](int64_t i) const {
    if (sizes_.empty()) return y_.elements[static_cast<size_t>(i)];
    int64_t at = 0;
    for (size_t axis = sizes_.size(); axis-- > 0;) {
      at += i % sizes_[axis] * steps_[axis];
      i /= sizes_[axis];
    }
    return y_.elements[static_cast<size_t>(at)];
  }

 private:
  const Values& y_;
  std::vector<int64_t> sizes_, steps_;
};

// All orders of the axes that are longer than 1; the first is the present one.
std::vector<AxisOrder> orders_of(const Shape& shape) {
  AxisOrder order;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] > 1) order.push_back(axis);
  }
  std::vector<AxisOrder> orders = {{}};
  if (std::ssize(order) > max_axes) return orders;
  while (std::next_permutation(order.begin(), order.end())) orders.push_back(order);
  return orders;
}

// The last axis that is longer than 1; -1: none.
int last_axis(const Shape& shape) {
  int axis = shape.rank() - 1;
  while (axis >= 0 && shape[axis] == 1) --axis;
  return axis;
}

bool may_match(const Values& x, const Reordered& y, double limit) {
  const int64_t count = std::min(x.count(), sampled);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = i * x.count() / count;
    if (!(distance_of(x.elements[static_cast<size_t>(at)], y[at]) <= limit)) return false;
  }
  return true;
}

}  // namespace

double Values::rms() const {
  return count() == 0 ? 0 : norm / std::sqrt(static_cast<double>(count()));
}

Values values_of(const Tensor& x) {
  const NoGrad no_grad;
  const amp::Autocast off(amp::disabled_autocast());
  const Tensor host = contiguous(cast(to(x.detach(), Device::cpu()), DType::f32));
  const float* data = host.data<float>();
  Values values{.shape = x.shape(), .elements = {data, data + host.numel()}};
  values.norm = norm_of(values.elements);
  return values;
}

Values columns_of(const Values& x, int64_t width, int64_t begin, int64_t end) {
  const int64_t rows = x.count() / width;
  Values part{.shape = {rows, end - begin}};
  part.elements.reserve(static_cast<size_t>(rows * (end - begin)));
  for (int64_t row = 0; row < rows; ++row) {
    const auto first = x.elements.begin() + row * width;
    part.elements.insert(part.elements.end(), first + begin, first + end);
  }
  part.norm = norm_of(part.elements);
  return part;
}

double Distance::share_of(const Distance& limit) const {
  const auto share = [](double one, double of) { return one == 0 ? 0 : one / of; };
  return std::max(share(rms, limit.rms), share(largest, limit.largest));
}

std::vector<float> reordered(const Values& y, const AxisOrder& order) {
  if (order.empty()) return y.elements;
  const Reordered view(y, order);
  std::vector<float> elements(y.elements.size());
  for (int64_t i = 0; i < y.count(); ++i) elements[static_cast<size_t>(i)] = view[i];
  return elements;
}

Shape element_index(const Shape& shape, int64_t element) {
  Shape index = shape;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[axis] = element % shape[axis];
    element /= shape[axis];
  }
  return index;
}

double distance_of(float x, float y) {
  if (x == y || (std::isnan(x) && std::isnan(y))) return 0;
  const double distance = std::fabs(static_cast<double>(x) - y);
  return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
}

Distance distance_of(const std::vector<float>& x, const std::vector<float>& y) {
  Distance distance;
  double squares = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double one = distance_of(x[i], y[i]);
    squares += one * one;
    distance.largest = std::max(distance.largest, one);
  }
  if (!x.empty()) distance.rms = std::sqrt(squares / static_cast<double>(x.size()));
  return distance;
}

double norm_limit(const Values& x, const Distance& limit) {
  if (!std::ranges::all_of(x.elements, [](float one) { return std::isfinite(one); }))
    return std::numeric_limits<double>::infinity();
  // The triangle inequality, with room for the norms' own rounding.
  return limit.rms * std::sqrt(static_cast<double>(x.count())) + 1e-12 * x.norm;
}

std::optional<AxisOrder> matching_order(const Values& x, const Values& y, const Distance& limit) {
  for (const AxisOrder& order : orders_of(y.shape)) {
    if (!may_match(x, Reordered(y, order), limit.largest)) continue;
    if (distance_of(x.elements, reordered(y, order)).within(limit)) return order;
  }
  return {};
}

AxisOrder nearest_order(const Values& x, const Values& y) {
  AxisOrder nearest;
  double least = std::numeric_limits<double>::infinity();
  const int64_t count = std::min(x.count(), measured);
  for (const AxisOrder& order : orders_of(y.shape)) {
    if (!order.empty() && order.back() != last_axis(y.shape)) continue;
    const Reordered view(y, order);
    double squares = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = i * x.count() / count;
      const double one = distance_of(x.elements[static_cast<size_t>(at)], view[at]);
      squares += one * one;
    }
    if (squares >= least) continue;
    least = squares;
    nearest = order;
  }
  return nearest;
}

}  // namespace binade::lab
