#pragma once

#include <memory>

#include "binade/amp/autocast.h"
#include "binade/amp/fp8.h"
#include "binade/amp/grad_scaler.h"
#include "binade/nn/language_model.h"
#include "binade/optim/optimizer.h"
#include "binade/optim/schedule.h"
#include "binade/train/config/config.h"

// A configuration as the options of the components that a run is made of.
namespace binade::train {

nn::LanguageModelConfig model_config(const Config& config);
// Device and type of the parameters.
nn::Placement placement(const Config& config);
// The optimizer over the model's parameters: matrices decay, vectors do not. `parts`, for AdamW
// alone, are the elements of each that this process updates, in the order below; empty: all.
std::unique_ptr<optim::Optimizer> make_optimizer(const Config& config, const nn::Module& model,
                                                 std::vector<optim::Part> parts = {});
// The parameters in the order of an AdamW.
std::vector<Tensor> parameters_in_order(const Config& config, const nn::Module& model);
amp::GradScalerOptions scaler_options(const Config& config);
// The recipe, with the overrides by module; off unless the precision is fp8.
amp::Fp8State fp8_state(const Config& config);
optim::Schedule schedule(const Config& config);

// The device to train on: the configured one, else a GPU if there is one.
Device device_of(const Config& config);
// Fails if this build or machine lacks the configuration's device, or that device its optimizer.
void check_device(const Config& config);

// Whether ops run under autocast, in which type, and how f32 matmuls round their operands.
bool uses_autocast(Precision precision);
DType autocast_type(Precision precision);
amp::MatmulPrecision matmul_precision(Precision precision);
// Autocast with the policy of the overrides.
amp::AutocastState autocast_state(const Config& config);

}  // namespace binade::train
