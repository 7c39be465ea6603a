#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "binade/lab/equal_loss.h"
#include "binade/lab/range_chart.h"
#include "binade/tensor/memory.h"
#include "binade/train/run/metrics.h"

// Trains the same model from the same weights on the same batches in several precisions.
namespace binade::lab {

// Where a comparison stands, after a step.
struct CompareProgress {
  std::string run;              // "bf16", "fp32, seed 1"
  int64_t index = 0, runs = 0;  // the run and the number of all, counted from 1
  int64_t step = 0, steps = 0;  // of this run
  double loss = 0;
};

struct CompareOptions {
  std::vector<std::string> precisions = {"fp32",         "bf16",        "fp16",
                                         "fp16-noscale", "fp8-delayed", "fp8-current"};
  // Runs of the first precision with different seeds, at least two. Differences between precisions
  // mean something only beside those between seeds.
  int64_t seeds = 3;
  // Called after each step; false ends the comparison, which keeps its complete runs.
  std::function<bool(const CompareProgress&)> on_step = {};
};

// The names of all precisions: fp32, tf32, bf16, fp16, fp16-noscale, fp8-delayed, ...
std::vector<std::string> comparable();
// The configuration in the named precision. Fails with a list of the names if there is no such one.
train::Config in_precision(const train::Config& config, const std::string& precision);

struct ComparedRun {
  std::string precision;
  std::vector<train::Record> records;  // one per step, about ten with a validation loss
  double loss = 0;                     // on the validation batches, at the end
  double tokens_per_second = 0;        // median over steps
  memory::Statistics memory;
  int64_t skipped = 0;
  double scale = 1;  // at the end
  ExponentHistogram weights, activations, gradients;
};

struct Comparison {
  train::Config config = train::Config();
  std::vector<ComparedRun> runs;
  std::vector<double> seed_losses;  // of the first precision; the configured seed comes first
  std::vector<std::vector<train::Record>> seed_records;  // of the others
  bool interrupted = false;  // by on_step: some runs or seeds are missing

  // The range of the seed losses; nothing if there are fewer than two.
  std::optional<double> seed_noise() const;
  // The fraction of the gradients of linear layers that are zero in the run, and not in the first
  // precision, at the last step.
  double flushed_gradients(const ComparedRun& run) const;
  // Speed relative to the first precision, to the same training loss (lab/equal_loss.h).
  std::optional<EqualLossSpeed> equal_loss_speed(const ComparedRun& run) const;
  // Whether the run diverged, or differs from the first by more than the seed noise.
  bool is_outside_noise(const ComparedRun& run) const;
};

// Trains all runs, the other seeds of the first precision last. Calls `log` with a line after each.
Comparison compare(const train::Config& config, const CompareOptions& options,
                   const std::function<void(const std::string&)>& log = {});

std::string compare_text(const Comparison& comparison);
std::string compare_html(const Comparison& comparison);

}  // namespace binade::lab
