#include "binade/train/config/component_options.h"

#include <algorithm>
#include <utility>

#include "binade/backend/capabilities.h"
#include "binade/backend/gpu.h"
#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/base/text.h"
#include "binade/data/chat/examples.h"
#include "binade/io/base_weights.h"
#include "binade/io/huggingface.h"
#include "binade/io/lora.h"
#include "binade/io/model_folder.h"
#include "binade/optim/catalog.h"
#include "binade/optim/muon.h"
#include "binade/train/config/precision_plan.h"

namespace binade::train {
namespace {

void freeze(nn::Module& model, const std::vector<std::string>& patterns) {
  auto parameters = model.named_parameters();
  for (const std::string& pattern : patterns) {
    bool found = false;
    for (auto& [name, parameter] : parameters) {
      if (!matches_glob(pattern, name) && !name.starts_with(pattern + ".")) continue;
      parameter.set_requires_grad(false);
      found = true;
    }
    if (!found)
      fail("config", {.argument = "[train] freeze",
                      .expected = "names of parameters, such as " + parameters.front().first +
                                  " or " + parameters.back().first,
                      .found = json::in_quotes(pattern)});
  }
  const bool trains = std::any_of(parameters.begin(), parameters.end(),
                                  [](const auto& one) { return one.second.requires_grad(); });
  if (!trains)
    fail("config",
         {.argument = "[train] freeze", .expected = "parameters left to train", .found = "none"});
}

}  // namespace

bool uses_autocast(Precision precision) {
  return precision != Precision::fp32 && precision != Precision::tf32;
}

DType autocast_type(Precision precision) {
  return precision == Precision::fp16 ? DType::f16 : DType::bf16;
}

amp::MatmulPrecision matmul_precision(Precision precision) {
  return precision == Precision::tf32 ? amp::MatmulPrecision::high : amp::MatmulPrecision::highest;
}

Device device_of(const Config& config) {
  if (config.train.device) return *config.train.device;
  return backend::gpus().empty() ? Device::cpu() : Device::cuda();
}

void check_device(const Config& config) {
  const Device device = device_of(config);
  const auto runs_on_gpu = [](const optim::Description& one) { return one.runs_on_gpu; };
  if (device.is_cuda() && !runs_on_gpu(optim::describe(config.train.optimizer))) {
    fail("config", {.argument = "--optimizer",
                    .expected = optim::choices_of(runs_on_gpu) + " on a GPU",
                    .found = std::string(name_in(optimizer_names, config.train.optimizer)),
                    .hint = "other optimizers run with --device cpu"});
  }
  if (config.qat.format != nullptr && !backend::capabilities(device).has_packed_codes) {
    fail("config", {.argument = "--qat",
                    .expected = "--device cpu: weight formats have no GPU kernels",
                    .found = to_string(device)});
  }
  recipe_state(config);  // refuses recipes that the device cannot run
  check_device(device);
}

void check_device(Device device) {
  if (!device.is_cuda() || std::cmp_less(device.index, backend::gpus().size())) return;
  fail("config",
       {.argument = "--device",
        .expected = "a device of this machine",
        .found = backend::built_with_cuda() ? to_string(device) + ", but no NVIDIA GPU was found"
                                            : "cuda, but this build has no CUDA backend",
        .hint = backend::built_with_cuda()
                    ? "'nvidia-smi' shows whether the driver works"
                    : "leave --device out, or build with 'cmake --preset cuda'"});
}

nn::LanguageModelConfig model_config(const Config& config) {
  const bool llama = config.model.family == ModelFamily::llama;
  nn::LanguageModelConfig model;
  if (config.model.architecture.empty()) {
    model.norm = llama ? nn::NormKind::rms : nn::NormKind::layer;
    model.bias = model.learned_positions = model.tied_head = !llama;
    model.gated = llama;
  } else {
    model = io::parse_config(config.model.architecture, "[model] architecture");
  }
  model.layers = config.model.layers;
  model.width = config.model.width;
  model.heads = config.model.heads;
  model.kv_heads = model.learned_positions ? 0 : config.model.kv_heads;
  model.hidden = config.model.hidden;
  model.vocab = config.model.vocab;
  model.context = config.model.context;
  model.eps = config.model.norm_eps;
  model.rope_theta = config.model.rope_theta;
  model.tied_head = config.model.tied_head.value_or(model.tied_head);
  model.dropout = config.train.dropout;
  model.residual = config.precision.residual;
  model.activations = config.train.activations.value_or(nn::Activations());
  model.seed = static_cast<uint64_t>(config.train.seed);
  return model;
}

namespace {

// Not those of the head and the embedding, which are sums of several matmuls or of rows.
void set_gradient_types(const nn::LanguageModel& model, DType dtype) {
  for (const auto& [name, parameter] : model.named_parameters()) {
    const bool is_matrix = name.starts_with("blocks.") && parameter.rank() == 2;
    if (is_matrix && parameter.dtype() == DType::bf16 && parameter.requires_grad())
      parameter.set_grad_dtype(dtype);
  }
}

}  // namespace

io::WeightFormatOptions weight_format_options(const Config& config) {
  if (config.qat.format == nullptr) return {};
  return {.format = std::string(config.qat.format->name),
          .head = config.qat.head,
          .exclude = config.qat.exclude};
}

namespace {

std::unique_ptr<nn::LanguageModel> model_in_blocks(const Config& config, nn::Placement placement) {
  const nn::WithoutWeights without;
  auto model = std::make_unique<nn::LanguageModel>(model_config(config), placement);
  if (config.lora.base.format != nullptr) {
    io::set_base_format(*model, *config.lora.base.format, placement);
  } else {
    io::set_base_format(
        *model, io::gguf::File(io::model_folder(config.model.init_from, "--init-from")), placement);
  }
  return model;
}

}  // namespace

std::unique_ptr<nn::LanguageModel> make_model(const Config& config, nn::Placement placement) {
  auto model = config.lora.base.in_blocks()
                   ? model_in_blocks(config, placement)
                   : std::make_unique<nn::LanguageModel>(model_config(config), placement);
  if (config.lora.rank > 0)
    io::add_adapters(*model, {.rank = config.lora.rank,
                              .alpha = config.lora.alpha,
                              .dropout = config.lora.dropout,
                              .targets = config.lora.targets});
  io::set_weight_format(*model, weight_format_options(config));
  freeze(*model, config.train.freeze);
  set_gradient_types(*model, config.precision.gradients);
  return model;
}

data::Source data_source(const Config& config, const data::Tokenizer* tokenizer) {
  const std::vector<int64_t> eos = model_config(config).eos;
  data::Source source{.where = config.data.source,
                      .tokenizer = tokenizer,
                      .vocab = config.model.vocab,
                      .batch = config.train.batch,
                      .context = config.model.context,
                      .validation = config.data.validation,
                      .packed = config.data.pack,
                      .pairs = config.objective.has_pairs()};
  if (!eos.empty()) source.eos = eos.front();
  // Other data need no template, so one that is not known must not stop them.
  if (data::has_examples(config.data.source))
    source.chat = data::chat_template_beside(config.data.tokenizer, config.data.chat);
  return source;
}

std::filesystem::path token_cache(const Config& config) {
  const auto without_slash = [](const std::filesystem::path& path) {
    return path.has_filename() ? path : path.parent_path();
  };
  std::filesystem::path run = without_slash(config.run.out.empty() ? "runs/1" : config.run.out);
  // "." has no name to stand beside.
  if (run.filename() == "." || run.filename() == "..")
    run = std::filesystem::absolute(run).lexically_normal();
  return without_slash(run).parent_path() / ".tokens";
}

std::vector<Tensor> trained(const nn::Module& model) {
  std::vector<Tensor> result;
  for (const Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad()) result.push_back(parameter);
  }
  return result;
}

