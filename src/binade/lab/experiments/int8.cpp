#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/lab/experiments.h"
#include "binade/lab/experiments/fake_quantize.h"
#include "binade/nn/init.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "binade/optim/adam.h"
#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

constexpr int64_t samples = 256, inputs = 16, units = 64, labels = 16;
// The first pairs of examples are equal but for their labels: no model can learn them, so that
// their gradients stay large. Their weight in the loss is high.
constexpr int64_t pairs = 8;
constexpr double pair_weight = 30;

// The fraction of non-zero values of x that round to zero.
double flushed_fraction(const Tensor& x, EightBits type) {
  const std::vector<double> exact = to_vector(x), rounded = to_vector(rounded_to(x, type));
  int64_t flushed = 0, count = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    if (exact[i] == 0) continue;
    ++count;
    flushed += rounded[i] == 0;
  }
  return static_cast<double>(flushed) / static_cast<double>(count);
}

// A classifier of three matmuls, whose operands are rounded to eight bits.
class EightBitClassifier {
 public:
  explicit EightBitClassifier(EightBitMatmul types) : types_(types) {
    nn::init::restart(8);
    for (const auto& [out, in] :
         {std::pair<int64_t, int64_t>{units, inputs}, {units, units}, {labels, units}}) {
      Tensor weight = nn::init::normal({out, in}, 1 / std::sqrt(static_cast<double>(in)), {});
      weight.set_requires_grad();
      weights.push_back(weight);
    }
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = x;
    for (size_t i = 0; i < weights.size(); ++i) {
      y = fake_quantized_linear(y, weights[i], types_);
      if (i + 1 < weights.size()) y = gelu(y);
    }
    return y;
  }
  std::vector<Tensor> weights;

 private:
  EightBitMatmul types_;
};

struct ClassifierRun {
  std::vector<double> losses;  // of the examples without a contradiction
  Tensor gradient;             // of the logits, at the end
};

ClassifierRun train_eight_bits(EightBitMatmul types) {
  constexpr int steps = 300;
  EightBitClassifier model(types);
  optim::Adam adam(model.weights, {.lr = 3e-3});
  const Tensor x = randn({samples, inputs}, {8, 2});
  const Tensor target = randint(0, labels, {samples}, {8, 1}), weight = ones({samples});
  const auto first_rows = [](const Tensor& t, int64_t begin) {
    return slice(t, 0, begin, begin + pairs);
  };
  copy_(first_rows(x, pairs), first_rows(x, 0));
  fill_(first_rows(target, 0), 0);
  fill_(first_rows(target, pairs), 1);
  fill_(slice(weight, 0, 0, 2 * pairs), pair_weight);
  ClassifierRun run;
  for (int step = 0; step < steps; ++step) {
    adam.zero_grad();
    const Tensor logits = model(x);
    if (step + 1 == steps) logits.retain_grad();
    const Tensor losses = cross_entropy(logits, target, {.reduce = Reduce::none});
    run.losses.push_back(mean(slice(losses, 0, 2 * pairs, samples)).item());
    mean(losses * weight).backward();
    if (step + 1 == steps) run.gradient = logits.grad().detach();
    adam.step();
  }
  return run;
}

}  // namespace

Int8Result int8_experiment(ExperimentReport& report) {
  report.add_paragraph(
      "Inference often runs in 8-bit integers. They are equally spaced: 255 numbers from -amax to "
      "amax, where FP8 has numbers of 15 or 30 binades. A classifier learns 256 examples by heart "
      "with the operands of its matmuls rounded to eight bits: weights and activations alone, then "
      "gradients, too. Eight pairs of the examples contradict each other and weigh 30 times as "
      "much, so that their gradients stay large; losses are those of the other 240.");
  const std::pair<const char*, EightBitMatmul> kinds[] = {
      {"f32", {}},
      {"int8 forward, f32 backward", {EightBits::int8, EightBits::none}},
      {"int8 forward and backward", {EightBits::int8, EightBits::int8}},
      {"FP8: e4m3 forward, e5m2 backward", {EightBits::e4m3, EightBits::e5m2}}};
  Int8Result result;
  std::vector<std::vector<std::string>> table;
  std::vector<train::Series> curves;
  Tensor gradient;
  for (const auto& [name, types] : kinds) {
    const ClassifierRun run = train_eight_bits(types);
    if (!gradient.defined()) gradient = run.gradient;
    result.losses.push_back(run.losses.back());
    table.push_back({name, fmt::format("{:.4f}", run.losses.front()),
                     fmt::format("{:.4f}", run.losses.back())});
    train::Series series{name, {}, {}};
    for (size_t i = 0; i < run.losses.size(); ++i)
      series.points.emplace_back(static_cast<double>(i), run.losses[i]);
    curves.push_back(std::move(series));
  }
  result.int8_flushed = flushed_fraction(gradient, EightBits::int8);
  result.e5m2_flushed = flushed_fraction(gradient, EightBits::e5m2);
  report.add_table({"operands", "loss before", "after 300 steps"}, table);
  report.add_table({"gradient of the logits, trained in f32", "rounded to zero"},
                   {{"int8", fmt::format("{:.1f}%", 100 * result.int8_flushed)},
                    {"e5m2", fmt::format("{:.1f}%", 100 * result.e5m2_flushed)}});
  report.add_figure(train::line_chart({"Training with eight bits", "step", "loss"}, curves));
  report.add_conclusion(fmt::format(
      "int8 forward ends at {:.4f} (f32: {:.4f}), int8 forward and backward at {:.4f}, FP8 at "
      "{:.4f}. A few large gradients set the scale of all: {:.0f}% of the others are below half of "
      "an int8 step and become zero, {:.0f}% in e5m2, whose steps shrink with the numbers. Binade "
      "trains in FP8 and has no int8.",
      result.losses[1], result.losses[0], result.losses[2], result.losses[3],
      100 * result.int8_flushed, 100 * result.e5m2_flushed));
  return result;
}

}  // namespace binade::lab
