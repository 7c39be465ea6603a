#include "binade/ops/loss/loss.h"

#include <limits>

#include "ops/table/description.h"
#include "ops/table/reduced.h"

namespace binade::optable {
namespace {

using Line = std::span<const Real>;

Real log_sum_exp(Line x) {
  double most = -std::numeric_limits<double>::infinity();
  for (const Real& v : x) most = std::max(most, v.value);
  std::vector<Real> terms;
  for (const Real& v : x) terms.push_back(exp(v - Real(most)));
  return log(sum(terms)) + Real(most);
}

// (1 - s) (lse - x[target]) + s (lse - mean x), 0 where the target is ignored; `mean` over those
// that count.
Array cross_entropies(const Array& logits, const Array& target,
                      const CrossEntropyOptions& options) {
  const int64_t classes = logits.size(-1);
  Array losses(target.shape);
  int64_t counted = 0;
  for (int64_t row = 0; row < target.numel(); ++row) {
    const auto wanted = static_cast<int64_t>(target[row].value);
    if (wanted == options.ignore_index) continue;
    ++counted;
    const Line line(logits.values.data() + row * classes, static_cast<size_t>(classes));
    const Real lse = log_sum_exp(line);
    Real loss = (lse - line[static_cast<size_t>(wanted)]) * Real(1 - options.smoothing);
    if (options.smoothing > 0) loss = loss + (lse - mean(line)) * Real(options.smoothing);
    losses[row] = loss;
  }
  if (options.reduce != Reduce::mean) return reduced(losses, options.reduce);
  return reduce(losses, {}, false,
                [counted](Line line) { return sum(line) / Real(static_cast<double>(counted)); });
}

Description entropies(Tensor (*f)(const Tensor&, const Tensor&, const CrossEntropyOptions&)) {
  const auto make = [=](const std::string& name, const Shape& rows, int64_t classes,
                        CrossEntropyOptions options, DType type = DType::i64) {
    Shape logits = rows;
    logits.push_back(classes);
    return Case{
        name,
        {{logits, {.low = -3, .high = 3}}, index(rows, classes, type)},
        call2([=](const Tensor& x, const Tensor& t) { return f(x, t, options); }),
        reference2([=](const Array& x, const Array& t) { return cross_entropies(x, t, options); })};
  };
  return {.op = Op::cross_entropy,
          .cases = {make("empty", {0}, 3, {.reduce = Reduce::sum}), make("one", {1}, 1, {}),
                    make("odd", {5}, 7, {}), make("vector", {}, 5, {}),
                    make("summed", {3}, 5, {.reduce = Reduce::sum}),
                    make("apart", {2, 3}, 5, {.reduce = Reduce::none}),
                    make("smoothed", {5}, 7, {.smoothing = 0.1}, DType::i32),
                    make("ignoring", {9}, 3, {.ignore_index = 1}),
                    make("ignoring_apart", {9}, 3,
                         {.reduce = Reduce::none, .smoothing = 0.2, .ignore_index = 0})},
          .large = make("large", {211}, 307, {.smoothing = 0.1}),
          .narrow_gradients = true,
          .result = accumulation_type};
}

// Takes the rows of a chunk last; the composite has none.
using LinearCrossEntropy = std::function<Tensor(const Tensor&, const Tensor&, const Tensor&,
                                                CrossEntropyOptions, int64_t)>;

Description linear_entropies(const LinearCrossEntropy& f) {
  const auto make = [=](const std::string& name, const Shape& rows, int64_t width, int64_t classes,
                        CrossEntropyOptions options, int64_t chunk) {
    Shape x = rows;
    x.push_back(width);
    return Case{name,
                {{x, {.low = -1, .high = 1}}, {{classes, width}}, index(rows, classes)},
                call3([=](const Tensor& a, const Tensor& weight, const Tensor& t) {
                  return f(a, weight, t, options, chunk);
                }),
                reference3([=](const Array& a, const Array& weight, const Array& t) {
                  Shape shape = rows;
                  shape.push_back(classes);
                  Array logits(shape);
                  for (int64_t i = 0; i < logits.numel(); ++i) {
                    const Line left(a.values.data() + i / classes * width,
                                    static_cast<size_t>(width));
                    const Line right(weight.values.data() + i % classes * width,
                                     static_cast<size_t>(width));
                    // A chunk of logits, then its gradient, lies in memory.
                    logits[i] = stored(dot(left, right));
                  }
                  return cross_entropies(logits, t, options);
                })};
  };
  return {
      .op = Op::linear_cross_entropy,
      .cases = {make("empty", {0}, 3, 4, {.reduce = Reduce::sum}, 0), make("one", {1}, 1, 1, {}, 0),
                make("odd", {7}, 3, 5, {}, 0), make("chunks", {7}, 5, 3, {.smoothing = 0.1}, 2),
                make("rows_one_by_one", {5}, 3, 5, {.reduce = Reduce::sum}, 1),
                make("ignoring", {3, 3}, 3, 4, {.ignore_index = 2}, 4)},
      .large = make("large", {301}, 67, 131, {.smoothing = 0.1}, 64),
      .narrow_gradients = true,
      .result = accumulation_type};
}

Description nlls() {
  const auto make = [](const std::string& name, const Shape& rows, int64_t classes, Reduce how,
                       int64_t ignored = -100) {
    Shape x = rows;
    x.push_back(classes);
    return Case{
        name,
        {{x, {.low = -3, .high = 0}}, index(rows, classes)},
        call2([=](const Tensor& a, const Tensor& t) { return nll_loss(a, t, how, ignored); }),
        reference2([=](const Array& a, const Array& t) {
          Array losses(rows);
          double counted = 0;
          for (int64_t i = 0; i < t.numel(); ++i) {
            const auto wanted = static_cast<int64_t>(t[i].value);
            if (wanted == ignored) continue;
            losses[i] = -a[i * classes + wanted];
            ++counted;
          }
          if (how != Reduce::mean) return reduced(losses, how);
          return reduce(losses, {}, false,
                        [counted](Line line) { return sum(line) / Real(counted); });
        })};
  };
  return {.op = Op::nll_loss,
          .cases = {make("empty", {0}, 3, Reduce::sum), make("one", {1}, 1, Reduce::mean),
                    make("odd", {5}, 7, Reduce::mean), make("apart", {2, 3}, 5, Reduce::none),
                    make("ignoring", {9}, 3, Reduce::mean, 1)},
          .large = make("large", {1031}, 61, Reduce::mean),
          .rounds = Rounds::each};
}

struct Ranges {
  Draw x = {};
  Draw target = {};
};

// Losses of two tensors of one shape, element by element.
Description pairwise(Op op, const std::function<Tensor(const Tensor&, const Tensor&, Reduce)>& f,
                     const std::function<Real(const Real&, const Real&)>& loss,
                     Ranges ranges = {}) {
  const auto make = [=](const std::string& name, const Shape& shape, Reduce how) {
    return Case{
        name,
        {{shape, ranges.x}, {shape, ranges.target}},
        call2([=](const Tensor& x, const Tensor& t) { return f(x, t, how); }),
        reference2([=](const Array& x, const Array& t) { return reduced(zip(x, t, loss), how); })};
  };
  return {.op = op,
          .cases = {make("empty", {0, 3}, Reduce::sum), make("one", {1}, Reduce::mean),
                    make("scalar", {}, Reduce::sum), make("odd", {3, 7}, Reduce::mean),
                    make("summed", {2, 3, 5}, Reduce::sum), make("apart", {3, 5}, Reduce::none)},
          .large = make("large", {211, 307}, Reduce::mean),
          .rounds = Rounds::each};
}

void add_cases(Description& description, const std::string& suffix, Description more) {
  for (Case& test : more.cases) {
    test.name += suffix;
    description.cases.push_back(std::move(test));
  }
}

Real huber(const Real& x, const Real& t, double delta) {
  const Real distance = abs(x - t);
  return distance.value <= delta ? square(distance) * Real(0.5)
                                 : (distance - Real(0.5 * delta)) * Real(delta);
}

Real smooth_l1(const Real& x, const Real& t, double beta) {
  const Real distance = abs(x - t);
  return distance.value < beta ? square(distance) * Real(0.5 / beta) : distance - Real(0.5 * beta);
}

Real bce_logits(const Real& x, const Real& t, const Real& weight) {
  return (Real(1) - t) * x + softplus(-x) * ((weight - Real(1)) * t + Real(1));
}

Description bces() {
  const Ranges ranges{{.low = -4, .high = 4}, {.low = 0, .high = 1}};
  Description description = pairwise(
      Op::bce_with_logits,
      [](const Tensor& x, const Tensor& t, Reduce how) { return bce_with_logits(x, t, how); },
      [](const Real& x, const Real& t) { return (Real(1) - t) * x + softplus(-x); }, ranges);
  description.cases.push_back(
      {"weighted",
       {{{3, 5}, ranges.x}, {{3, 5}, ranges.target}, {{5}, {.low = 0.5, .high = 3}}},
       call3([](const Tensor& x, const Tensor& t, const Tensor& w) {
         return bce_with_logits(x, t, Reduce::mean, w);
       }),
       reference3([](const Array& x, const Array& t, const Array& w) {
         Array losses(x.shape);
         for (int64_t i = 0; i < x.numel(); ++i) losses[i] = bce_logits(x[i], t[i], w[i % 5]);
         return reduced(losses, Reduce::mean);
       })});
  return description;
}

Description kl_divs() {
  const Ranges plain{{.low = -3, .high = 0}, {.low = 0.1, .high = 1}},
      logs{{.low = -3, .high = 0}, {.low = -2, .high = 0}};
  Description description = pairwise(
      Op::kl_div, [](const Tensor& x, const Tensor& t, Reduce how) { return kl_div(x, t, how); },
      [](const Real& x, const Real& t) { return t * log(t) - t * x; }, plain);
  add_cases(
      description, "_log",
      pairwise(
          Op::kl_div,
          [](const Tensor& x, const Tensor& t, Reduce how) { return kl_div(x, t, how, true); },
          [](const Real& x, const Real& t) { return exp(t) * (t - x); }, logs));
  return description;
}

}  // namespace

std::vector<Description> loss_ops() {
  // Apart from each other by more than the gap, so that no difference is near zero.
  const Ranges apart{{.low = -2, .high = 0}, {.low = 0.1, .high = 2}};
  Description smooth = pairwise(
      Op::smooth_l1_loss,
      [](const Tensor& x, const Tensor& t, Reduce how) { return smooth_l1_loss(x, t, how); },
      [](const Real& x, const Real& t) { return smooth_l1(x, t, 1); }, apart);
  add_cases(smooth, "_wide",
            pairwise(
                Op::smooth_l1_loss,
                [](const Tensor& x, const Tensor& t, Reduce how) {
                  return smooth_l1_loss(x, t, how, 2.5);
                },
                [](const Real& x, const Real& t) { return smooth_l1(x, t, 2.5); }, apart));
  Description hubers = pairwise(
      Op::huber_loss,
      [](const Tensor& x, const Tensor& t, Reduce how) { return huber_loss(x, t, how); },
      [](const Real& x, const Real& t) { return huber(x, t, 1); }, apart);
  add_cases(
      hubers, "_wide",
      pairwise(
          Op::huber_loss,
          [](const Tensor& x, const Tensor& t, Reduce how) { return huber_loss(x, t, how, 2.5); },
          [](const Real& x, const Real& t) { return huber(x, t, 2.5); }, apart));
  return {
      entropies(cross_entropy),
      linear_entropies(linear_cross_entropy),
      nlls(),
      pairwise(
          Op::mse_loss,
          [](const Tensor& x, const Tensor& t, Reduce how) { return mse_loss(x, t, how); },
          [](const Real& x, const Real& t) { return square(x - t); }),
      pairwise(
          Op::l1_loss,
          [](const Tensor& x, const Tensor& t, Reduce how) { return l1_loss(x, t, how); },
          [](const Real& x, const Real& t) { return abs(x - t); }, apart),
      smooth,
      hubers,
      bces(),
      pairwise(
          Op::binary_cross_entropy,
          [](const Tensor& x, const Tensor& t, Reduce how) {
            return binary_cross_entropy(x, t, how);
          },
          [](const Real& x, const Real& t) {
            const Real no = function(-x, std::log1p, [](double v) { return 1 / (1 + v); });
            return -(t * log(x) + (Real(1) - t) * no);
          },
          {{.low = 0.1, .high = 0.9}, {.low = 0, .high = 1}}),
      kl_divs(),
  };
}

std::vector<Description> loss_composites() {
  const auto unchunked = [](const Tensor& x, const Tensor& weight, const Tensor& target,
                            CrossEntropyOptions options, int64_t) {
    return linear_cross_entropy_composite(x, weight, target, options);
  };
  return {entropies(cross_entropy_composite), linear_entropies(unchunked)};
}

}  // namespace binade::optable
