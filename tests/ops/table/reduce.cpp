#include "binade/ops/reduce/reduce.h"

#include <algorithm>
#include <limits>

#include "ops/table/description.h"

namespace binade::optable {
namespace {

using Line = std::span<const Real>;
using ReduceLine = std::function<Real(Line)>;

struct Where {
  std::string name;
  Shape shape;
  Axes axes;
  bool keep;
};

// The ways every reduction is tried. `empty_rows` reduces over nothing, which only sums can.
std::vector<Where> ways(bool over_nothing) {
  std::vector<Where> list = {
      {"empty", {0, 3}, {1}, false},    {"one", {1}, {}, false},
      {"scalar", {}, {}, false},        {"all", {3, 7}, {}, false},
      {"rows", {3, 7}, {1}, false},     {"columns", {5, 3}, {0}, true},
      {"inner", {2, 3, 5}, {1}, false}, {"outer_two", {3, 2, 5}, {0, -1}, false},
      {"line", {67}, {-1}, true}};
  if (over_nothing) list.push_back({"over_nothing", {3, 0}, {1}, false});
  return list;
}

using Reduction = std::function<Tensor(const Tensor&, const Axes&, bool)>;

Description reduction(Op op, const Reduction& f, const ReduceLine& line, bool over_nothing,
                      Draw draw = {}) {
  Description description{.op = op, .cases = {}, .large = {}};
  const auto make = [&](const Where& way) {
    return Case{way.name,
                {{way.shape, draw}},
                call1([=](const Tensor& x) { return f(x, way.axes, way.keep); }),
                reference1([=](const Array& x) { return reduce(x, way.axes, way.keep, line); })};
  };
  for (const Where& way : ways(over_nothing)) description.cases.push_back(make(way));
  description.large = make({"large", {23, 401, 17}, {0, 2}, false});
  return description;
}

void append(Description& description, const std::string& suffix, Description more) {
  for (Case& test : more.cases) {
    test.name += suffix;
    description.cases.push_back(std::move(test));
  }
}

Real variance(Line x, double correction) {
  const Real average = mean(x);
  std::vector<Real> squares;
  for (const Real& v : x) squares.push_back(square(v - average));
  return sum(squares) / (static_cast<double>(x.size()) - correction);
}

Real largest_in_line(Line x) {
  return *std::max_element(x.begin(), x.end(),
                           [](const Real& a, const Real& b) { return a.value < b.value; });
}
Real smallest_in_line(Line x) {
  return *std::min_element(x.begin(), x.end(),
                           [](const Real& a, const Real& b) { return a.value < b.value; });
}

std::vector<Real> mapped(Line x, Real (*f)(const Real&)) {
  std::vector<Real> y;
  for (const Real& v : x) y.push_back(f(v));
  return y;
}

Real power(const Real& x, double e) { return exp(log(x) * Real(e)); }

// The norm of an op made of others in f32, rounded once at its end.
Description norms() {
  // No two of one magnitude either.
  const Draw off_zero{.low = -2, .high = 1.3, .gap = 0.25, .distinct = true};
  const auto of = [&](double p, const ReduceLine& line, bool over_nothing) {
    return reduction(
        Op::norm,
        [p](const Tensor& x, const Axes& axes, bool keep) { return norm(x, p, axes, keep); }, line,
        over_nothing, off_zero);
  };
  Description description = of(
      2, [](Line x) { return sqrt(sum(mapped(x, square))); }, false);
  append(description, "_p1",
         of(
             1, [](Line x) { return sum(mapped(x, abs)); }, true));
  append(description, "_p3",
         of(
             3,
             [](Line x) {
               return power(sum(mapped(x, [](const Real& v) { return power(abs(v), 3); })),
                            1.0 / 3);
             },
             false));
  append(description, "_inf",
         of(
             std::numeric_limits<double>::infinity(),
             [](Line x) { return largest_in_line(mapped(x, abs)); }, false));
  return description;
}

Description arg(Op op, Tensor (*f)(const Tensor&, int64_t, bool), bool wants_largest) {
  const auto make = [=](const std::string& name, const Shape& shape, int64_t axis, bool keep) {
    return Case{
        name,
        {{shape, {.distinct = true}}},
        call1([=](const Tensor& x) { return f(x, axis, keep); }),
        reference1([=](const Array& x) {
          return reduce(x, {axis}, keep, [=](Line line) {
            const Real best = wants_largest ? largest_in_line(line) : smallest_in_line(line);
            const auto at = std::find_if(line.begin(), line.end(),
                                         [&](const Real& v) { return v.value == best.value; });
            return step(static_cast<double>(at - line.begin()));
          });
        })};
  };
  return {.op = op,
          .cases = {make("empty", {0, 3}, 1, false), make("one", {1}, 0, false),
                    make("rows", {3, 7}, -1, false), make("columns", {5, 3}, 0, true),
                    make("inner", {2, 3, 5}, 1, false), make("line", {67}, 0, false)},
          .large = make("large", {61, 401, 7}, 1, false),
          .rounds = Rounds::each,
          .result = [](DType) { return DType::i64; }};
}

// Among zeros, ones and minus ones.
Description truth(Op op, const Reduction& f, const std::function<bool(Line)>& holds) {
  Description description = reduction(op, f, [=](Line x) { return step(holds(x) ? 1 : 0); }, true,
                                      {.among = {0, 0, 0, 1, -1}});
  Description often = reduction(op, f, [=](Line x) { return step(holds(x) ? 1 : 0); }, true,
                                {.among = {0, 1, -1, 2, 3}});
  append(description, "_often", often);
  description.rounds = Rounds::each;
  description.result = [](DType) { return DType::boolean; };
  return description;
}

Description scan(Op op, Tensor (*f)(const Tensor&, int64_t),
                 const std::function<Real(const Real&, const Real&)>& step_of, Draw draw) {
  const auto make = [=](const std::string& name, const Shape& shape, int64_t axis) {
    return Case{name,
                {{shape, draw}},
                call1([=](const Tensor& x) { return f(x, axis); }),
                reference1([=](const Array& x) {
                  return along(x, axis, [&](Line line) {
                    std::vector<Real> y;
                    for (const Real& v : line) y.push_back(y.empty() ? v : step_of(y.back(), v));
                    return y;
                  });
                })};
  };
  return {
      .op = op,
      .cases = {make("empty", {0, 3}, 1), make("over_nothing", {3, 0}, 1), make("one", {1}, 0),
                make("rows", {3, 7}, -1), make("columns", {5, 3}, 0), make("inner", {2, 5, 3}, 1)},
      .large = make("large", {61, 401, 7}, 1),
      .narrow_gradients = true};
}

}  // namespace

std::vector<Description> reduction_ops() {
  const Draw near_one{.low = 0.5, .high = 1.5}, distinct{.distinct = true};
  Description variances = reduction(
      Op::var, [](const Tensor& x, const Axes& axes, bool keep) { return var(x, axes, keep, 0); },
      [](Line x) { return variance(x, 0); }, false);
  // One element has no variance around its own mean: PyTorch's NaN.
  Description unbiased = reduction(
      Op::var, [](const Tensor& x, const Axes& axes, bool keep) { return var(x, axes, keep); },
      [](Line x) { return variance(x, 1); }, false);
  std::erase_if(unbiased.cases,
                [](const Case& test) { return test.name == "one" || test.name == "scalar"; });
  append(variances, "_unbiased", unbiased);
  // A mean of 100 and a deviation of 1: a one-pass formula would lose everything in 16 bits.
  append(variances, "_shifted",
         reduction(
             Op::var,
             [](const Tensor& x, const Axes& axes, bool keep) { return var(x, axes, keep, 0); },
             [](Line x) { return variance(x, 0); }, false, {.low = 99, .high = 101}));
  Description deviations = reduction(
      Op::std,
      [](const Tensor& x, const Axes& axes, bool keep) { return binade::std(x, axes, keep); },
      [](Line x) { return sqrt(variance(x, 1)); }, false);
  std::erase_if(deviations.cases,
                [](const Case& test) { return test.name == "one" || test.name == "scalar"; });
  append(deviations, "_biased",
         reduction(
             Op::std,
             [](const Tensor& x, const Axes& axes, bool keep) {
               return binade::std(x, axes, keep, 0);
             },
             // A single element: 0, with no gradient.
             [](Line x) { return x.size() == 1 ? times_sign(x[0], 0) : sqrt(variance(x, 0)); },
             false));
  return {
      deviations,
      truth(
          Op::any, [](const Tensor& x, const Axes& axes, bool keep) { return any(x, axes, keep); },
          [](Line x) {
            return std::any_of(x.begin(), x.end(), [](const Real& v) { return v.value != 0; });
          }),
      truth(
          Op::all, [](const Tensor& x, const Axes& axes, bool keep) { return all(x, axes, keep); },
          [](Line x) {
            return std::all_of(x.begin(), x.end(), [](const Real& v) { return v.value != 0; });
          }),
      reduction(
          Op::sum, [](const Tensor& x, const Axes& axes, bool keep) { return sum(x, axes, keep); },
          [](Line x) { return sum(x); }, true),
      reduction(
          Op::mean,
          [](const Tensor& x, const Axes& axes, bool keep) { return mean(x, axes, keep); },
          [](Line x) { return mean(x); }, true),
      reduction(
          Op::prod,
          [](const Tensor& x, const Axes& axes, bool keep) { return prod(x, axes, keep); }, product,
          true, near_one),
      reduction(
          Op::max, [](const Tensor& x, const Axes& axes, bool keep) { return max(x, axes, keep); },
          largest_in_line, false, distinct),
      reduction(
          Op::min, [](const Tensor& x, const Axes& axes, bool keep) { return min(x, axes, keep); },
          smallest_in_line, false, distinct),
      variances,
      norms(),
      arg(Op::argmax, argmax, true),
      arg(Op::argmin, argmin, false),
      scan(Op::cumsum, cumsum, [](const Real& a, const Real& b) { return a + b; }, {}),
      scan(Op::cumprod, cumprod, [](const Real& a, const Real& b) { return a * b; },
           {.low = 0.6, .high = 1.4}),
  };
}

}  // namespace binade::optable
