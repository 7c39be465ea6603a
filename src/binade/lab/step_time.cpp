#include "binade/lab/step_time.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "binade/amp/recipe/state.h"
#include "binade/autograd/node.h"
#include "binade/autograd/op_observer.h"
#include "binade/backend/capabilities.h"
#include "binade/base/function_ref.h"
#include "binade/base/parallel.h"
#include "binade/data/tokens.h"
#include "binade/io/huggingface.h"
#include "binade/io/lora.h"
#include "binade/lab/layer_stats.h"
#include "binade/train/config/presets.h"
#include "binade/train/machine.h"
#include "binade/train/trainer.h"

namespace binade::lab {
namespace {

using Clock = std::chrono::steady_clock;
using TimeByKind = std::array<double, work_kinds>;  // seconds

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double& of(TimeByKind& time, WorkKind kind) { return time[static_cast<size_t>(kind)]; }
double of(const TimeByKind& time, WorkKind kind) { return time[static_cast<size_t>(kind)]; }

double sum(const TimeByKind& time) {
  double all = 0;
  for (const double seconds : time) all += seconds;
  return all;
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
      return Precision::quantized;
    default:
      return run == Precision::tf32 ? Precision::tf32 : Precision::fp32;
  }
}

TimeByKind roofline_of(const Forecast& forecast, const Machine& machine) {
  TimeByKind time = {};
  for (const Work& one : forecast.work) {
    const train::Precision rate = rate_of(one.dtype, forecast.precision);
    of(time, one.kind) += std::max(one.flops / machine.flops[static_cast<size_t>(rate)],
                                   one.bytes / machine.bandwidth);
  }
  return time;
}

// Takes away what names other blocks than the first.
void keep_one_block(train::Config& config) {
  config.precision.recipe.skip_first = config.precision.recipe.skip_last = 0;
  const auto names_a_block = [](const std::string& target) {
    return target.find('.') != std::string::npos;
  };
  if (std::any_of(config.lora.targets.begin(), config.lora.targets.end(), names_a_block))
    config.lora.targets = {std::string(io::all_linear)};
  if (config.model.architecture.empty()) return;
  nn::LanguageModelConfig model =
      io::parse_config(config.model.architecture, "[model] architecture");
  model.layers = 1;
  if (!model.layer_types.empty()) model.layer_types.resize(1);
  config.model.architecture = io::config_json(model);
}

// One block of the configuration's kind, small enough that its steps take milliseconds.
train::Config small_model(train::Config config) {
  constexpr int64_t max_width = 256, max_tokens = 512, max_vocab = 512;
  const int64_t per_head = config.model.width / config.model.heads, width = config.model.width;
  const int64_t group = config.model.kv_heads == 0 ? 1 : config.model.heads / config.model.kv_heads;
  config.model.heads = std::clamp<int64_t>(max_width / per_head, 1, config.model.heads);
  if (config.model.heads > group) config.model.heads -= config.model.heads % group;
  if (config.model.kv_heads > 0)
    config.model.kv_heads = std::max<int64_t>(config.model.heads / group, 1);
  config.model.width = config.model.heads * per_head;
  config.model.hidden = std::max<int64_t>(config.model.hidden * config.model.width / width, 1);
  const int64_t tokens = std::min(config.train.batch * config.model.context, max_tokens);
  config.model.context = std::min(config.model.context, tokens);
  config.train.batch = tokens / config.model.context;
  config.train.accumulate = 1;
  config.precision.params = train::ParameterStorage::autocast;
  keep_one_block(config);
  config.objective = {};  // it trains on random tokens
  config.model.vocab = std::min(config.model.vocab, max_vocab);
  config.model.layers = 1;
  config.train.freeze.clear();  // names of other blocks
  config.run.layer_stats_modules.clear();
  config.precision.overrides = {};
  config.precision.plan.clear();
  config.precision.automatic = false;
  return config;
}

// The shapes of the model's own layers, as far as they take milliseconds.
train::LayerShape layer_shape(const train::Config& config, Device device) {
  const bool large = backend::capabilities(device).is_massively_parallel;
  const int64_t widest = large ? 1024 : 512, most_rows = large ? 512 : 256;
  return {.rows = std::min<int64_t>(config.train.batch * config.model.context, most_rows),
          .in = std::min<int64_t>(config.model.width, widest),
          .out = std::min<int64_t>(config.model.hidden, 3 * widest)};
}

// Times the ops of a step on a CPU by kind; the rest of the step, after the last op, is the update.
class StepClock : public autograd::OpObserver {
 public:
  void begin() {
    time_ = {};
    last_ = Clock::now();
  }
  TimeByKind end() {
    add(WorkKind::update);
    return time_;
  }

  void forward(Op op, std::span<const Tensor>, std::span<const Tensor>,
               std::span<const Tensor>) override {
    add(kind_of(op));
  }
  void after_backward(const autograd::Node& node, std::span<const Tensor>) override {
    add(kind_of(node.op));
  }

 private:
  void add(WorkKind kind) {
    of(time_, kind) += seconds_since(last_);
    last_ = Clock::now();
  }

