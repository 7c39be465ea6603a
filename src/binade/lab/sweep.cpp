#include "binade/lab/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/amp/recipe/state.h"
#include "binade/autograd/module_path.h"
#include "binade/autograd/op_observer.h"
#include "binade/base/error.h"
#include "binade/base/parallel.h"
#include "binade/data/corpus.h"
#include "binade/data/tokenizer.h"
#include "binade/train/config/component_options.h"
#include "binade/train/config/presets.h"
#include "binade/train/memory/forecast.h"

namespace binade::lab {
namespace {

// The modules whose linear ops run by the recipe, in the order of a forward.
class QuantizedLayerObserver : public autograd::OpObserver {
 public:
  void forward(Op op, std::span<const Tensor>, std::span<const Tensor>,
               std::span<const Tensor>) override {
    const std::string& module = autograd::module_path();
    if (op != Op::linear || amp::current_recipe() == nullptr) return;
    if (std::find(modules.begin(), modules.end(), module) == modules.end())
      modules.push_back(module);
  }
  void after_backward(const autograd::Node&, std::span<const Tensor>) override {}

  std::vector<std::string> modules;
};

std::vector<std::string> quantized_layers(const train::Config& config) {
  QuantizedLayerObserver observer;
  train::MetaRun run(config);
  const autograd::OpObserverScope observing(&observer);
  run.step();
  return observer.modules;
}

// A layer some of whose matmuls run in bf16.
struct LayerChoice {
  std::string module;
  amp::Matmuls matmuls;  // by the recipe
};

// Short runs of one configuration in different precisions.
class SweepRuns {
 public:
  SweepRuns(const train::Config& config, const SweepOptions& options)
      : config_(config), options_(options) {
    const auto tokenizer = data::open_tokenizer(config.data.tokenizer);
    split_ = data::read_split(train::data_source(config, tokenizer.get()));
  }

  bool stopped() const { return stopped_; }

  // The mean loss of the last half of a run's steps.
  double loss(const std::string& name, train::Precision precision,
              const std::vector<LayerChoice>& choices = {}) {
    if (stopped_) return std::nan("");
    train::Trainer trainer(train::with_precision(config_, precision));
    if (!config_.model.init_from.empty()) trainer.init_from(config_.model.init_from);
    if (!config_.lora.adapter.empty()) trainer.load_adapter(config_.lora.adapter);
    trainer.prepare_reference(split_);
    if (options_.prepare) options_.prepare(trainer);
    for (const LayerChoice& choice : choices) {
      amp::Recipe recipe = trainer.recipes().recipe;
      recipe.matmuls = choice.matmuls;
      trainer.set_recipe(choice.module, recipe);
    }
    double total = 0;
    const int64_t counted = (config_.train.steps + 1) / 2;
    for (int64_t step = 0; step < config_.train.steps; ++step) {
      const double loss = trainer.step(split_.train).loss;
      if (step >= config_.train.steps - counted) total += loss / static_cast<double>(counted);
    }
    if (options_.on_run) stopped_ = !options_.on_run(fmt::format("{}: loss {:.4f}", name, total));
    return total;
  }

