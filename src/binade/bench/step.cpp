#include "binade/bench/step.h"

#include <fmt/format.h>

#include "binade/backend/backend.h"
#include "binade/backend/capabilities.h"
#include "binade/base/random.h"
#include "binade/bench/machine.h"
#include "binade/train/machine.h"
#include "binade/train/run/throughput.h"
#include "binade/train/trainer.h"

namespace binade::bench {
namespace {

// Random ids, as in a mapped token file.
data::Tokens random_tokens(const train::Config& config) {
  const int64_t count = 4 * config.train.batch * (config.model.context + 1);
  auto ids = std::make_shared<std::vector<uint32_t>>(static_cast<size_t>(count));
  for (size_t i = 0; i < ids->size(); ++i) {
    const uint64_t draw = random::bits(static_cast<uint64_t>(config.train.seed), 0, i);
    (*ids)[i] = static_cast<uint32_t>(draw * static_cast<uint64_t>(config.model.vocab) >> 32);
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(ids->data());
  return {ids, bytes, sizeof(uint32_t), count};
}

// A trainer on random tokens.
class Stepper {
 public:
  explicit Stepper(const train::Config& config)
      : tokens_(random_tokens(config)), trainer_(config) {}

  void step() {
    trainer_.start_step(tokens_);
    note(trainer_.finished());
  }

  // Loss of the last step.
  double loss() {
    note(trainer_.finish_all());
    return loss_;
  }

  bool uses_graph() const { return trainer_.uses_graph(); }

 private:
  void note(const std::vector<train::StepResult>& results) {
    if (!results.empty()) loss_ = results.back().loss;
  }

  data::Tokens tokens_;
  train::Trainer trainer_;
  double loss_ = 0;
};

void write(json::Writer& out, const StepTiming& f) {
  out.begin_object().key("precision").value(train::name(f.precision));
  write_number(out, "tokens_per_second", f.tokens_per_second);
  write_number(out, "best_tokens_per_second", f.best_tokens_per_second);
  write_number(out, "tflops", f.flops / 1e12);
  write_number(out, "share_of_peak", f.share_of_peak);
  write_cost(out, f.cost);
  if (f.joules_per_token) write_number(out, "joules_per_token", *f.joules_per_token);
  write_number(out, "loss", f.loss);
  out.key("graph").value(f.graph).end_object();
}

std::vector<NamedCost> costs_of(const std::vector<StepTiming>& timings) {
  std::vector<NamedCost> rows;
  for (const StepTiming& f : timings) rows.emplace_back(train::name(f.precision), &f.cost);
  return rows;
}

std::string energy_table(const std::vector<StepTiming>& timings) {
  std::string text;
  for (const StepTiming& f : timings) {
    if (f.joules_per_token)
      text += fmt::format("{:<9} {:.3f} mJ per token, {:.0f} W\n", train::name(f.precision),
                          1e3 * *f.joules_per_token, *f.joules_per_token * f.tokens_per_second);
  }
  return text.empty() ? text : "\nenergy of the timed steps\n" + text;
}

}  // namespace

StepTiming bench_step(const train::Config& config, const StepBenchOptions& options) {
  const Device device = train::device_of(config);
  backend::of(device);  // fails if this build does not support the device
  const double peak = train::instruction_peak(device, config.precision.matmul);
  memory::release_cached(device);
  const double start = bench_clock();
  Stepper stepper(config);
  const Step step = [&stepper] { stepper.step(); };
  StepTiming result{.precision = config.precision.matmul,
                    .cost = measure_steps(device, options, start, step)};
  const auto tokens =
      static_cast<double>(config.train.accumulate * config.train.batch * config.model.context);
  if (result.cost.joules) result.joules_per_token = *result.cost.joules / tokens;
  result.tokens_per_second = tokens / result.cost.step_seconds;
  result.best_tokens_per_second = tokens / result.cost.best_step_seconds;
  result.flops = train::flops_per_token(train::model_config(config)) * result.tokens_per_second;
  result.share_of_peak = peak > 0 ? result.flops / peak : 0;
  result.loss = stepper.loss();
  result.graph = stepper.uses_graph();
  profile_steps(device, options, step, result.cost);
  return result;
}

std::string to_table(const train::Config& config, const std::vector<StepTiming>& timings) {
  const Device device = train::device_of(config);
  std::string text = fmt::format(
      "{} {} layers x {}, vocabulary {}, batch {} x {} tokens, {}; {}{}\n",
      train::name(config.model.family), config.model.layers, config.model.width, config.model.vocab,
      config.train.accumulate * config.train.batch, config.model.context,
      train::name_in(train::optimizer_names, config.train.optimizer), device_text(device),
      config.train.nondeterministic && backend::capabilities(device).has_unordered_kernels
          ? ", non-deterministic"
          : "");
  text += fmt::format("{:<9} {:>10} {:>10} {:>9} {:>9} {:>8} {:>7} {:>9} {:>7} {:>6} {:>8}\n",
                      "precision", "tokens/s", "best", "step ms", "best", "TFLOP/s", "peak",
                      "first s", "misses", "graph", "loss");
  for (const StepTiming& f : timings)
    text += fmt::format(
        "{:<9} {:>10.0f} {:>10.0f} {:>9.2f} {:>9.2f} {:>8.3f} {:>6.1f}% {:>9.3f} {:>7} {:>6} "
        "{:>8.4f}\n",
        train::name(f.precision), f.tokens_per_second, f.best_tokens_per_second,
        f.cost.step_seconds * 1e3, f.cost.best_step_seconds * 1e3, f.flops / 1e12,
        f.share_of_peak * 100, f.cost.first_step_since_model, f.cost.misses, f.graph ? "yes" : "no",
        f.loss);
  const std::vector<NamedCost> costs = costs_of(timings);
  return text + work_table(costs) + memory_table(costs) + energy_table(timings);
}

std::string to_json(const train::Config& config, const std::vector<StepTiming>& timings) {
  json::Writer out(2);
  out.begin_object().key("bench").value("step");
  out.key("device").value(device_text(train::device_of(config)));
  out.key("model").value(train::name(config.model.family)).key("layers").value(config.model.layers);
  out.key("width").value(config.model.width).key("vocab").value(config.model.vocab);
  out.key("batch").value(config.train.batch).key("accumulate").value(config.train.accumulate);
  out.key("context")
      .value(config.model.context)
      .key("params")
      .value(train::name(config.precision.params));
  out.key("optimizer").value(train::name_in(train::optimizer_names, config.train.optimizer));
  out.key("deterministic").value(!config.train.nondeterministic);
  out.key("flops_per_token").value(train::flops_per_token(train::model_config(config)));
  out.key("results").begin_array();
  for (const StepTiming& f : timings) write(out, f);
  return out.end_array().end_object().text();
}

}  // namespace binade::bench
