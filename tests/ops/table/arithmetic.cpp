#include "binade/ops/elementwise/arithmetic.h"

#include "binade/ops/elementwise/unary.h"
#include "ops/table/description.h"

namespace binade::optable {
namespace {

using Binary = Tensor (*)(const Tensor&, const Tensor&);
using RealBinary = std::function<Real(const Real&, const Real&)>;

struct OperandRanges {
  Draw a = {};
  Draw b = {};
};

// The shapes every op of two broadcast operands is tried on.
std::vector<std::pair<std::string, std::pair<Shape, Shape>>> broadcasts() {
  return {{"empty", {{0, 3}, {0, 3}}},  {"empty_broadcast", {{0, 3}, {1, 3}}},
          {"one", {{1}, {1}}},          {"scalars", {{}, {}}},
          {"odd", {{3, 7}, {3, 7}}},    {"row", {{3, 5}, {5}}},
          {"column", {{3, 5}, {3, 1}}}, {"scalar", {{5, 3}, {}}},
          {"outer", {{4, 1}, {1, 3}}},  {"deep", {{2, 1, 3}, {2, 5, 1}}},
          {"wider", {{3}, {2, 2, 3}}}};
}

Description binary(Op op, Binary f, RealBinary reference, OperandRanges ranges = {}) {
  Description description{.op = op, .cases = {}, .large = {}, .rounds = Rounds::each};
  const auto make = [&](const std::string& name, const Shape& a, const Shape& b) {
    return Case{
        name,
        {{a, ranges.a}, {b, ranges.b}},
        call2(f),
        reference2([reference](const Array& x, const Array& y) { return zip(x, y, reference); })};
  };
  for (const auto& [name, shapes] : broadcasts())
    description.cases.push_back(make(name, shapes.first, shapes.second));
  description.large = make("large", {37, 1, 61}, {53, 1});
  return description;
}

Description comparison(Op op, Binary f, bool (*holds)(double, double)) {
  Description description = binary(
      op, f, [holds](const Real& a, const Real& b) { return step(holds(a.value, b.value)); });
  description.result = [](DType) { return DType::boolean; };
  // Among random numbers no two are equal, and none is zero.
  Case equal_values{"equal",
                    {{{2, 5}, {.low = 1, .high = 1}}, {{5}, {.low = 1, .high = 1}}},
                    call2(f),
                    description.cases[0].reference};
  Case zeros = equal_values;
  zeros.name = "zeros";
  for (Input& input : zeros.inputs) input.draw = {.low = 0, .high = 0};
  description.cases.push_back(equal_values);
  description.cases.push_back(zeros);
  return description;
}

Description bits(Op op, Binary f, int64_t (*value)(int64_t, int64_t)) {
  Description description{.op = op, .cases = {}, .large = {}, .rounds = Rounds::each};
  const auto make = [&](const std::string& name, const Shape& a, const Shape& b) {
    const Draw draw{.low = -100, .high = 100};
    return Case{
        name,
        {{a, draw, Input::Kind::index, DType::i64}, {b, draw, Input::Kind::index, DType::i64}},
        call2(f),
        reference2([value](const Array& x, const Array& y) {
          return zip(x, y, [value](const Real& l, const Real& r) {
            return step(static_cast<double>(
                value(static_cast<int64_t>(l.value), static_cast<int64_t>(r.value))));
          });
        })};
  };
  for (const auto& [name, shapes] : broadcasts())
    description.cases.push_back(make(name, shapes.first, shapes.second));
  description.large = make("large", {37, 1, 61}, {53, 1});
  description.result = [](DType) { return DType::i64; };
  return description;
}

Real power(const Real& a, const Real& b) { return exp(b * log(a)); }

// atan2(a, b) with the derivatives b / (a^2 + b^2) and -a / (a^2 + b^2), as the op takes them.
Real angle(const Real& a, const Real& b) {
  // theta = 2 atan(a / (r + b)): smooth wherever b > -r.
  const Real r = sqrt(a * a + b * b);
  return function(a / (r + b), std::atan, [](double v) { return 1 / (1 + v * v); }) * 2.0;
}

Case ternary(const std::string& name, const Shape& a, const Shape& b, const Shape& c, double value,
             bool divides) {
  const auto f = divides ? addcdiv : addcmul;
  return {
      name,
      {{a}, {b}, {c, {.low = 0.5, .high = 2}}},
      call3([=](const Tensor& x, const Tensor& y, const Tensor& z) { return f(x, y, z, value); }),
      reference3([=](const Array& x, const Array& y, const Array& z) {
        const Array part = zip(y, z, [=](const Real& l, const Real& r) {
          return (divides ? l / r : l * r) * Real(value);
        });
        return zip(x, part, [](const Real& l, const Real& r) { return l + r; });
      })};
}

Description fused(Op op, bool divides) {
  return {.op = op,
          .cases = {ternary("empty", {0, 3}, {0, 3}, {3}, 1, divides),
                    ternary("one", {1}, {1}, {1}, -0.5, divides),
                    ternary("odd", {3, 7}, {3, 7}, {3, 7}, 0.75, divides),
                    ternary("broadcast", {2, 1, 5}, {3, 1}, {5}, 1.5, divides)},
          .large = ternary("large", {97, 1, 53}, {13, 1}, {53}, 0.75, divides),
          .rounds = Rounds::each};
}

Case choice(const std::string& name, const Shape& condition, const Shape& a, const Shape& b) {
  return {name,
          {boolean(condition), {a}, {b}},
          call3(where),
          reference3([](const Array& c, const Array& x, const Array& y) {
            Array z(broadcast_shape(c.shape, broadcast_shape(x.shape, y.shape)));
            int64_t i = 0;
            for_each_index(z.shape, [&](const Shape& index) {
              z[i++] = broadcast_at(c, index).value != 0 ? broadcast_at(x, index)
                                                         : broadcast_at(y, index);
            });
            return z;
          })};
}

}  // namespace

std::vector<Description> arithmetic_ops() {
  const Draw positive{.low = 0.25, .high = 3}, nonzero{.low = -3, .high = 3, .gap = 0.5};
  // Two ranges that interleave without meeting: neither operand is ever equal to the other.
  const auto larger = [](const Real& a, const Real& b) { return a.value >= b.value ? a : b; };
  const auto smaller = [](const Real& a, const Real& b) { return a.value <= b.value ? a : b; };
  // The quotient is far from whole numbers, where the result jumps.
  Description remainders = binary(
      Op::remainder, remainder,
      [](const Real& a, const Real& b) { return a - b * Real(std::floor(a.value / b.value)); },
      {.a = {.among = {-2.75, -1.5, -0.25, 0.75, 1.625, 5.375}}, .b = {.among = {-2, 1.1875, 2}}});
  return {
      remainders,
      binary(Op::add, add, [](const Real& a, const Real& b) { return a + b; }),
      binary(Op::sub, sub, [](const Real& a, const Real& b) { return a - b; }),
      binary(Op::mul, mul, [](const Real& a, const Real& b) { return a * b; }),
      binary(Op::div, div, [](const Real& a, const Real& b) { return a / b; }, {{}, nonzero}),
      binary(Op::atan2, atan2, angle, {{}, positive}),
      binary(Op::maximum, maximum, larger, {{.distinct = true}, {.low = -1.99, .high = 2.01}}),
      binary(Op::minimum, minimum, smaller, {{.distinct = true}, {.low = -1.99, .high = 2.01}}),
      binary(Op::pow, pow, power, {positive, {}}),
      {.op = Op::where,
       .cases = {choice("empty", {0, 3}, {0, 3}, {3}), choice("one", {1}, {1}, {1}),
                 choice("odd", {3, 7}, {3, 7}, {3, 7}), choice("broadcast", {3, 1}, {2, 1, 5}, {5}),
                 choice("wide_condition", {2, 3, 5}, {5}, {3, 1})},
       .large = choice("large", {97, 53, 11}, {53, 1}, {97, 1, 11}),
       .rounds = Rounds::each},
      fused(Op::addcmul, false),
      fused(Op::addcdiv, true),
      comparison(Op::eq, eq, [](double a, double b) { return a == b; }),
      comparison(Op::not_equal, not_equal, [](double a, double b) { return a != b; }),
      comparison(Op::less, less, [](double a, double b) { return a < b; }),
      comparison(Op::less_equal, less_equal, [](double a, double b) { return a <= b; }),
      comparison(Op::greater, greater, [](double a, double b) { return a > b; }),
      comparison(Op::greater_equal, greater_equal, [](double a, double b) { return a >= b; }),
      comparison(Op::logical_and, logical_and, [](double a, double b) { return a != 0 && b != 0; }),
      comparison(Op::logical_or, logical_or, [](double a, double b) { return a != 0 || b != 0; }),
      bits(Op::bitwise_and, bitwise_and, [](int64_t a, int64_t b) { return a & b; }),
      bits(Op::bitwise_or, bitwise_or, [](int64_t a, int64_t b) { return a | b; }),
      bits(Op::bitwise_xor, bitwise_xor, [](int64_t a, int64_t b) { return a ^ b; }),
      bits(
          Op::bitwise_not, [](const Tensor& a, const Tensor& b) { return bitwise_not(a) + b * 0; },
          [](int64_t a, int64_t) { return ~a; }),
  };
}

}  // namespace binade::optable
