#include "binade/lab/plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "binade/amp/autocast.h"
#include "binade/amp/fp8.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/node.h"
#include "binade/autograd/op_observer.h"
#include "binade/nn/linear.h"
#include "binade/nn/norm.h"
#include "binade/ops/create.h"
#include "binade/ops/loss.h"
#include "binade/train/progress.h"
#include "binade/train/trainer.h"

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

// Notes the work of every op of a step.
class WorkMeter : public autograd::OpObserver {
 public:
  void forward(Op op, std::span<const Tensor>, std::span<const Tensor> compute,
               std::span<const Tensor> outputs) override {
    Work one{.bytes = bytes_of(compute) + bytes_of(outputs), .dtype = compute[0].dtype()};
    if (op == Op::linear) {
      one.flops = 2 * elements(outputs[0]) * static_cast<double>(compute[1].size(1));
      if (amp::fp8_recipe() != nullptr) one.dtype = DType::e4m3;
    } else if (op == Op::linear_cross_entropy) {
      // The product and, made on the way, both of its gradients.
      const double products = autograd::grad_enabled() ? 3 : 1;
      one.flops = products * 2 * elements(compute[0]) * static_cast<double>(compute[1].size(0));
    } else if (op == Op::packed_attention) {
      one.flops = 2 * elements(outputs[0]) * static_cast<double>(compute[0].size(1));
    }
    fp8_ |= one.dtype == DType::e4m3;
    work.push_back(one);
  }

  void after_backward(const autograd::Node& node, std::span<const Tensor> dy) override {
    if (node.opaque) return;  // what it ran was seen
    Work one{.bytes = 2 * bytes_of(dy), .dtype = dy[0].defined() ? dy[0].dtype() : DType::f32};
    for (const autograd::GradSlot& slot : node.inputs) {
      if (!slot.needs_grad()) continue;
      one.bytes +=
          static_cast<double>(slot.shape().numel()) * static_cast<double>(size_of(slot.dtype()));
      if (node.op == Op::linear && slot.shape().rank() >= 2)
        one.flops += 2 * elements(dy[0]) * static_cast<double>(slot.shape().back());
    }
    // Five products where the forward had two.
    if (node.op == Op::packed_attention)
      one.flops = 5 * elements(dy[0]) * static_cast<double>(dy[0].size(1));
    if (node.op == Op::linear && fp8_) one.dtype = DType::e4m3;
    work.push_back(one);
  }

  std::vector<Work> work;

 private:
  bool fp8_ = false;
};

// Norm, clipping and AdamW read and write each parameter's numbers: masters, moments, gradient.
Work update_work(const train::Config& config, double parameters) {
  const double moments = config.moments == "bf16" ? 2 : 4;
  const double copies = config.params == "masters" ? 2 : 0;
  return {.bytes = parameters * (3 * 4 + 4 + 4 + 4 + 4 * moments + copies)};
}

// Where Machine::flops has the speed of a type.
size_t machine_index(DType dtype) { return dtype == DType::f32 ? 0 : dtype == DType::e4m3 ? 2 : 1; }

