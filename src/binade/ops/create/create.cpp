#include "binade/ops/create/create.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "binade/ops/common.h"
#include "binade/ops/create/copy.h"

namespace binade {
namespace {

// A tensor in host memory, moved to the device.
Tensor placed(const Tensor& host, Device device) {
  return device == host.device() ? host : to(host, device);
}

void check_count(int64_t found, const Shape& shape) {
  if (found == shape.numel()) return;
  fail("tensor", {.argument = "values",
                  .expected = std::to_string(shape.numel()) + " for " + to_string(shape),
                  .found = std::to_string(found)});
}

// A tensor of values in row-major order in host memory.
Tensor from_host(void* values, DType type, const Shape& shape, DType dtype, Device device) {
  const Tensor x = Tensor::empty(shape, dtype);
  backend::of(x).elementwise.copy({values, type, shape, dense_strides(shape), true}, x);
  return placed(x, device);
}

// A draw from 0 to range - 1. One of 32 bits is enough for ranges up to 2^32; wider ones take two.
uint64_t index_below(uint64_t range, random::Key key, uint64_t i) {
  const auto bits = [key](uint64_t at) -> uint64_t {
    return random::bits(key.seed, key.stream, at);
  };
  if (range <= uint64_t{1} << 32) return bits(i) * range >> 32;
  const uint64_t draw = bits(2 * i) << 32 | bits(2 * i + 1);
  return static_cast<uint64_t>(static_cast<unsigned __int128>(draw) * range >> 64);
}

}  // namespace

void refuse_ragged_list(const Shape& first, const Shape& other) {
  fail("tensor", {.argument = "values",
                  .expected = "lists of one shape, " + to_string(first),
                  .found = "one of " + to_string(other)});
}

Tensor full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor x = Tensor::empty(shape, dtype, device);
  backend::of(x).elementwise.fill(x, value);
  return x;
}

Tensor zeros(const Shape& shape, DType dtype, Device device) {
  return full(shape, 0, dtype, device);
}
Tensor ones(const Shape& shape, DType dtype, Device device) {
  return full(shape, 1, dtype, device);
}
Tensor zeros_like(const Tensor& x) { return full_like(x, 0); }
Tensor ones_like(const Tensor& x) { return full_like(x, 1); }
Tensor full_like(const Tensor& x, double value) {
  return full(x.shape(), value, x.dtype(), x.device());
}

Tensor arange(int64_t count, DType dtype, Device device) {
  if (count < 0)
    fail("arange", {.argument = "count", .expected = "at least 0", .found = std::to_string(count)});
  std::vector<int64_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), int64_t{0});
  return from_host(values.data(), DType::i64, {count}, dtype, device);
}

Tensor arange(Scalar first, Scalar last, Scalar step, std::optional<DType> dtype, Device device) {
  for (const Scalar number : {first, last, step})
    ops::require_finite("arange", "range", number.value());
  if (step.value() == 0)
    fail("arange", {.argument = "step", .expected = "another number than 0", .found = "0"});
  const double count = std::ceil((last.value() - first.value()) / step.value());
  if (count > 0x1p53)  // beyond memory, and what a double can count
    fail(
        "arange",
        {.argument = "range", .expected = "up to 2^53 numbers", .found = fmt::format("{}", count)});
  std::vector<double> values(count > 0 ? static_cast<size_t>(count) : 0);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = first.value() + static_cast<double>(i) * step.value();
  const bool is_integer = first.is_integer() && last.is_integer() && step.is_integer();
  return tensor(values, {static_cast<int64_t>(values.size())},
                dtype.value_or(is_integer ? DType::i64 : DType::f32), device);
}

Tensor linspace(double first, double last, int64_t count, DType dtype, Device device) {
  ops::require_finite("linspace", "first", first);
  ops::require_finite("linspace", "last", last);
  if (count < 0)
    fail("linspace",
         {.argument = "count", .expected = "at least 0", .found = std::to_string(count)});
  std::vector<double> values(static_cast<size_t>(count));
  const double step = count > 1 ? (last - first) / static_cast<double>(count - 1) : 0;
  // From the nearer end, so that the numbers are symmetric and both ends exact.
  for (int64_t i = 0; i < count; ++i) {
    values[static_cast<size_t>(i)] = 2 * i < count
                                         ? first + step * static_cast<double>(i)
                                         : last - step * static_cast<double>(count - 1 - i);
  }
  return tensor(values, {count}, dtype, device);
}

