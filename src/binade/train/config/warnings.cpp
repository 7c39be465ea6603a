#include "binade/train/config/warnings.h"

#include <fmt/format.h>

#include <algorithm>

#include "binade/base/error.h"
#include "binade/base/text.h"
#include "binade/data/mixture.h"
#include "binade/io/model_folder.h"
#include "binade/train/config/component_options.h"
#include "binade/train/config/keys.h"

namespace binade::train {
namespace {

// A key that has an effect only under a condition.
struct Conditional {
  std::string_view key;
  bool (*has_effect)(const Config& config);
  std::string_view condition;
};

bool is_llama(const Config& c) { return c.model.family == ModelFamily::llama; }
bool has_recipe(const Config& c) { return c.precision.matmul == Precision::quantized; }
bool is_fp16(const Config& c) { return c.precision.matmul == Precision::fp16; }
// A folder's model may have SwiGLU, too.
bool has_swiglu(const Config& c) { return is_llama(c) || !c.model.init_from.empty(); }
bool is_on_gpu(const Config& c) { return device_of(c).is_cuda(); }
bool chooses_activations(const Config& c) { return !c.train.activations; }
bool has_lora(const Config& c) { return c.lora.rank > 0; }
bool has_qat(const Config& c) { return c.qat.format != nullptr; }
// Muon leaves some parameters to AdamW.
bool takes_option(const Config& c, std::string_view option) {
  const bool is_muon = c.train.optimizer == OptimizerKind::muon;
  return optim::describe(is_muon ? OptimizerKind::adamw : c.train.optimizer).takes(option);
}
bool takes_moments(const Config& c) { return takes_option(c, "moments"); }
bool takes_betas(const Config& c) { return takes_option(c, "betas"); }
bool is_dpo(const Config& c) { return c.objective.kind == Objective::dpo; }
bool starts_anew(const Config& c) { return c.model.init_from.empty(); }

constexpr Conditional conditionals[] = {
    {"preset", starts_anew, "with --init-from"},
    {"rope_theta", is_llama, "without --model llama"},
    {"beta", is_dpo, "without --objective dpo"},
    {"label_smoothing", is_dpo, "without --objective dpo"},
    {"recipe", has_recipe, "without --precision fp8"},
    {"scale_init", is_fp16, "without --precision fp16"},
    {"scale_growth_interval", is_fp16, "without --precision fp16"},
    {"alpha", has_lora, "without --lora-rank"},
    {"targets", has_lora, "without --lora-rank"},
    {"head", has_qat, "without --qat"},
    {"exclude", has_qat, "without --qat"},
    {"moments", takes_moments, "with --optimizer adafactor"},
    {"beta1", takes_betas, "with --optimizer adafactor"},
    {"beta2", takes_betas, "with --optimizer adafactor"},
    {"memory", chooses_activations, "with --activations"},
    {"graph", is_on_gpu, "without a GPU"},
    {"nondeterministic", is_on_gpu, "without a GPU"},
};

// Fields of recipes that the models or the other fields leave without an effect.
void add_recipes(std::span<const Config> configs, std::vector<std::string>& result) {
  const auto all = [configs](auto is_idle) {
    return std::all_of(configs.begin(), configs.end(), is_idle);
  };
  if (all([](const Config& c) {
        return has_recipe(c) && c.precision.recipe.tensors[amp::Role::hidden] &&
               !(has_swiglu(c) && c.precision.recipe.matmuls.all());
      }))
    result.push_back("--recipe: hidden has no effect without SwiGLU and all three matmuls");
  if (all([](const Config& c) {
        return has_recipe(c) && c.precision.recipe.tensors[amp::Role::head_input] &&
               !c.precision.recipe.matmuls.all();
      }))
    result.push_back("--recipe: head has no effect without all three matmuls");
  if (all([](const Config& c) {
        return has_recipe(c) && c.precision.recipe.has_head() && is_dpo(c);
      }))
    result.push_back("--recipe: head has no effect with --objective dpo");
}

// Ids that never occur cost memory and time in the embedding and the head.
void add_vocabulary(const Config& config, std::vector<std::string>& result) {
  constexpr int64_t too_many = 2;  // times the ids that occur
  const bool by_bytes =
      config.data.tokenizer == data::byte_tokenizer && !data::are_token_files(config.data.source);
  if (!by_bytes || config.model.vocab < too_many * data::byte_vocabulary) return;
  result.push_back(
      fmt::format("the model has {} token ids, but its text is read by bytes, of which there are "
                  "{}; give --tokenizer a file or folder, or --vocab {}",
                  grouped(config.model.vocab), data::byte_vocabulary, data::byte_vocabulary));
}

// What was passed over in the run to start from.
void add_initial_model(const Config& config, std::vector<std::string>& result) {
  if (config.model.init_from.empty()) return;
  try {
    for (std::string& note : io::choose_model(config.model.init_from, "--init-from").notes)
      result.push_back(std::move(note));
  } catch (const Error&) {  // a resumed run may do without it; others report what is wrong
  }
}

}  // namespace

std::vector<std::string> without_effect(std::span<const Config> configs) {
  const Config defaults;
  std::vector<std::string> result;
  for (const Conditional& one : conditionals) {
    const auto key = std::find_if(keys().begin(), keys().end(),
                                  [&one](const Key& k) { return k.name == one.key; });
    const auto is_idle = [&](const Config& config) {
      return !one.has_effect(config) && value_text(*key, config) != value_text(*key, defaults);
    };
    if (std::all_of(configs.begin(), configs.end(), is_idle))
      result.push_back(fmt::format("{} has no effect {}", option_name(*key), one.condition));
  }
  add_recipes(configs, result);
  return result;
}

std::vector<std::string> warnings(const Config& config) {
  std::vector<std::string> result = without_effect({&config, 1});
  add_vocabulary(config, result);
  add_initial_model(config, result);
  const std::string& metrics = config.run.metrics_file;
  if (!metrics.empty() && !metrics.ends_with(".prom"))
    result.push_back("--metrics-file " + metrics +
                     ": node exporter reads only names that end in .prom");
  return result;
}

}  // namespace binade::train