bool trains_bytes(const Config& config) {
  return config.data.tokenizer == data::byte_tokenizer &&
         config.model.vocab == data::byte_vocabulary;
}

const char* loss_unit(const Config& config) {
  if (config.objective.has_pairs()) return "nats per pair";
  return trains_bytes(config) ? "nats per byte" : "nats per token";
}

int64_t step_tokens(const Config& config) {
  return config.train.accumulate * config.objective.sequences(config.train.batch) *
         config.model.context;
}

int64_t trained_parameters(const nn::Module& model) {
  int64_t count = 0;
  for (const Tensor& parameter : trained(model)) count += parameter.numel();
  return count;
}

nn::Placement placement(const Config& config) {
  const bool is_wide = config.precision.params == ParameterStorage::autocast;
  return {device_of(config), is_wide ? DType::f32 : autocast_type(config.precision.matmul)};
}

namespace {

// The parameters with weight decay and those without, each with these options.
std::vector<optim::NamedGroup> decay_groups(const std::vector<Tensor>& parameters,
                                            const optim::NamedGroup& common, double decay) {
  optim::NamedGroup matrices = common, others = common;
  matrices.options["weight_decay"] = decay;
  others.options["weight_decay"] = 0.0;
  for (const Tensor& parameter : parameters)
    (parameter.rank() >= 2 ? matrices : others).parameters.push_back(parameter);
  std::vector<optim::NamedGroup> groups;
  for (const optim::NamedGroup& group : {matrices, others}) {
    if (!group.parameters.empty()) groups.push_back(group);
  }
  return groups;
}

optim::MasterOptions master_options(const Config& config, std::vector<optim::Part> parts = {}) {
  return {.split_masters = config.precision.params == ParameterStorage::split,
          .parts = std::move(parts)};
}

// The configuration's options that the optimizer takes.
optim::NamedOptions options_for(const Config& config, const optim::Description& optimizer) {
  optim::NamedOptions all{{"lr", config.train.lr},
                          {"betas", std::vector{config.train.beta1, config.train.beta2}},
                          {"moments", config.precision.moments},
                          {"decoupled_weight_decay", true}};
  std::erase_if(all, [&](const auto& one) { return !optimizer.takes(one.first); });
  return all;
}

// Of the matrices of the blocks and of the others: embeddings, head and vectors.
struct MuonParameters {
  std::vector<Tensor> hidden, rest;
};

MuonParameters muon_parameters(const nn::Module& model) {
  MuonParameters result;
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (!parameter.requires_grad()) continue;
    const bool is_hidden = name.starts_with("blocks.") && parameter.rank() == 2;
    (is_hidden ? result.hidden : result.rest).push_back(parameter);
  }
  return result;
}

