#pragma once

#include <deque>

#include "binade/train/config/component_options.h"

// The throughput that runs are compared with.
namespace binade::train {

// Floating-point operations that a training step needs per token: six for each weight of a matmul
// (two forward, four backward) and 6 x layers x width x context for the causal half of attention.
// Recomputed blocks do not count.
double flops_per_token(const nn::LanguageModelConfig& config);

// Tokens per second of a run whose every operation ran at the machine's matmul_rate.
double full_speed(const Config& config);

// Tokens per second over the last steps that together took `window` seconds, or over the last one
// if it took longer. Single steps vary with what else the machine does, and a GPU's results arrive
// several at a time.
class SpeedWindow {
 public:
  explicit SpeedWindow(double window = 1) : window_(window) {}

  void add(double tokens, double seconds);
  bool empty() const { return steps_.empty(); }
  double tokens_per_second() const { return tokens_ / seconds_; }  // if not empty

 private:
  struct Step {
    double tokens, seconds;
  };

  double window_;
  std::deque<Step> steps_;
  double tokens_ = 0, seconds_ = 0;
};

}  // namespace binade::train
