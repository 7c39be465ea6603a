#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "binade/lab/range_chart.h"
#include "binade/tensor/memory.h"
#include "binade/train/metrics.h"

// The same model from the same weights on the same batches, in one precision after another.
namespace binade::lab {

struct CompareOptions {
  std::vector<std::string> precisions = {"fp32",         "bf16",        "fp16",
                                         "fp16-noscale", "fp8-delayed", "fp8-current"};
  int64_t seeds = 2;  // runs of fp32, from other weights on other batches: the noise of a seed
};

// The names a comparison knows: fp32, tf32, bf16, fp16, fp16-noscale, fp8-delayed, ...
std::vector<std::string> comparable();
// The configuration in a precision of that name; fails naming the known ones.
train::Config in_precision(const train::Config& config, const std::string& precision);

struct ComparedRun {
  std::string precision;
  std::vector<train::Record> records;  // one per step
  double loss = 0;                     // on the validation batches, in the end
  double tokens_per_second = 0;        // median over steps
  memory::Statistics memory;
  int64_t skipped = 0;
  double scale = 1;  // in the end
  ExponentHistogram weights, activations, gradients;
};

struct Comparison {
  train::Config config;
  std::vector<ComparedRun> runs;
  std::vector<double> seed_losses;  // of the first precision, this seed first

  // Largest less smallest of the seed losses; nothing where there is but one.
  std::optional<double> seed_noise() const;
};

// Trains. `note` is told what goes on.
Comparison compare(const train::Config& config, const CompareOptions& options,
                   const std::function<void(const std::string&)>& note = {});

std::string compare_text(const Comparison& comparison);
std::string compare_html(const Comparison& comparison);

}  // namespace binade::lab