// The groups of the configuration's optimizer. Those of Muon are for its matrices, and then `rest`
// for AdamW, at one learning rate.
struct OptimizerGroups {
  std::vector<optim::NamedGroup> own, rest;
};

OptimizerGroups groups_of(const Config& config, const nn::Module& model,
                          std::vector<optim::Part> parts) {
  const optim::Description& kind = optim::describe(config.train.optimizer);
  optim::NamedGroup common{{}, options_for(config, kind), master_options(config, std::move(parts))};
  if (config.train.optimizer != OptimizerKind::muon)
    return {decay_groups(trained(model), common, config.train.weight_decay), {}};
  const MuonParameters parameters = muon_parameters(model);
  common.options["adjust_lr_fn"] = std::string("match_rms_adamw");
  common.options["weight_decay"] = config.train.weight_decay;
  optim::NamedGroup hidden = common;
  hidden.parameters = parameters.hidden;
  common.options = options_for(config, optim::describe(OptimizerKind::adamw));
  return {{hidden}, decay_groups(parameters.rest, common, config.train.weight_decay)};
}

}  // namespace

std::vector<Tensor> parameters_in_order(const Config& config, const nn::Module& model) {
  std::vector<Tensor> parameters;
  const OptimizerGroups groups = groups_of(config, model, {});
  for (const auto& some : {groups.own, groups.rest}) {
    for (const optim::NamedGroup& group : some)
      parameters.insert(parameters.end(), group.parameters.begin(), group.parameters.end());
  }
  return parameters;
}

ranks::Partition partition_of(const Config& config, const nn::Module& model, int ranks) {
  std::vector<double> costs;
  if (config.train.optimizer == OptimizerKind::muon) {
    for (const Tensor& matrix : muon_parameters(model).hidden)
      costs.push_back(optim::muon_cost(matrix));
  }
  const std::vector<Tensor> parameters = parameters_in_order(config, model);
  costs.resize(parameters.size());
  return {parameters, ranks, trained(model), ranks::Partition::default_bucket, costs};
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Config& config, const nn::Module& model,
                                                 std::vector<optim::Part> parts) {
  const OptimizerGroups groups = groups_of(config, model, std::move(parts));
  if (config.train.optimizer == OptimizerKind::muon)
    return optim::make_muon(groups.own, groups.rest);
  return optim::describe(config.train.optimizer).make(groups.own);
}

amp::GradScalerOptions scaler_options(const Config& config) {
  return {.enabled = config.precision.matmul == Precision::fp16,
          .init_scale = config.precision.scale_init,
          .growth_interval = config.precision.scale_growth_interval,
          .device = device_of(config)};
}

amp::AutocastState autocast_state(const Config& config) {
  return {.enabled = uses_autocast(config.precision.matmul),
          .dtype = autocast_type(config.precision.matmul),
          .policy = std::make_shared<amp::Policy>(policy_of(config.precision.overrides)),
          .matmul_precision = matmul_precision(config.precision.matmul)};
}

amp::RecipeState recipe_state(const Config& config) {
  amp::RecipeState state = recipe_state_of(config.precision.matmul == Precision::quantized,
                                           config.precision.recipe, config.precision.overrides);
  state.steps = config.train.steps;
  if (!config.precision.plan.empty()) {
    for (const Promotion& one : read_precision_plan(config.precision.plan).current())
      state.overrides[one.module] = one.recipe(config.precision.recipe);
  }
  if (!state.enabled) return state;
  state.recipe.check_device(device_of(config));
  for (const auto& [module, recipe] : state.overrides) recipe.check_device(device_of(config));
  return state;
}

optim::Schedule schedule(const Config& config) {
  const optim::Schedule result{.kind = config.train.schedule,
                               .peak = config.train.lr,
                               .warmup = config.train.warmup,
                               .total = config.train.steps,
                               .cooldown = (config.train.steps - config.train.warmup) / 5};
  result.check();
  return result;
}

}  // namespace binade::train