Tensor eye(int64_t rows, std::optional<int64_t> columns, DType dtype, Device device) {
  const int64_t width = columns.value_or(rows);
  if (rows < 0 || width < 0)
    fail("eye", {.argument = "rows, columns",
                 .expected = "at least 0",
                 .found = std::to_string(rows) + ", " + std::to_string(width)});
  const Tensor x = zeros({rows, width}, dtype, device);
  const int64_t count = std::min(rows, width);
  if (count > 0) backend::of(x).elementwise.fill(x.strided({count}, {width + 1}, 0), 1);
  return x;
}

Tensor randn(const Shape& shape, random::Key key, DType dtype, Device device) {
  Tensor x = Tensor::empty(shape, dtype, device);
  backend::of(x).activation.fill_normal(0, 1, key, x);
  return x;
}

Tensor rand(const Shape& shape, random::Key key, DType dtype, Device device) {
  Tensor x = Tensor::empty(shape, dtype, device);
  const auto& kernels = backend::of(x);
  kernels.activation.fill_uniform(0, 1, key, x);
  // A draw next to 1 rounds to 1 in 16 bits: take the largest number below instead.
  if (size_of(dtype) == 2)
    kernels.elementwise.unary(backend::Unary::clamp,
                              {0, dtype == DType::f16 ? 1 - 0x1p-11 : 1 - 0x1p-8}, x, x);
  return x;
}

Tensor randint(int64_t low, int64_t high, const Shape& shape, random::Key key, Device device) {
  if (low >= high) {
    fail("randint", {.argument = "high",
                     .expected = "more than " + std::to_string(low),
                     .found = std::to_string(high)});
  }
  Tensor x = Tensor::empty(shape, DType::i64);
  // Unsigned, because the range may be wider than any signed number.
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  auto* const values = x.mutable_data<int64_t>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    const uint64_t offset = index_below(range, key, static_cast<uint64_t>(i));
    values[i] = static_cast<int64_t>(static_cast<uint64_t>(low) + offset);
  }
  return placed(x, device);
}

Tensor randperm(int64_t count, random::Key key, Device device) {
  const Tensor x = arange(count);
  auto* const values = x.mutable_data<int64_t>();
  for (int64_t i = count - 1; i > 0; --i) {
    const auto at = static_cast<uint64_t>(i);
    std::swap(values[i], values[index_below(at + 1, key, at)]);
  }
  return placed(x, device);
}

Tensor randn(const Shape& shape, std::optional<DType> dtype, Device device) {
  return randn(shape, random::next_key(), dtype.value_or(DType::f32), device);
}

Tensor rand(const Shape& shape, std::optional<DType> dtype, Device device) {
  return rand(shape, random::next_key(), dtype.value_or(DType::f32), device);
}

Tensor randint(int64_t low, int64_t high, const Shape& shape, Device device) {
  return randint(low, high, shape, random::next_key(), device);
}

Tensor randperm(int64_t count, Device device) {
  return randperm(count, random::next_key(), device);
}

Tensor tensor(std::span<const double> values, const Shape& shape, DType dtype, Device device) {
  check_count(static_cast<int64_t>(values.size()), shape);
  return from_host(const_cast<double*>(values.data()), DType::f64, shape, dtype, device);
}

Tensor tensor(std::initializer_list<double> values, const Shape& shape, DType dtype,
              Device device) {
  return tensor(std::span(values.begin(), values.size()), shape, dtype, device);
}

Tensor tensor(std::span<const int64_t> values, const Shape& shape, Device device) {
  check_count(static_cast<int64_t>(values.size()), shape);
  return from_host(const_cast<int64_t*>(values.data()), DType::i64, shape, DType::i64, device);
}

std::vector<double> to_vector(const Tensor& x) {
  ops::require_defined("to_vector", "x", x);
  const Tensor host = ops::converted(to(x.detach(), Device::cpu()), DType::f64);
  const Tensor values = ops::dense(host);
  return {values.data<double>(), values.data<double>() + values.numel()};
}

}  // namespace binade
