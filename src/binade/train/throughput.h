#pragma once

#include "binade/train/config/component_options.h"

// The throughput that runs are compared with.
namespace binade::train {

// Floating-point operations that a training step needs per token: six for each weight of a matmul
// (two forward, four backward) and 6 x layers x width x context for the causal half of attention.
// Recomputed blocks do not count.
double flops_per_token(const nn::LanguageModelConfig& config);

// Tokens per second of a run whose every operation ran at the machine's matmul_rate.
double full_speed(const Config& config);

}  // namespace binade::train
