#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/amp/autocast.h"
#include "binade/amp/grad_scaler.h"
#include "binade/lab/experiments.h"
#include "binade/nn/init.h"
#include "binade/nn/linear.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/index/index.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/norm/norm.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "binade/optim/adam.h"
#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

constexpr int64_t examples = 256, features = 16, classes = 8;
// Activations of a layer without a norm before it; their squares exceed 65504.
constexpr double feature_size = 400;
// The logits are divided by a temperature of 0.1, as in contrastive losses.
constexpr double inverse_temperature = 10;

// A layer norm written by hand, all of it in the type of x.
Tensor norm_by_hand(const Tensor& x) {
  const Tensor centered = x - mean(x, {-1}, true);
  return centered * rsqrt(mean(square(centered), {-1}, true) + 1e-5);
}

// A cross-entropy over a softmax written by hand, all of it in the type of the logits.
Tensor loss_by_hand(const Tensor& logits, const Tensor& labels) {
  const Tensor e = exp(logits);
  const Tensor probabilities = e / sum(e, {-1}, true);
  return neg(mean(cast(log(gather(probabilities, 1, unsqueeze(labels, 1))), DType::f32)));
}

struct ManualCasts {
  DType dtype = DType::f16;  // of the linear layers; f32: no casts
  bool norm = false, softmax = false;
};

// Examples of the classes, without a norm.
struct ClassifierData {
  Tensor labels = randint(0, classes, {examples}, {6, 1});
  Tensor x = (index_select(randn({classes, features}, {6, 2}), 0, labels) +
              randn({examples, features}, {6, 3})) *
             feature_size;
};

// The fraction of examples that the norm by hand maps to zero in f16.
double collapsed_fraction() {
  const std::vector<double> sizes =
      to_vector(sum(abs(norm_by_hand(cast(ClassifierData().x, DType::f16))), {1}));
  return static_cast<double>(std::count(sizes.begin(), sizes.end(), 0.0)) /
         static_cast<double>(sizes.size());
}

ManualCastsResult::Run train_classifier(const std::string& name, const ManualCasts& casts) {
  nn::init::restart(6);
  nn::Linear up({.in = features, .out = 32, .activation = Activation::gelu_tanh}),
      down({.in = 32, .out = classes});
  std::vector<Tensor> parameters = up.parameters();
  for (const Tensor& one : down.parameters()) parameters.push_back(one);
  optim::Adam adam(parameters, {.lr = 1e-2});
  amp::GradScaler scaler({.enabled = casts.dtype == DType::f16, .init_scale = 256});
  const ClassifierData data;
  const Tensor &x = data.x, &labels = data.labels;
  ManualCastsResult::Run run{.name = name};
  for (int step = 0; step < 100; ++step) {
    adam.zero_grad();
    const Tensor normed = casts.norm ? norm_by_hand(cast(x, DType::f16)) : layer_norm(x);
    Tensor logits;
    {
      const amp::Autocast autocast(DType::f16, {.enabled = casts.dtype == DType::f16});
      logits = mul(down(up(normed)), inverse_temperature);
    }
    const Tensor loss = casts.softmax ? loss_by_hand(cast(logits, DType::f16), labels)
                                      : cross_entropy(cast(logits, DType::f32), labels);
    run.losses.push_back(loss.item());
    scaler.scale(loss).backward();
    run.skipped += scaler.step(adam).applied() ? 0 : 1;
    scaler.update();
  }
  return run;
}

}  // namespace

ManualCastsResult manual_casts_experiment(ExperimentReport& report) {
  report.add_paragraph(
      "Autocast keeps norms, softmax and losses in f32. Here a classifier of a norm, two linear "
      "layers and a softmax trains four times: in f32, under autocast to f16, and with a norm or a "
      "softmax that was cast to f16 by hand. Its inputs have magnitudes of about 400, its logits a "
      "temperature of 0.1.");
  const std::pair<const char*, ManualCasts> kinds[] = {
      {"f32", {.dtype = DType::f32}},
      {"autocast to f16", {}},
      {"norm cast to f16 by hand", {.norm = true}},
      {"softmax cast to f16 by hand", {.softmax = true}}};
  ManualCastsResult result{.collapsed = collapsed_fraction(), .runs = {}};
  std::vector<std::vector<std::string>> table;
  std::vector<train::Series> curves;
  for (const auto& [name, casts] : kinds) {
    result.runs.push_back(train_classifier(name, casts));
    const ManualCastsResult::Run& run = result.runs.back();
    table.push_back(
        {name, fmt::format("{:.4f}", run.losses.front()),
         std::isfinite(run.losses.back()) ? fmt::format("{:.4f}", run.losses.back()) : "NaN",
         fmt::format("{}", run.skipped)});
    train::Series series{name, {}, {}};
    for (size_t i = 0; i < run.losses.size(); ++i)
      series.points.emplace_back(static_cast<double>(i), run.losses[i]);
    curves.push_back(std::move(series));
  }
  report.add_table({"training", "loss before", "after 100 steps", "skipped steps"}, table);
  report.add_figure(train::line_chart({"A classifier with casts by hand", "step", "loss"}, curves));
  report.add_conclusion(fmt::format(
      "autocast ends at {:.4f} (f32: {:.4f}). The norm in f16 ends at {:.4f}, near log(8) = "
      "{:.4f}, "
      "without a warning: 400^2 exceeds 65504, the variance is infinite, and {:.0f}% of the inputs "
      "are normalized to zero. The softmax in f16 has exp(x) = inf from x = 11.1 on: {} of 100 "
      "steps "
      "were skipped. Leave these ops to autocast.",
      result.runs[1].losses.back(), result.runs[0].losses.back(), result.runs[2].losses.back(),
      std::log(static_cast<double>(classes)), 100 * result.collapsed, result.runs[3].skipped));
  return result;
}

}  // namespace binade::lab
