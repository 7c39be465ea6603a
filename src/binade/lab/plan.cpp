#include "binade/lab/plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "binade/amp/autocast.h"
#include "binade/amp/fp8.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/module_path.h"
#include "binade/autograd/node.h"
#include "binade/autograd/op_observer.h"
#include "binade/base/text.h"
#include "binade/ops/loss/loss.h"
#include "binade/train/config/presets.h"
#include "binade/train/forecast.h"
#include "binade/train/machine.h"
#include "binade/train/progress.h"

namespace binade::lab {
namespace {

using memory::Category;

double bytes_of(std::span<const Tensor> tensors) {
  double bytes = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.defined()) bytes += static_cast<double>(tensor.bytes());
  }
  return bytes;
}

double elements(const Tensor& x) { return static_cast<double>(x.numel()); }

// Bytes of the sample that layer statistics take of a tensor (lab/layer_stats.cpp).
int64_t sample_bytes(const Tensor& x) {
  const int64_t columns = x.size(-1), rows = x.numel() / std::max<int64_t>(columns, 1);
  return 4 * (std::min<int64_t>(rows, 32) * std::min<int64_t>(columns, 1024) +
              std::min<int64_t>(rows, 1024) * std::min<int64_t>(columns, 32) + 2);
}

// Collects the work of every op of a step.
class WorkMeter : public autograd::OpObserver {
 public:
  void forward(Op op, std::span<const Tensor> inputs, std::span<const Tensor> compute,
               std::span<const Tensor> outputs) override {
    weight_copies = std::max(weight_copies, amp::cast_cache_bytes());
    // Input, weight, and a gradient of the result's shape, of each layer's first call.
    if (op == Op::linear && sampled_.insert(autograd::module_path()).second)
      statistics += sample_bytes(inputs[0]) + sample_bytes(inputs[1]) + sample_bytes(outputs[0]);
    Work one{.bytes = bytes_of(compute) + bytes_of(outputs), .dtype = compute[0].dtype()};
    if (op == Op::linear) {
      one.flops = 2 * elements(outputs[0]) * static_cast<double>(compute[1].size(1));
      if (amp::fp8_recipe() != nullptr) one.dtype = DType::e4m3;
    } else if (op == Op::linear_cross_entropy) {
      // The matmul and, computed with it, both of its gradients.
      const double matmuls = autograd::grad_enabled() ? 3 : 1;
      one.flops = matmuls * 2 * elements(compute[0]) * static_cast<double>(compute[1].size(0));
    } else if (op == Op::packed_attention) {
      one.flops = 2 * elements(outputs[0]) * static_cast<double>(compute[0].size(1));
    }
    fp8_ |= one.dtype == DType::e4m3;
    work.push_back(one);
  }

  void after_backward(const autograd::Node& node, std::span<const Tensor> dy) override {
    if (node.opaque) return;  // the ops inside it were counted
    Work one{.bytes = 2 * bytes_of(dy), .dtype = dy[0].defined() ? dy[0].dtype() : DType::f32};
    for (const autograd::GradSlot& slot : node.inputs) {
      if (!slot.needs_grad()) continue;
      one.bytes +=
          static_cast<double>(slot.shape().numel()) * static_cast<double>(size_of(slot.dtype()));
      if (node.op == Op::linear && slot.shape().rank() >= 2)
        one.flops += 2 * elements(dy[0]) * static_cast<double>(slot.shape().back());
    }
    // Five matmuls; the forward has two.
    if (node.op == Op::packed_attention)
      one.flops = 5 * elements(dy[0]) * static_cast<double>(dy[0].size(1));
    if (node.op == Op::linear && fp8_) one.dtype = DType::e4m3;
    work.push_back(one);
  }

  std::vector<Work> work;
  int64_t weight_copies = 0, statistics = 0;

 private:
  bool fp8_ = false;
  std::set<std::string> sampled_;
};

// Bytes of moments per parameter: two of AdamW's, one of Lion's and Muon's, next to none of
// Adafactor's.
double moment_bytes(const train::Config& config) {
  const auto one = static_cast<double>(size_of(config.moments));
  switch (config.optimizer) {
    case train::OptimizerKind::adamw:
      return 2 * one;
    case train::OptimizerKind::lion:
      return one;
    case train::OptimizerKind::adafactor:
      return 0;
    case train::OptimizerKind::muon:
      return 4;
  }
  return 0;
}

