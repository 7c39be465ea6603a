#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "binade/lab/range_chart.h"
#include "binade/tensor/memory.h"
#include "binade/train/metrics.h"

// Trains the same model from the same weights on the same batches in several precisions.
namespace binade::lab {

struct CompareOptions {
  std::vector<std::string> precisions = {"fp32",         "bf16",        "fp16",
                                         "fp16-noscale", "fp8-delayed", "fp8-current"};
  int64_t seeds = 2;  // runs of the first precision with different seeds, to measure seed noise
};

// The names of all precisions: fp32, tf32, bf16, fp16, fp16-noscale, fp8-delayed, ...
std::vector<std::string> comparable();
// The configuration in the named precision. Fails with a list of the names if there is no such one.
train::Config in_precision(const train::Config& config, const std::string& precision);

struct ComparedRun {
  std::string precision;
  std::vector<train::Record> records;  // one per step
  double loss = 0;                     // on the validation batches, at the end
  double tokens_per_second = 0;        // median over steps
  memory::Statistics memory;
  int64_t skipped = 0;
  double scale = 1;  // at the end
  ExponentHistogram weights, activations, gradients;
};

struct Comparison {
  train::Config config;
  std::vector<ComparedRun> runs;
  std::vector<double> seed_losses;  // of the first precision; the configured seed comes first

  // The range of the seed losses; nothing if there is only one.
  std::optional<double> seed_noise() const;
};

// Trains all runs. Calls `log` with a line after each.
Comparison compare(const train::Config& config, const CompareOptions& options,
                   const std::function<void(const std::string&)>& log = {});

std::string compare_text(const Comparison& comparison);
std::string compare_html(const Comparison& comparison);

}  // namespace binade::lab