// Seconds of one call, the best of several within a twentieth of a second.
double seconds_of(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  call();
  const auto begin = Clock::now();
  double best = 1e9;
  for (int i = 0; i < 3 || std::chrono::duration<double>(Clock::now() - begin).count() < 0.05;
       ++i) {
    const auto start = Clock::now();
    call();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

std::vector<std::pair<std::string, train::Config>> variants(const train::Config& given) {
  std::vector<std::pair<std::string, train::Config>> result;
  for (const char* precision : {"fp32", "bf16", "fp16", "fp8"}) {
    for (const bool masters : {false, true}) {
      for (const bool recompute : {false, true}) {
        train::Config config = given;
        config.precision = precision;
        config.params = masters ? "masters" : "autocast";
        config.recompute = recompute;
        const bool f32 = config.precision == "fp32";
        if (f32 && masters) continue;
        if (f32) config.residual = "auto";
        if (config.precision != "fp8") {
          config.auto_precision = false;
          config.precision_plan.clear();
        }
        result.emplace_back(fmt::format("{}{}{}", precision, masters ? ", masters" : "",
                                        recompute ? ", recompute" : ""),
                            config);
      }
    }
  }
  return result;
}

}  // namespace

Forecast forecast(const train::Config& given) {
  train::Config config = given;
  config.device = "meta";
  const Device meta = Device::meta();
  const memory::Statistics before = memory::statistics(meta);
  memory::reset_peak(meta);
  Forecast result;
  WorkMeter meter;
  memory::Statistics after;
  {
    train::Trainer trainer(config);
    const data::Tokens tokens =
        data::Tokens::of_bytes(std::string(static_cast<size_t>(config.context) + 2, 'x'));
    for (int i = 0; i < 2; ++i) trainer.step(tokens);  // the second finds gradients and histories
    after = memory::statistics(meta);
    {  // a watched step runs what FP8 fuses op by op, and would take more memory
      const autograd::OpObserverScope watching(&meter);
      trainer.step(tokens);
    }
    result.parameter_count = trainer.model().parameter_count();
  }
  result.peak = after.peak - before.allocated;
  for (size_t i = 0; i < result.at_peak.size(); ++i)
    result.at_peak[i] = after.at_peak[i] - before.live[i];
  if (config.params == "masters") result.masters = 4 * result.parameter_count;
  const DType type = train::uses_autocast(config) ? train::autocast_type(config) : DType::f32;
  result.logits =
      logits_rows(config.batch * config.context, config.vocab, type, parse_device(config.device)) *
      config.vocab * static_cast<int64_t>(size_of(type));
  result.work = std::move(meter.work);
  result.work.push_back(update_work(config, static_cast<double>(result.parameter_count)));
  return result;
}

int64_t largest_batch(train::Config config, int64_t bytes) {
  const auto fits = [&config, bytes](int64_t batch) {
    config.batch = batch;
    return forecast(config).peak <= bytes;
  };
  constexpr int64_t most = 65536;
  int64_t good = 0, bad = 1;
  while (bad <= most && fits(bad)) {
    good = bad;
    bad *= 2;
  }
  while (bad - good > 1) {
    const int64_t middle = (good + bad) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

Machine measure_machine(const train::Config& config) {
  // The shapes of the model's own layers, as far as they take milliseconds.
  const int64_t rows = std::min<int64_t>(config.batch * config.context, 512),
                in = std::min<int64_t>(config.width, 1024),
                out = std::min<int64_t>(config.hidden, 4096);
  const Tensor x = randn({rows, in}, {1, 1}).set_requires_grad();
  // Work over time of a forward and backward as training runs them.
  const auto rate = [](double Work::*kind, const std::function<void()>& run) {
    WorkMeter meter;
    {
      const autograd::OpObserverScope watching(&meter);
      run();
    }
    double total = 0;
    for (const Work& one : meter.work) total += one.*kind;
    return total / seconds_of(run);
  };
  nn::Linear layer({.in = in, .out = out, .bias = false});
  const auto products = [&](const char* precision) {
    const bool low = std::string_view(precision) != "fp32",
               fp8 = std::string_view(precision) == "fp8";
    const Tensor seed = randn({rows, out}, {1, 2}, low ? DType::bf16 : DType::f32);
    const amp::Autocast cast(DType::bf16, {.enabled = low});
    const amp::Fp8Autocast eight(amp::Fp8State{
        .enabled = fp8, .recipe = {.scaling = amp::parse_fp8_scaling(config.fp8_scaling)}});
    return rate(&Work::flops, [&] { layer(x).backward(seed); });
  };
  Machine machine;
  machine.flops = {products("fp32"), products("bf16"), products("fp8")};
  nn::LayerNorm norm(in);
  const Tensor seed = randn({rows, in}, {1, 3});
  machine.bandwidth = rate(&Work::bytes, [&] { norm.add(x, seed).second.backward(seed); });
  return machine;
}

double step_seconds(const Forecast& forecast, const Machine& machine) {
  double seconds = 0;
  for (const Work& one : forecast.work)
    seconds += std::max(one.flops / machine.flops[machine_index(one.dtype)],
                        one.bytes / machine.bandwidth);
  return seconds;
}

int64_t machine_memory() {
  return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
}

std::vector<PlanRow> plan(const train::Config& config, int64_t memory) {
  const Machine machine = measure_machine(config);
  const auto tokens = static_cast<double>(config.accumulate * config.batch * config.context);
  std::vector<PlanRow> rows;
  for (const auto& [name, variant] : variants(config)) {
    PlanRow row{.name = name, .config = variant, .forecast = forecast(variant)};
    row.largest_batch = largest_batch(variant, memory);
    row.tokens_per_second = tokens / step_seconds(row.forecast, machine);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string plan_text(const std::vector<PlanRow>& rows, int64_t memory) {
  using train::bytes_text;
  std::string text =
      fmt::format("{:<26}{:>10}{:>10}{:>10}{:>10}{:>12}{:>10}{:>10}{:>11}{:>9}{:>11}\n",
                  "precision", "parameters", "masters", "gradients", "moments", "activations",
                  "logits", "peak", "fits", "batch", "tokens/s");
  for (const PlanRow& row : rows) {
    const Forecast& f = row.forecast;
    text += fmt::format("{:<26}{:>10}{:>10}{:>10}{:>10}{:>12}{:>10}{:>10}{:>11}{:>9}{:>11.0f}\n",
                        row.name, bytes_text(f.of(Category::parameters)), bytes_text(f.masters),
                        bytes_text(f.of(Category::gradients)),
                        bytes_text(f.of(Category::optimizer) - f.masters),
                        bytes_text(f.of(Category::activations) + f.of(Category::workspace)),
                        bytes_text(f.logits), bytes_text(f.peak), f.peak <= memory ? "yes" : "no",
                        row.largest_batch, row.tokens_per_second);
  }
  return text;
}

}  // namespace binade::lab
