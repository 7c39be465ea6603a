#pragma once

#include "binade/train/config/component_options.h"

// How fast the machine could be, to compare a run with.
namespace binade::train {

// Floating-point operations a training step must do per token: six for each weight of a product
// (two forward, four backward) and 6 x layers x width x context for the causal half of attention's
// scores and sums. What recompute does again does not count.
double flops_per_token(const nn::LanguageModelConfig& config);

// Operations per second of a large matrix product in the run's precision, on its device with the
// threads in force. Measured once in a process for each, within about a tenth of a second.
double measured_peak(const Config& config);

// Tokens per second of a run whose products all ran at that rate.
double full_speed(const Config& config);

}  // namespace binade::train