// Norm, clipping and the optimizer read and write each parameter's master, moments and gradient.
Work update_work(const train::Config& config, double parameters) {
  const double copies = config.params == train::ParameterStorage::masters ? 2 : 0;
  return {.bytes = parameters * (3 * 4 + 4 + 4 + 4 + 2 * moment_bytes(config) + copies)};
}

// Measures one optimizer step: its ops and the update.
void measure_step(const train::Config& config, Forecast& forecast) {
  WorkMeter meter;
  train::MetaRun run(config);
  run.step();  // the first step creates gradients and FP8 histories
  {
    const autograd::OpObserverScope watching(&meter);
    run.step();
  }
  meter.work.push_back(update_work(config, static_cast<double>(forecast.trained_count)));
  forecast.work = std::move(meter.work);
  forecast.weight_copies = meter.weight_copies;
  if (config.layer_stats > 0 || config.auto_precision) forecast.statistics = meter.statistics;
}

// The precision whose rate a type's matmuls run at.
train::Precision rate_of(DType dtype, train::Precision run) {
  using train::Precision;
  switch (dtype) {
    case DType::bf16:
      return Precision::bf16;
    case DType::f16:
      return Precision::fp16;
    case DType::e4m3:
      return Precision::fp8;
    default:
      return run == Precision::tf32 ? Precision::tf32 : Precision::fp32;
  }
}

std::vector<std::pair<std::string, train::Config>> variants(const train::Config& given) {
  using train::ParameterStorage, train::Precision;
  std::vector<std::pair<std::string, train::Config>> result;
  for (const Precision precision :
       {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16, Precision::fp8}) {
    for (const bool masters : {false, true}) {
      for (const bool recompute : {false, true}) {
        if (masters && !train::uses_autocast(precision)) continue;
        train::Config config = train::with_precision(given, precision);
        config.params = masters ? ParameterStorage::masters : ParameterStorage::autocast;
        config.recompute = recompute;
        result.emplace_back(fmt::format("{}{}{}", name(precision), masters ? ", masters" : "",
                                        recompute ? ", recompute" : ""),
                            config);
      }
    }
  }
  return result;
}

}  // namespace

Forecast forecast(const train::Config& config) {
  const memory::Statistics memory = train::forecast_memory(config);
  Forecast result{.at_peak = memory.at_peak, .peak = memory.peak};
  result.gradients = memory.live[static_cast<size_t>(Category::gradients)];
  const auto model = train::make_model(config, {Device::meta(), DType::f32});
  result.parameter_count = model->parameter_count();
  result.trained_count = train::trained_parameters(*model);
  // Adapters are f32 themselves.
  if (config.params == train::ParameterStorage::masters && config.lora_rank == 0)
    result.masters = 4 * result.trained_count;
  const DType type =
      train::uses_autocast(config.precision) ? train::autocast_type(config.precision) : DType::f32;
  result.logits = logits_rows(config.batch * config.context, config.vocab, type, Device::meta()) *
                  config.vocab * static_cast<int64_t>(size_of(type));
  measure_step(config, result);
  result.precision = config.precision;
  const auto stored = static_cast<int64_t>(size_of(train::placement(config).dtype));
  const int64_t weights =
      config.lora_rank > 0 ? 4 * result.trained_count : stored * result.parameter_count;
  // A GPU's snapshot is in the host's memory.
  if (!train::device_of(config).is_cuda())
    result.snapshot = weights + result.of(Category::optimizer);
  result.saves_during_steps = config.checkpoint_every > 0 && config.checkpoint_every < config.steps;
  return result;
}

int64_t Forecast::run_peak() const {
  // A step with statistics may run while a checkpoint is written.
  if (saves_during_steps) return peak + statistics + snapshot;
  // At the end no step runs any more: parameters, gradients and the optimizer's state are left.
  const int64_t left = of(Category::parameters) + gradients + of(Category::optimizer);
  return std::max(peak + statistics, left + snapshot);
}

