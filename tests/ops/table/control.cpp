#include "binade/ops/custom.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/recompute.h"
#include "ops/table/description.h"

namespace binade::optable {
namespace {

// tanh(a) * b + a, recomputed in the backward.
Case checkpoint_case(const std::string& name, const Shape& shape) {
  const auto body = [](std::span<const Tensor> x) { return binade::tanh(x[0]) * x[1] + x[0]; };
  return {name,
          {{shape}, {shape}},
          [=](std::span<const Tensor> x) { return std::vector<Tensor>{checkpoint(body, x)}; },
          reference2([](const Array& a, const Array& b) {
            return zip(a, b, [](const Real& x, const Real& y) {
              return function_of_output(x, std::tanh, [](double v) { return (1 - v) * (1 + v); }) *
                         y +
                     x;
            });
          })};
}

// a * a * b, with a backward of its own.
Case custom_case(const std::string& name, const Shape& shape) {
  const CustomOp op{
      .name = "square_times",
      .cast = CastClass::as_is,
      .forward = [](std::span<const Tensor> x) { return x[0] * x[0] * x[1]; },
      .backward =
          [](const Tensor& dy, std::span<const Tensor> x, const Tensor&, autograd::GradSlots dx) {
            if (dx[0].needs_grad()) dx[0].add(dy * x[0] * x[1] * 2.0);
            if (dx[1].needs_grad()) dx[1].add(dy * x[0] * x[0]);
          }};
  return {name,
          {{shape}, {shape}},
          [=](std::span<const Tensor> x) { return std::vector<Tensor>{custom(op, x)}; },
          reference2([](const Array& a, const Array& b) {
            return zip(a, b, [](const Real& x, const Real& y) { return x * x * y; });
          })};
}

}  // namespace

std::vector<Description> control_ops() {
  return {
      {.op = Op::checkpoint,
       .cases = {checkpoint_case("empty", {0, 3}), checkpoint_case("one", {1}),
                 checkpoint_case("odd", {3, 7})},
       .large = checkpoint_case("large", {211, 307}),
       .rounds = Rounds::each},
      {.op = Op::custom,
       .cases = {custom_case("empty", {0, 3}), custom_case("one", {1}), custom_case("odd", {3, 7})},
       .large = custom_case("large", {211, 307}),
       .rounds = Rounds::each},
  };
}

}  // namespace binade::optable
