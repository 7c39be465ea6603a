#pragma once

#include <filesystem>
#include <memory>

#include "binade/amp/autocast.h"
#include "binade/amp/grad_scaler.h"
#include "binade/amp/recipe/state.h"
#include "binade/data/corpus.h"
#include "binade/io/weight_formats.h"
#include "binade/nn/language_model.h"
#include "binade/optim/optimizer.h"
#include "binade/optim/schedule.h"
#include "binade/ranks/partition.h"
#include "binade/train/config/config.h"

// A configuration as the options of the components that a run is made of.
namespace binade::train {

nn::LanguageModelConfig model_config(const Config& config);
// How [qat] rounds weights.
io::WeightFormatOptions weight_format_options(const Config& config);
// The model with random weights, its adapters if there are any, its weights rounded as [qat] says,
// and the parameters that are not trained frozen. Fails for a pattern of `freeze` that names no
// parameter, or if all are frozen.
std::unique_ptr<nn::LanguageModel> make_model(const Config& config, nn::Placement placement);
// The configured data, read with `tokenizer` (null: bytes).
data::Source data_source(const Config& config, const data::Tokenizer* tokenizer);
// The folder for encoded texts (data/token_cache.h), which the runs in one folder share: .tokens
// beside the run's own.
std::filesystem::path token_cache(const Config& config);
// Whether tokens are bytes of text, by the configuration alone, and the unit of losses.
bool trains_bytes(const Config& config);
const char* loss_unit(const Config& config);
// Tokens of a step's batches, padding included.
int64_t step_tokens(const Config& config);
// The number of parameters that are not frozen.
int64_t trained_parameters(const nn::Module& model);
// Device and type of the parameters.
nn::Placement placement(const Config& config);
// The optimizer over the parameters that are not frozen: matrices decay, vectors do not. `parts`
// are the elements of each that this process updates, in the order below (check_ranks() says which
// optimizers take them); empty: all.
std::unique_ptr<optim::Optimizer> make_optimizer(const Config& config, const nn::Module& model,
                                                 std::vector<optim::Part> parts = {});
// The trained parameters in the order of the optimizer, and in the order of a forward.
std::vector<Tensor> parameters_in_order(const Config& config, const nn::Module& model);
// How ranks share the update of these parameters.
ranks::Partition partition_of(const Config& config, const nn::Module& model, int ranks);
std::vector<Tensor> trained(const nn::Module& model);
amp::GradScalerOptions scaler_options(const Config& config);
// The recipe, with the overrides by module; off unless the precision is fp8.
amp::RecipeState recipe_state(const Config& config);
optim::Schedule schedule(const Config& config);

// The device to train on: the configured one, else a GPU if there is one.
Device device_of(const Config& config);
// Fails if this build or machine lacks the configuration's device, or that device its optimizer.
void check_device(const Config& config);
// Fails if this build or machine lacks the device.
void check_device(Device device);

// Whether ops run under autocast, in which type, and how f32 matmuls round their operands.
bool uses_autocast(Precision precision);
DType autocast_type(Precision precision);
amp::MatmulPrecision matmul_precision(Precision precision);
// Autocast with the policy of the overrides.
amp::AutocastState autocast_state(const Config& config);

}  // namespace binade::train
