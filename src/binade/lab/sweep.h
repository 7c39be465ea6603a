#pragma once

#include <functional>
#include <string>
#include <vector>

#include "binade/train/config/config.h"
#include "binade/train/config/precision_plan.h"
#include "binade/train/trainer.h"

// How much the loss suffers from the precision of single layers: many short runs from the same
// weights on the same batches.
namespace binade::lab {

struct SweepOptions {
  enum class By : uint8_t {
    layer,   // all matmuls of a layer at once
    matmul,  // forward, dgrad and wgrad of a layer one by one
  };
  By by = By::layer;
  // Called with each run's trainer before its first step, such as to load weights.
  std::function<void(train::Trainer&)> prepare = {};
  // Called with a line after each run; false ends the sweep, which keeps what it has.
  std::function<bool(const std::string& line)> on_run = {};
};

struct Sweep {
  // A layer, or one of its matmuls, that ran in FP8 while all others ran in bf16.
  struct Unit {
    std::string module;
    bool forward = true, dgrad = true, wgrad = true;
    double loss = 0;
    double excess = 0;  // of the loss over that of bf16, relative
  };
  // A unit that moved to bf16 while the others ran in FP8, after the moves before it.
  struct Move {
    Unit unit;
    double loss = 0;
    bool kept = false;  // the loss fell by more than the noise
  };

  train::Config config = train::Config();
  // Mean training losses of the last half of the steps: without FP8, and with all layers in it.
  double bf16 = 0, fp8 = 0;
  // Relative differences of at most this say nothing: that of fp32 and bf16, or the largest by
  // which a unit in FP8 had a lower loss than bf16.
  double noise = 0;
  std::vector<Unit> ranked;  // most sensitive first
  std::vector<Move> moves;   // greedily, in this order, until the loss is that of bf16
  bool interrupted = false;

  // The kept moves, for `--precision-plan`. Their harm is the excess of the loss.
  train::PrecisionPlan plan() const;
  // The loss with that plan.
  double planned_loss() const;
};

// Fails unless the precision is fp8.
Sweep sweep(const train::Config& config, const SweepOptions& options = {});

// "blocks.1.mlp.up" or "blocks.1.mlp.up, dgrad".
std::string name(const Sweep::Unit& unit);
std::string sweep_text(const Sweep& sweep);
std::string sweep_json(const Sweep& sweep);
std::string sweep_html(const Sweep& sweep);

}  // namespace binade::lab
