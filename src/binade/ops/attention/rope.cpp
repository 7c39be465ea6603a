#include "binade/ops/attention/rope.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "binade/autograd/op_observer.h"
#include "binade/ops/attention/rotation.h"
#include "binade/ops/common.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/shape/shape.h"

namespace binade {
namespace {

using namespace ops;

int64_t check_rope(const Tensor& x, const Tensor& cosine, const Tensor& sine, int64_t start,
                   int64_t rotated) {
  require_compute("rope", "x", x);
  require_rank("rope", "x", x, 4);
  require_rank("rope", "cosine", cosine, 2);
  require_shape("rope", "sine", sine, cosine.shape());
  for (const auto& [argument, table] : {std::pair("cosine", &cosine), std::pair("sine", &sine)}) {
    if (table->dtype() != DType::f32)
      fail("rope", {.argument = argument, .expected = "f32", .found = describe(*table)});
    require_device("rope", argument, *table, x);
  }
  if (x.size(3) % 2 != 0 || cosine.size(1) != x.size(3) / 2) {
    fail("rope", {.argument = "cosine",
                  .expected = "[positions, half of x's dim]",
                  .found = describe(cosine) + " for x " + describe(x)});
  }
  if (start < 0 || start > cosine.size(0) - x.size(1)) {
    fail("rope", {.argument = "start",
                  .expected = "positions inside a table of " + std::to_string(cosine.size(0)),
                  .found = std::to_string(start) + " + " + std::to_string(x.size(1)) + " tokens",
                  .hint = "the model's context is shorter than this sequence"});
  }
  if (rotated > x.size(2)) {
    fail("rope", {.argument = "rotated",
                  .expected = "at most the heads of " + describe(x),
                  .found = std::to_string(rotated)});
  }
  return rotated < 0 ? x.size(2) : rotated;
}

// The gradient, in dy's own memory if nothing else reads that.
Tensor rotate_back(const Tensor& dy, const Rotation& rotation) {
  const bool in_place = dy.is_sole_owner() && autograd::op_observer() == nullptr;
  const Tensor in = dense(dy);
  const Tensor dx = in_place ? in : Tensor::empty_like(in);
  rotation.inverted()(in, dx);
  return dx;
}

}  // namespace

namespace ops {

Rotation Rotation::of(const Tensor& x, const Tensor& cosine, const Tensor& sine, int64_t start,
                      int64_t rotated) {
  return {cosine, sine, start, check_rope(x, cosine, sine, start, rotated)};
}

Rotation Rotation::inverted() const {
  Rotation result = *this;
  result.inverse = !inverse;
  return result;
}

void Rotation::operator()(const Tensor& x, const Tensor& y) const {
  const auto heads = [](const Tensor& t, int64_t first, int64_t count) {
    return t.strided({t.size(0), t.size(1), count, t.size(3)}, t.strides(),
                     t.offset() + first * t.strides()[2]);
  };
  backend::of(x).attention.rope({.x = heads(x, 0, rotated),
                                 .cosine = cosine,
                                 .sine = sine,
                                 .start = start,
                                 .inverse = inverse,
                                 .y = heads(y, 0, rotated)});
  const int64_t rest = x.size(2) - rotated;
  if (rest > 0 && x.raw_data() != y.raw_data())
    backend::of(x).elementwise.copy(heads(x, rotated, rest), heads(y, rotated, rest));
}

backend::RotatedHeads Rotation::operands(const Tensor& x) const {
  return {.x = x,
          .rotated = rotated,
          .cosine = cosine,
          .sine = sine,
          .start = start,
          .inverse = inverse};
}

}  // namespace ops

std::pair<Tensor, Tensor> rope_tables(int64_t positions, int64_t dim, double theta, Device device) {
  if (positions < 1 || dim < 2 || dim % 2 != 0 || !(theta > 0) || std::isinf(theta)) {
    fail("rope_tables", {.argument = "positions, dim, theta",
                         .expected = "at least 1, an even number, a finite number more than 0",
                         .found = std::to_string(positions) + ", " + std::to_string(dim) + ", " +
                                  fmt::format("{}", theta)});
  }
  std::vector<float> frequencies;
  for (int64_t i = 0; i < dim / 2; ++i) {
    // Rounded to f32 as in other implementations, so that their checkpoints give the same angles.
    frequencies.push_back(static_cast<float>(
        1 / std::pow(theta, static_cast<double>(2 * i) / static_cast<double>(dim))));
  }
  return rope_tables(positions, frequencies, device);
}

std::pair<Tensor, Tensor> rope_tables(int64_t positions, std::span<const float> frequencies,
                                      Device device) {
  const auto half = static_cast<int64_t>(frequencies.size());
  if (positions < 1 || half < 1) {
    fail("rope_tables", {.argument = "positions, frequencies",
                         .expected = "at least 1",
                         .found = std::to_string(positions) + ", " + std::to_string(half)});
  }
  if (device.is_meta())
    return {Tensor::empty({positions, half}, DType::f32, device),
            Tensor::empty({positions, half}, DType::f32, device)};
  const Tensor cosine = Tensor::empty({positions, half}, DType::f32),
               sine = Tensor::empty_like(cosine);
  auto* const cosines = cosine.mutable_data<float>();
  auto* const sines = sine.mutable_data<float>();
  for (int64_t i = 0; i < half; ++i) {
    for (int64_t position = 0; position < positions; ++position) {
      const float angle = static_cast<float>(position) * frequencies[static_cast<size_t>(i)];
      cosines[position * half + i] = std::cos(angle);
      sines[position * half + i] = std::sin(angle);
    }
  }
  return {to(cosine, device), to(sine, device)};
}

Tensor rope(const Tensor& x, const Tensor& cosine, const Tensor& sine, int64_t start,
            int64_t rotated_given) {
  const Rotation rotation = Rotation::of(x, cosine, sine, start, rotated_given);
  const Call call(Op::rope, {x});
  const Tensor in = dense(call[0]);
  const Tensor y = Tensor::empty_like(in);
  rotation(in, y);
  return call.result(y,
                     [=](const Tensor& dy, GradSlots dx) { dx[0].add(rotate_back(dy, rotation)); });
}

Tensor rope_(const Tensor& x, const Tensor& cosine, const Tensor& sine, int64_t start,
             int64_t rotated_given) {
  // An observer may look at x later.
  if (autograd::op_observer() != nullptr) return rope(x, cosine, sine, start, rotated_given);
  const Rotation rotation = Rotation::of(x, cosine, sine, start, rotated_given);
  const Call call(Op::rope, {x});
  const Tensor y = dense(call[0]).detach();
  rotation(y, y);
  y.bump_version();
  return call.result(y,
                     [=](const Tensor& dy, GradSlots dx) { dx[0].add(rotate_back(dy, rotation)); });
}

Tensor rope_composite(const Tensor& x, const Tensor& cosine, const Tensor& sine, int64_t start,
                      int64_t rotated_given) {
  const int64_t rotated = check_rope(x, cosine, sine, start, rotated_given);
  Composite call(Op::rope, {x});
  const int64_t tokens = x.size(1), half = x.size(3) / 2;
  const auto table = [&](const Tensor& values) {
    return reshape(slice(values, 0, start, start + tokens), {1, tokens, 1, half});
  };
  const Tensor in = slice(call[0], 2, 0, rotated), rest = slice(call[0], 2, rotated, x.size(2));
  const Tensor wide = cast(in, accumulation_type(in));
  const Tensor a = slice(wide, 3, 0, half), b = slice(wide, 3, half, 2 * half);
  const Tensor c = table(cosine), s = table(sine);
  const Tensor y = cat({a * c - b * s, b * c + a * s}, 3);
  return call.result(cat({cast(y, call[0].dtype()), rest}, 2));
}

}  // namespace binade