int64_t largest_batch(train::Config config, int64_t bytes) {
  struct Point {
    int64_t batch = 0;
    double peak = 0;
  };
  const auto point_at = [&config](int64_t batch) {
    config.batch = batch;
    return Point{batch, static_cast<double>(train::forecast_memory(config).peak)};
  };
  const auto limit = static_cast<double>(bytes);
  Point good = point_at(1), bad = point_at(int64_t{1} << 17);  // no machine trains on more
  if (good.peak > limit) return 0;
  if (bad.peak <= limit) return bad.batch;
  // Peaks grow nearly in proportion to the batch: a line finds the largest in a few forecasts.
  for (int i = 0; bad.batch - good.batch > 1; ++i) {
    const double slope = (bad.peak - good.peak) / static_cast<double>(bad.batch - good.batch);
    const auto on_line = static_cast<int64_t>((limit - good.peak) / slope);
    const bool halve = i % 4 == 3;  // in case they do not
    const int64_t step = halve ? (bad.batch - good.batch) / 2 : on_line;
    const Point next =
        point_at(good.batch + std::clamp<int64_t>(step, 1, bad.batch - good.batch - 1));
    (next.peak <= limit ? good : bad) = next;
  }
  return good.batch;
}

Machine measure_machine(const train::Config& config) {
  const Device device = train::device_of(config);
  // The shapes of the model's own layers, as far as they take milliseconds.
  const train::LayerShape shape = {.rows = std::min<int64_t>(config.batch * config.context, 512),
                                   .in = std::min<int64_t>(config.width, 1024),
                                   .out = std::min<int64_t>(config.hidden, 4096)};
  const auto rate = [&](train::Precision precision) {
    return train::linear_rate(device, precision, config.fp8_scaling, shape);
  };
  using train::Precision;
  return {.flops = {rate(Precision::fp32), rate(Precision::tf32), rate(Precision::bf16),
                    rate(Precision::fp16), rate(Precision::fp8)},
          .bandwidth = train::norm_bandwidth(device, shape.rows, shape.in)};
}

double step_seconds(const Forecast& forecast, const Machine& machine) {
  double seconds = 0;
  for (const Work& one : forecast.work)
    seconds += std::max(
        one.flops / machine.flops[static_cast<size_t>(rate_of(one.dtype, forecast.precision))],
        one.bytes / machine.bandwidth);
  return seconds;
}

int64_t machine_memory() {
  return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
}

int64_t process_memory() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return file ? resident * ::sysconf(_SC_PAGESIZE) : 0;
}

std::vector<PlanRow> plan(const train::Config& config, int64_t memory) {
  train::check_device(config);
  const Machine machine = measure_machine(config);
  const auto tokens = static_cast<double>(config.accumulate * config.batch * config.context);
  std::vector<PlanRow> rows;
  for (const auto& [name, variant] : variants(config)) {
    PlanRow row{.name = name, .config = variant, .forecast = forecast(variant)};
    // Statistics and checkpoints take the same besides the steps of any batch.
    const int64_t besides = row.forecast.run_peak() - row.forecast.peak;
    row.largest_batch = largest_batch(variant, memory - besides);
    row.tokens_per_second = tokens / step_seconds(row.forecast, machine);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string plan_text(const std::vector<PlanRow>& rows, int64_t memory) {
  using train::bytes_text;
  std::string text =
      fmt::format("{:<25}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>9}{:>8}{:>5}{:>7}{:>11}\n",
                  "precision", "weights", "masters", "grads", "moments", "copies", "activ.",
                  "logits", "snapshot", "peak", "fits", "batch", "tokens/s");
  for (const PlanRow& row : rows) {
    const Forecast& f = row.forecast;
    const int64_t activations = f.of(Category::activations) + f.of(Category::workspace);
    const int64_t copies = std::min(f.weight_copies, activations);
    text += fmt::format(
        "{:<25}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>9}{:>8}{:>5}{:>7}{:>11}\n", row.name,
        bytes_text(f.of(Category::parameters)), bytes_text(f.masters),
        bytes_text(f.of(Category::gradients)), bytes_text(f.of(Category::optimizer) - f.masters),
        bytes_text(copies), bytes_text(activations - copies), bytes_text(f.logits),
        bytes_text(f.snapshot), bytes_text(f.run_peak()), f.run_peak() <= memory ? "yes" : "no",
        grouped(row.largest_batch), grouped(std::llround(row.tokens_per_second)));
  }
  return text;
}

}  // namespace binade::lab
