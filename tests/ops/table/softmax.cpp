#include "binade/ops/norm/softmax.h"

#include <algorithm>
#include <limits>

#include "ops/table/description.h"

namespace binade::optable {
namespace {

using Line = std::span<const Real>;

Real shift_of(Line x) {
  double most = -std::numeric_limits<double>::infinity();
  for (const Real& v : x) most = std::max(most, v.value);
  return x.empty() ? Real(0) : Real(most);
}

std::vector<Real> shifted(Line x) {
  const Real shift = shift_of(x);
  std::vector<Real> y;
  for (const Real& v : x) y.push_back(v - shift);
  return y;
}

std::vector<Real> exponentials(Line x) {
  std::vector<Real> y = shifted(x);
  for (Real& v : y) v = exp(v);
  return y;
}

// The backwards start from the result in memory.
std::vector<Real> softmax_of(Line x) {
  std::vector<Real> y = exponentials(x);
  const Real total = sum(y);
  for (Real& v : y) v = stored(v / total);
  return y;
}

std::vector<Real> log_softmax_of(Line x) {
  const Real lse = log(sum(exponentials(x)));
  std::vector<Real> y = shifted(x);
  for (Real& v : y) v = stored(v - lse);
  return y;
}

Description softmaxes(Op op, const std::function<Tensor(const Tensor&, int64_t)>& f,
                      std::vector<Real> (*reference)(Line)) {
  const auto make = [=](const std::string& name, const Shape& shape, int64_t axis, Draw draw = {}) {
    return Case{name,
                {{shape, draw}},
                call1([=](const Tensor& x) { return f(x, axis); }),
                reference1([=](const Array& x) { return along(x, axis, reference); })};
  };
  return {
      .op = op,
      .cases = {make("empty", {0, 3}, -1), make("over_nothing", {3, 0}, -1), make("one", {1}, 0),
                make("rows", {3, 7}, -1), make("columns", {5, 3}, 0), make("inner", {2, 5, 3}, 1),
                make("shifted", {3, 5}, -1, {.low = 60, .high = 64}), make("line", {67}, 0)},
      .large = make("large", {211, 131}, -1),
      .narrow_gradients = true};
}

}  // namespace

std::vector<Description> softmax_ops() {
  const auto lse_case = [](const std::string& name, const Shape& shape, int64_t axis, bool keep,
                           Draw draw = {}) {
    return Case{name,
                {{shape, draw}},
                call1([=](const Tensor& x) { return logsumexp(x, axis, keep); }),
                reference1([=](const Array& x) {
                  return reduce(x, {axis}, keep, [](Line line) {
                    return log(sum(exponentials(line))) + shift_of(line);
                  });
                })};
  };
  return {
      softmaxes(
          Op::softmax, [](const Tensor& x, int64_t axis) { return softmax(x, axis); }, softmax_of),
      softmaxes(
          Op::log_softmax, [](const Tensor& x, int64_t axis) { return log_softmax(x, axis); },
          log_softmax_of),
      {.op = Op::logsumexp,
       .cases = {lse_case("empty", {0, 3}, -1, false), lse_case("over_nothing", {3, 0}, -1, false),
                 lse_case("one", {1}, 0, false), lse_case("rows", {3, 7}, -1, false),
                 lse_case("columns", {5, 3}, 0, true), lse_case("inner", {2, 5, 3}, 1, false),
                 lse_case("shifted", {3, 5}, -1, true, {.low = 60, .high = 64})},
       .large = lse_case("large", {211, 131}, -1, false),
       .narrow_gradients = true},
  };
}

}  // namespace binade::optable