 private:
  const train::Config& config_;
  const SweepOptions& options_;
  data::Split split_;
  bool stopped_ = false;
};

std::vector<Sweep::Unit> units_of(const std::vector<std::string>& modules, SweepOptions::By by) {
  std::vector<Sweep::Unit> units;
  for (const std::string& module : modules) {
    if (by == SweepOptions::By::layer) {
      units.push_back({.module = module});
      continue;
    }
    units.push_back({.module = module, .forward = true, .dgrad = false, .wgrad = false});
    units.push_back({.module = module, .forward = false, .dgrad = true, .wgrad = false});
    units.push_back({.module = module, .forward = false, .dgrad = false, .wgrad = true});
  }
  return units;
}

// Only the unit in FP8.
std::vector<LayerChoice> only(const Sweep::Unit& unit, const std::vector<std::string>& modules) {
  std::vector<LayerChoice> choices;
  for (const std::string& module : modules) {
    const bool chosen = module == unit.module;
    choices.push_back(
        {module, {chosen && unit.forward, chosen && unit.dgrad, chosen && unit.wgrad}});
  }
  return choices;
}

// All but these units in FP8.
std::vector<LayerChoice> without(const std::vector<Sweep::Unit>& units) {
  std::vector<LayerChoice> choices;
  for (const Sweep::Unit& unit : units) {
    const auto same = [&](const LayerChoice& choice) { return choice.module == unit.module; };
    auto found = std::find_if(choices.begin(), choices.end(), same);
    if (found == choices.end()) found = choices.insert(found, {unit.module, {}});
    found->matmuls.forward &= !unit.forward;
    found->matmuls.dgrad &= !unit.dgrad;
    found->matmuls.wgrad &= !unit.wgrad;
  }
  return choices;
}

// Moves units to bf16, the most sensitive first, until the loss is that of bf16.
void move_greedily(Sweep& result, SweepRuns& runs) {
  std::vector<Sweep::Unit> moved;
  double current = result.fp8;
  const double margin = result.noise * result.bf16;
  for (const Sweep::Unit& unit : result.ranked) {
    if (!(current > result.bf16 + margin) || unit.excess <= result.noise || runs.stopped()) return;
    moved.push_back(unit);
    const double loss =
        runs.loss(name(unit) + " in bf16", train::Precision::quantized, without(moved));
    if (runs.stopped() && std::isnan(loss)) return;
    const bool kept = loss < current - margin || (!std::isfinite(current) && std::isfinite(loss));
    result.moves.push_back({unit, loss, kept});
    if (kept) {
      current = loss;
    } else {
      moved.pop_back();
    }
  }
}

// A diverged run is the most sensitive there is.
bool more_sensitive(const Sweep::Unit& a, const Sweep::Unit& b) {
  if (std::isfinite(a.excess) != std::isfinite(b.excess)) return !std::isfinite(a.excess);
  return std::isfinite(a.excess) && a.excess > b.excess;
}

}  // namespace

std::string name(const Sweep::Unit& unit) {
  if (unit.forward && unit.dgrad && unit.wgrad) return unit.module;
  return unit.module + (unit.forward ? ", forward" : unit.dgrad ? ", dgrad" : ", wgrad");
}

train::PrecisionPlan Sweep::plan() const {
  train::PrecisionPlan plan;
  for (const Move& move : moves) {
    if (!move.kept) continue;
    const auto same = [&](const train::Promotion& one) { return one.module == move.unit.module; };
    auto found = std::find_if(plan.layers.begin(), plan.layers.end(), same);
    if (found == plan.layers.end())
      found = plan.layers.insert(found, {.module = move.unit.module,
                                         .step = 0,
                                         .forward = false,
                                         .dgrad = false,
                                         .wgrad = false});
    found->forward |= move.unit.forward;
    found->dgrad |= move.unit.dgrad;
    found->wgrad |= move.unit.wgrad;
    const double excess = std::isfinite(move.unit.excess) ? move.unit.excess : 1;
    found->harm = std::max(found->harm, std::clamp(excess, 0.0, 1.0));
  }
  return plan;
}

double Sweep::planned_loss() const {
  double loss = fp8;
  for (const Move& move : moves) {
    if (move.kept) loss = move.loss;
  }
  return loss;
}

Sweep sweep(const train::Config& config, const SweepOptions& options) {
  if (config.precision.matmul != train::Precision::quantized)
    fail("sweep", {.argument = "--precision",
                   .expected = "fp8, whose layers can be chosen one by one",
                   .found = std::string(train::name(config.precision.matmul))});
  train::check_device(config);
  if (config.train.threads > 0) set_threads(static_cast<int>(config.train.threads));
  Sweep result{.config = config};
  const std::vector<std::string> modules = quantized_layers(config);
  SweepRuns runs(config, options);
  result.bf16 = runs.loss("bf16", train::Precision::bf16);
  const double fp32 = runs.loss("fp32", train::Precision::fp32);
  result.noise = std::abs(fp32 - result.bf16) / result.bf16;
  result.fp8 = runs.loss("fp8", train::Precision::quantized);
  for (Sweep::Unit& unit : units_of(modules, options.by)) {
    if (runs.stopped()) break;
    unit.loss = runs.loss(name(unit) + " in FP8", train::Precision::quantized, only(unit, modules));
    unit.excess = unit.loss / result.bf16 - 1;
    result.ranked.push_back(unit);
  }
  // FP8 makes no run better but by chance, and by as much chance makes it worse.
  for (const Sweep::Unit& unit : result.ranked) result.noise = std::max(result.noise, -unit.excess);
  std::stable_sort(result.ranked.begin(), result.ranked.end(), more_sensitive);
  move_greedily(result, runs);
  result.interrupted = runs.stopped();
  return result;
}

}  // namespace binade::lab