  Clock::time_point last_;
  TimeByKind time_ = {};
};

// Calls `timed` for a time that is short, because a plan does it ten times.
void repeat(int at_least, FunctionRef<double()> timed) {
  constexpr double budget = 0.01;  // seconds
  double all = 0;
  for (int i = 0; i < at_least || all < budget; ++i) all += timed();
}

// The time of a step of a model with random weights and data, the shortest of a few.
struct MeasuredStep {
  TimeByKind time = {};
  double statistics = 0;  // seconds more in a step with layer statistics
};

MeasuredStep measure_step_time(const train::Config& config) {
  train::Trainer trainer(config);
  const data::Tokens tokens =
      data::Tokens::of_bytes(std::string(static_cast<size_t>(config.model.context) + 2, '\1'));
  trainer.step(tokens);  // allocates
  double best = std::numeric_limits<double>::infinity();
  repeat(2, [&] {
    const auto begin = Clock::now();
    trainer.step(tokens);
    const double seconds = seconds_since(begin);
    best = std::min(best, seconds);
    return seconds;
  });
  MeasuredStep result;
  double best_observed = std::numeric_limits<double>::infinity();
  StepClock clock;
  repeat(1, [&] {
    const autograd::OpObserverScope observing(&clock);
    clock.begin();
    trainer.step(tokens);
    const TimeByKind time = clock.end();
    if (sum(time) < best_observed) result.time = time;
    best_observed = std::min(best_observed, sum(time));
    return sum(time);
  });
  // An observed step fuses less.
  for (double& seconds : result.time) seconds *= best / best_observed;
  if (config.run.layer_stats > 0) {
    const auto begin = Clock::now();
    LayerStatistics statistics(trainer.recipes().recipe,
                               train::delayed_scales(trainer.model(), trainer.recipes()));
    {
      const autograd::OpObserverScope observing(&statistics);
      trainer.step(tokens);
    }
    statistics.ranking();
    result.statistics = std::max(seconds_since(begin) - best, 0.0);
  }
  return result;
}

double cast_seconds(const Forecast& forecast, const Machine& machine) {
  if (!forecast.casts_weights) return 0;
  return machine.weight_cast[static_cast<size_t>(forecast.precision)] *
         static_cast<double>(forecast.parameter_count);
}

// Seconds in steps of the small model over those of its roofline; `narrow`: the rates of its
// matmuls, which are slower than those of the model. Casts of weights count by themselves, since
// the model may have more tokens for them.
Machine::Slowdown slowdown_of(const train::Config& small, const MeasuredStep& measured,
                              const Machine& narrow, const Machine& machine) {
  const Forecast work = forecast(small);
  TimeByKind roofline = roofline_of(work, narrow);
  // A head of attention is as wide in both models.
  of(roofline, WorkKind::attention) = of(roofline_of(work, machine), WorkKind::attention);
  Machine::Slowdown result = Machine::no_slowdown;
  for (size_t kind = 0; kind < work_kinds; ++kind) {
    if (roofline[kind] > 0) result[kind] = measured.time[kind] / roofline[kind];
  }
  const double linear = of(measured.time, WorkKind::linear);
  // At most half of it: a busy machine may make casts seem to take longer than the whole step.
  const double casts = std::min(cast_seconds(work, machine), linear / 2);
  result[static_cast<size_t>(WorkKind::linear)] = (linear - casts) / of(roofline, WorkKind::linear);
  return result;
}

}  // namespace

WorkKind kind_of(Op op) {
  switch (op) {
    case Op::linear:
      return WorkKind::linear;
    case Op::packed_attention:
      return WorkKind::attention;
    case Op::linear_cross_entropy:
      return WorkKind::loss;
    default:
      return WorkKind::other;
  }
}

Machine measure_machine(const train::Config& config) {
  if (config.train.threads > 0) set_threads(static_cast<int>(config.train.threads));
  using train::Precision;
  const Device device = train::device_of(config);
  const train::LayerShape shape = layer_shape(config, device);
  const train::Config small = small_model(config);
  Machine machine{.bandwidth = train::norm_bandwidth(device, shape.rows, shape.in)};
  Machine narrow{.bandwidth = machine.bandwidth};
  // Quantized comes last: a run's other matmuls are in the precisions before.
  for (const Precision precision :
       {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16, Precision::quantized}) {
    if (config.lora.base.in_blocks() && precision == Precision::quantized) continue;  // refused
    const auto at = static_cast<size_t>(precision);
    const auto rate = [&](const train::LayerShape& layer) {
      return train::linear_rate(device, precision, config.precision.recipe, layer);
    };
    machine.flops[at] = rate(shape);
    if (backend::capabilities(device).is_asynchronous) continue;  // its ops cannot be timed
    narrow.flops[at] = rate(layer_shape(small, device));
    machine.weight_cast[at] =
        train::weight_cast_seconds(device, precision, config.precision.recipe, shape);
    const train::Config step = train::with_precision(small, precision);
    const MeasuredStep measured = measure_step_time(step);
    machine.slowdown[at] = slowdown_of(step, measured, narrow, machine);
    machine.statistics[at] = measured.statistics;
  }
  return machine;
}

double step_seconds(const Forecast& forecast, const Machine& machine) {
  const TimeByKind roofline = roofline_of(forecast, machine);
  const auto at = static_cast<size_t>(forecast.precision);
  double seconds =
      forecast.observed_blocks * machine.statistics[at] + cast_seconds(forecast, machine);
  for (size_t kind = 0; kind < work_kinds; ++kind)
    seconds += machine.slowdown[at][kind] * roofline[kind];
  return seconds;
}

}  // namespace binade::lab
