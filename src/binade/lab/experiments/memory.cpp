#include "binade/lab/experiments.h"

#include <fmt/format.h>

#include "binade/lab/plan.h"
#include "binade/nn/language_model.h"
#include "binade/optim/adam.h"
#include "binade/train/config/config.h"
#include "binade/train/report/chart.h"
#include "binade/train/run/progress.h"

namespace binade::lab {
namespace {

using memory::Category;
using train::ParameterStorage;
using train::Precision;

struct MemoryMode {
  const char* name;
  Precision precision;
  ParameterStorage params;
  std::optional<DType> residual;
  DType moments;
  bool recompute;
};

MemoryResult::Mode forecast_memory(const MemoryMode& mode) {
  train::Config config = train::resolve_text("[model]\npreset = \"gpt2-124m\"\n", "lab");
  config.precision.matmul = mode.precision;
  config.precision.params = mode.params;
  config.precision.residual = mode.residual;
  config.precision.moments = mode.moments;
  config.train.activations = nn::Activations::recompute(mode.recompute);
  config.train.batch = 8;
  const Forecast f = forecast(config);
  const auto count = static_cast<double>(f.parameter_count);
  return {.name = mode.name,
          .parameters = static_cast<double>(f.of(Category::parameters)) / count,
          .gradients = static_cast<double>(f.gradients) / count,
          .optimizer = static_cast<double>(f.of(Category::optimizer)) / count,
          .activations = static_cast<double>(f.of(Category::activations) + f.of(Category::logits)),
          .peak = static_cast<double>(f.peak)};
}

// A step of the same model in bf16 with f32 master weights, whose gradients are of this type.
MemoryResult::Gradients gradient_memory(DType dtype) {
  const Device meta = Device::meta();
  nn::GPT model({.vocab = 50304}, meta, DType::bf16);
  for (const Tensor& parameter : model.parameters()) parameter.set_grad_dtype(dtype);
  optim::AdamW adam(model.parameters());
  const Tensor tokens = Tensor::empty({8, 1024}, DType::i64, meta);
  memory::reset_peak(meta);
  model.loss(tokens, tokens).backward();
  const auto count = static_cast<double>(model.parameter_count());
  return {std::string(binade::name(dtype)),
          static_cast<double>(memory::allocated(Category::gradients, meta)) / count,
          static_cast<double>(memory::peak(meta))};
}

}  // namespace

MemoryResult memory_experiment(ExperimentReport& report) {
  report.add_paragraph(
      "A training step of GPT-2 124M with 8 sequences of 1024 tokens runs on the meta device: the "
      "same ops and the same allocator, without data. The first three columns are bytes per "
      "parameter; gradients exist from the backward pass to the update, when most activations "
      "are gone.");
  constexpr auto autocast = ParameterStorage::autocast, masters = ParameterStorage::masters;
  constexpr DType f32 = DType::f32, bf16 = DType::bf16;
  constexpr MemoryMode modes[] = {
      {"fp32", Precision::fp32, autocast, {}, f32, false},
      {"bf16 autocast", Precision::bf16, autocast, bf16, f32, false},
      {"bf16, f32 master weights", Precision::bf16, masters, {}, f32, false},
      {"and bf16 moments", Precision::bf16, masters, {}, bf16, false},
      {"fp8 delayed", Precision::quantized, autocast, bf16, f32, false},
      {"bf16, recompute", Precision::bf16, autocast, bf16, f32, true}};
  MemoryResult result;
  std::vector<std::vector<std::string>> rows;
  std::vector<train::Bar> bars;
  for (const MemoryMode& mode : modes) {
    result.modes.push_back(forecast_memory(mode));
    const MemoryResult::Mode& one = result.modes.back();
    rows.push_back({one.name, fmt::format("{:.1f}", one.parameters),
                    fmt::format("{:.1f}", one.gradients), fmt::format("{:.1f}", one.optimizer),
                    train::bytes_text(static_cast<int64_t>(one.activations)),
                    train::bytes_text(static_cast<int64_t>(one.peak))});
    bars.push_back({one.name, one.peak, train::bytes_text(static_cast<int64_t>(one.peak)),
                    train::format_style(train::name(mode.precision))});
  }
  report.add_table({"mode", "params", "grads", "optimizer", "activations", "peak"}, rows);
  report.add_figure(train::bar_chart("Peak memory of a training step", bars));
  rows.clear();
  for (const DType dtype : {f32, bf16}) {
    result.gradients.push_back(gradient_memory(dtype));
    const MemoryResult::Gradients& one = result.gradients.back();
    rows.push_back({one.dtype, fmt::format("{:.1f}", one.bytes),
                    train::bytes_text(static_cast<int64_t>(one.peak))});
  }
  report.add_paragraph("Gradients can be accumulated in 16 bits, too:");
  report.add_table({"gradients of bf16 weights", "bytes each", "peak"}, rows);
  const MemoryResult::Mode &fp32_mode = result.modes[0], &autocast_mode = result.modes[1],
                           &masters_mode = result.modes[2], &recompute_mode = result.modes[5];
  const auto percent_of = [](double part, double whole) {
    return fmt::format("{:.0f}%", 100 * part / whole);
  };
  report.add_conclusion(fmt::format(
      "mixed precision does not halve memory: the peak is {} of f32's under autocast and {} with "
      "16-bit weights and f32 master weights, since master weights and moments stay in f32, and so "
      "do gradients by default. Activations take {} and {}; norms keep f32 statistics. Recompute "
      "takes the peak to {}, for the cost of another forward.",
      percent_of(autocast_mode.peak, fp32_mode.peak), percent_of(masters_mode.peak, fp32_mode.peak),
      percent_of(autocast_mode.activations, fp32_mode.activations),
      percent_of(masters_mode.activations, fp32_mode.activations),
      percent_of(recompute_mode.peak, fp32_mode.peak)));
  return result;
}

}  // namespace binade::lab
