#include <fmt/format.h>

#include <cmath>

#include "binade/base/text.h"
#include "binade/lab/experiments.h"
#include "binade/lab/experiments/fake_quantize.h"
#include "binade/nn/init.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/norm/softmax.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "binade/optim/adam.h"
#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

constexpr int64_t sequences = 4, positions = 16, channels = 16, blocks = 6;

// Each block adds a tenth of its input's size to the residual stream, as blocks of deep models do.
constexpr double residual_size = 0.1;

// Which parts of a transformer are rounded to FP8.
struct Fp8Parts {
  bool matmuls = false, norm = false, softmax = false, residual = false;
};

// A transformer over vectors, written with plain ops so that any of its values can be rounded.
class RoundedTransformer {
 public:
  explicit RoundedTransformer(Fp8Parts parts) : parts_(parts) {
    nn::init::restart(12);
    for (int64_t i = 0; i < blocks; ++i) {
      add_weight(3 * channels, channels, 1);
      add_weight(channels, channels, residual_size);
      add_weight(4 * channels, channels, 1);
      add_weight(channels, 4 * channels, residual_size);
    }
    add_weight(1, channels, 1);
  }

  Tensor operator()(const Tensor& input) const {
    Tensor x = input;
    for (size_t i = 0; i < blocks; ++i) {
      x = stream(x + project(attention(project(norm(x), weights[4 * i])), weights[4 * i + 1]));
      x = stream(x + project(gelu(project(norm(x), weights[4 * i + 2])), weights[4 * i + 3]));
    }
    return project(norm(x), weights.back());
  }

  std::vector<Tensor> weights;

 private:
  void add_weight(int64_t out, int64_t in, double size) {
    Tensor weight = nn::init::normal({out, in}, size / std::sqrt(static_cast<double>(in)), {});
    weight.set_requires_grad();
    weights.push_back(weight);
  }
  static Tensor rounded(const Tensor& x, bool rounds) {
    return rounds ? fake_quantize(x, EightBits::e4m3, EightBits::e5m2) : x;
  }
  Tensor project(const Tensor& x, const Tensor& weight) const {
    return fake_quantized_linear(
        x, weight,
        parts_.matmuls ? EightBitMatmul{EightBits::e4m3, EightBits::e5m2} : EightBitMatmul{});
  }
  Tensor norm(const Tensor& x) const {
    const Tensor centered = rounded(x - mean(x, {-1}, true), parts_.norm);
    const Tensor variance = rounded(mean(square(centered), {-1}, true), parts_.norm);
    return rounded(centered * rsqrt(variance + 1e-5), parts_.norm);
  }
  Tensor attention(const Tensor& qkv) const {
    const auto part = [&](int64_t i) { return slice(qkv, 2, i * channels, (i + 1) * channels); };
    const double scale = 1 / std::sqrt(static_cast<double>(channels));
    const Tensor scores =
        rounded(mul(matmul(part(0), transpose(part(1), 1, 2)), scale), parts_.softmax);
    return matmul(rounded(softmax(scores), parts_.softmax), part(2));
  }
  Tensor stream(const Tensor& x) const { return rounded(x, parts_.residual); }

  Fp8Parts parts_;
};

// Learning the running mean of a sine, which needs attention.
Tensor transformer_loss(const RoundedTransformer& model, uint64_t step) {
  const Tensor x = randn({sequences, positions, channels}, {12, 100 + step});
  const Tensor first = sin(mul(slice(x, 2, 0, 1), 2));
  return mse_loss(model(x), expand(mean(first, {1}, true), first.shape()));
}

std::vector<double> transformer_losses(Fp8Parts parts) {
  RoundedTransformer model(parts);
  optim::Adam adam(model.weights, {.lr = 2e-3});
  std::vector<double> losses;
  for (uint64_t step = 0; step < 60; ++step) {
    adam.zero_grad();
    const Tensor loss = transformer_loss(model, step);
    losses.push_back(loss.item());
    loss.backward();
    adam.step();
  }
  return losses;
}

// The error of the gradient of the initial weights, relative to f32.
double gradient_error_of(Fp8Parts parts) {
  RoundedTransformer exact({}), rounded(parts);
  transformer_loss(exact, 0).backward();
  transformer_loss(rounded, 0).backward();
  double signal = 0, noise = 0;
  for (size_t i = 0; i < exact.weights.size(); ++i) {
    const Tensor reference = exact.weights[i].grad();
    signal += sum(square(reference)).item();
    noise += sum(square(rounded.weights[i].grad() - reference)).item();
  }
  return std::sqrt(noise / signal);
}

// The mean of the last 20 losses, since each batch is new.
double final_loss_of(const std::vector<double>& losses) {
  double total = 0;
  for (size_t i = losses.size() - 20; i < losses.size(); ++i) total += losses[i] / 20;
  return total;
}

}  // namespace

Fp8KeepersResult fp8_keepers_experiment(ExperimentReport& report) {
  report.add_paragraph(
      "FP8 recipes run matmuls in FP8 and keep norms, softmax and the residual stream wider. A "
      "transformer of six blocks trains with FP8 matmuls and with more and more of the rest "
      "rounded to FP8 as well: values to e4m3, gradients to e5m2, with a scale per tensor from its "
      "amax, all sums in f32.");
  const std::pair<const char*, Fp8Parts> kinds[] = {
      {"f32", {}},
      {"FP8 matmuls", {.matmuls = true}},
      {"and softmax", {.matmuls = true, .softmax = true}},
      {"and norms", {.matmuls = true, .norm = true, .softmax = true}},
      {"and residual stream", {.matmuls = true, .norm = true, .softmax = true, .residual = true}}};
  Fp8KeepersResult result;
  std::vector<std::vector<std::string>> table;
  std::vector<train::Series> curves;
  for (const auto& [name, parts] : kinds) {
    const std::vector<double> losses = transformer_losses(parts);
    result.runs.push_back({name, gradient_error_of(parts), final_loss_of(losses)});
    const double excess = result.runs.back().loss / result.runs.front().loss - 1;
    table.push_back({name, fmt::format("{:.1f}%", 100 * result.runs.back().gradient_error),
                     fmt::format("{:.4f}", result.runs.back().loss),
                     curves.empty() ? "" : signed_percent(excess, 0)});
    train::Series series{name, {}, {}};
    for (size_t i = 0; i < losses.size(); ++i)
      series.points.emplace_back(static_cast<double>(i), losses[i]);
    curves.push_back(train::smoothed(series, 5));
  }
  report.add_table({"in FP8", "error of the gradient", "loss after 60 steps", "relative to f32"},
                   table);
  report.add_figure(train::line_chart(
      {"A transformer with more and more in FP8 (means of 11 steps)", "step", "loss", 1}, curves));
  report.add_conclusion(fmt::format(
      "with FP8 matmuls alone the gradient has an error of {:.0f}%, and the loss ends {} from "
      "f32's; with softmax, norms and the residual stream in FP8 as well, the error is {:.0f}% and "
      "the loss {}. Every block adds to the residual stream, and what is rounded away there "
      "is "
      "missing in all blocks above.",
      100 * result.runs[1].gradient_error,
      signed_percent(result.runs[1].loss / result.runs[0].loss - 1, 0),
      100 * result.runs.back().gradient_error,
      signed_percent(result.runs.back().loss / result.runs[0].loss - 1, 0)));
  return result;
}

}  // namespace binade::lab
