#pragma once

#include "binade/amp/autocast.h"
#include "binade/amp/fp8.h"
#include "binade/amp/grad_scaler.h"
#include "binade/nn/language_model.h"
#include "binade/optim/adam.h"
#include "binade/optim/schedule.h"
#include "binade/train/config/config.h"

// A configuration as the options of the parts it is made of.
namespace binade::train {

nn::LanguageModelConfig model_config(const Config& config);
// Where the parameters live and in which type.
nn::Placement placement(const Config& config);
// Matrices with weight decay, all else without.
std::vector<optim::AdamGroup> optimizer_groups(const Config& config, const nn::Module& model);
amp::GradScalerOptions scaler_options(const Config& config);
// The recipe, with the overrides by module; off unless the precision is fp8.
amp::Fp8State fp8_state(const Config& config);
optim::Schedule schedule(const Config& config);

// Whether ops run under autocast, in which type and by which policy, and how f32 matmuls round.
bool uses_autocast(const Config& config);
DType autocast_type(const Config& config);
amp::AutocastState autocast_state(const Config& config);

}  // namespace binade::train
