#include "binade/train/config/presets.h"

#include <fmt/format.h>

#include <algorithm>

#include "binade/base/division.h"
#include "binade/base/error.h"
#include "binade/data/mixture.h"
#include "binade/data/tokenizer.h"
#include "binade/io/huggingface.h"
#include "binade/io/lora.h"
#include "binade/io/model_folder.h"
#include "binade/train/config/component_options.h"

namespace binade::train {
namespace {

constexpr int64_t gpt2_vocabulary = 50257, llama_vocabulary = 32000;

struct PresetValues {
  Preset preset;
  ModelFamily model;
  int64_t layers, width, heads, hidden, context, vocab;
  int64_t batch, steps;
  double lr;
};

// Learning rates of the large models are those published for their sizes (GPT-3, table 2.1), that
// of the small one nanoGPT's for characters. The tiny one's are for a first run of less than a
// minute on two cores.
constexpr PresetValues presets[] = {
    {Preset::tiny, ModelFamily::llama, 4, 128, 4, 0, 256, data::byte_vocabulary, 4, 1600, 3e-3},
    {Preset::small, ModelFamily::gpt2, 4, 256, 4, 0, 256, data::byte_vocabulary, 8, 3000, 1e-3},
    {Preset::gpt2_124m, ModelFamily::gpt2, 12, 768, 12, 0, 1024, gpt2_vocabulary, 8, 20000, 6e-4},
    {Preset::gpt2_350m, ModelFamily::gpt2, 24, 1024, 16, 0, 1024, gpt2_vocabulary, 8, 20000, 3e-4},
    {Preset::gpt2_1_5b, ModelFamily::gpt2, 48, 1600, 25, 0, 1024, gpt2_vocabulary, 8, 20000, 2e-4},
    {Preset::llama_1_3b, ModelFamily::llama, 24, 2048, 16, 5632, 2048, llama_vocabulary, 8, 20000,
     2e-4},
};

// Training goes on where another run has ended, so its steps are small and few: fine-tuning uses
// rates of 2e-5 to 5e-5.
constexpr double fine_tuning_lr = 3e-5;
// Adapters start at zero and are few: their usual rates are ten times as large (QLoRA's is 2e-4).
constexpr double lora_lr = 2e-4;
constexpr int64_t fine_tuning_steps = 500;

// A tenth of a run, but no more than the 2000 steps that large runs take.
constexpr int64_t max_warmup = 2000;
int64_t default_warmup(int64_t steps) { return std::min(steps / 10, max_warmup); }

void require(bool good, std::string key, std::string expected, std::string found,
             std::string hint = {}) {
  if (!good)
    fail("config", {.argument = std::move(key),
                    .expected = std::move(expected),
                    .found = std::move(found),
                    .hint = std::move(hint)});
}

void check_model(const Config& c) {
  if (!c.architecture.empty()) return;  // its own checks apply
  const bool llama = c.model == ModelFamily::llama;
  require(c.width % c.heads == 0, "[model] heads",
          fmt::format("a divisor of the width {}", c.width), fmt::format("{}", c.heads));
  require(c.heads % c.kv_heads == 0, "[model] kv_heads",
          fmt::format("a divisor of heads, {}", c.heads), fmt::format("{}", c.kv_heads));
  require(llama || c.kv_heads == c.heads, "[model] kv_heads", "as many as heads in a gpt2",
          fmt::format("{}", c.kv_heads), "use --model llama for grouped heads");
  require(!llama || c.width / c.heads % 2 == 0, "[model] heads",
          "an even width per head for rotary positions", fmt::format("{}", c.width / c.heads));
}

// Takes the vocabulary of a tokenizer's file unless it is given, and checks that it suffices.
void complete_vocab(Config& c, bool given) {
  const bool token_file = data::are_token_files(c.data),
             bytes = c.tokenizer == data::byte_tokenizer;
  if (bytes && token_file) return;
  const int64_t ids = data::open_tokenizer(c.tokenizer)->vocab();
  if (!bytes && !given) c.vocab = ids;
  require(c.vocab >= ids, "[model] vocab",
          fmt::format("at least {} for the tokenizer '{}'", ids, c.tokenizer),
          fmt::format("{}", c.vocab));
  const bool byte_text = bytes && !token_file;
  require(c.init_from.empty() || !byte_text || c.vocab == data::byte_vocabulary, "--data",
          fmt::format("a token file (.bin) of the {} ids that {} knows", c.vocab, c.init_from),
          fmt::format("{} by bytes, {} ids", c.data, data::byte_vocabulary),
          "make it with the model's own tokenizer, or start from a model of bytes");
}

void check_precision(const Config& c) {
  const bool low = uses_autocast(c.precision);
  require(low || c.params == ParameterStorage::autocast, "[precision] params",
          fmt::format("'autocast' with precision {}", name(c.precision)),
          fmt::format("'{}'", name(c.params)), "masters go with bf16, fp16 and fp8");
  require(c.params != ParameterStorage::split || c.precision != Precision::fp16,
          "[precision] params", "'autocast' or 'masters' with precision fp16", "'split'",
          "the upper bits of an f32 number are a bf16 number, not an f16 one");
  const bool in_bf16 = c.precision == Precision::bf16 || c.precision == Precision::quantized;
  require(c.gradients == DType::f32 || (in_bf16 && c.params != ParameterStorage::autocast),
          "[precision] gradients",
          fmt::format("'f32' with precision {} and params {}", name(c.precision), name(c.params)),
          "'bf16'", "bf16 gradients go with bf16 parameters: params 'masters' or 'split'");
  require(c.gradients == DType::f32 || c.accumulate == 1, "[precision] gradients",
          "'f32' with accumulate above 1", "'bf16'",
          "sums of micro-batches' gradients would be rounded to bf16, too");
  require(low || c.residual.value_or(DType::f32) == DType::f32, "[precision] residual",
          fmt::format("'auto' or 'f32' with precision {}", name(c.precision)),
          fmt::format("'{}'", name_in(residual_names, c.residual)));
  require(c.precision == Precision::quantized || (!c.auto_precision && c.precision_plan.empty()),
          "[precision] auto_precision, precision_plan", "precision 'fp8' beside them",
          fmt::format("'{}'", name(c.precision)));
  require(c.recipe.skip_first + c.recipe.skip_last <= c.layers,
          "[precision] recipe: skip_first, skip_last",
          fmt::format("together at most the {} layers", c.layers),
          fmt::format("{}", c.recipe.skip_first + c.recipe.skip_last));
}

void check_dist(const Config& c) {
  require(c.order == ranks::ReduceOrder::fixed || c.reduce_dtype == DType::f32, "[ranks] order",
          "'fixed' with a 16-bit reduce_dtype", "'any'");
}

void check_lora(const Config& c) {
  if (c.lora_rank == 0) {
    require(c.lora_adapter.empty(), "[lora] adapter", "a rank above 0 beside it", "rank 0");
    return;
  }
  require(!c.init_from.empty(), "[lora] rank", "--init-from with the model to adapt", "none");
  require(!c.lora_targets.empty(), "[lora] targets", "at least one linear layer", "none");
  require(c.freeze.empty(), "[train] freeze",
          "no patterns beside [lora], which freezes all weights",
          fmt::format("{}", c.freeze.size()));
}

}  // namespace

void apply_preset(Config& config) {
  for (const PresetValues& values : presets) {
    if (values.preset != config.preset) continue;
    config.model = values.model;
    config.layers = values.layers;
    config.width = values.width;
    config.heads = values.heads;
    config.kv_heads = 0;
    config.hidden = values.hidden;
    config.context = values.context;
    config.vocab = values.vocab;
    config.batch = values.batch;
    config.steps = values.steps;
    config.lr = values.lr;
  }
}

void apply_fine_tuning(Config& config) {
  config.steps = fine_tuning_steps;
  config.lr = config.lora_rank > 0 ? lora_lr : fine_tuning_lr;
}

void apply_init_from(Config& config) {
  const std::filesystem::path folder = io::model_folder(config.init_from, "--init-from");
  // No program reads an adapter of an adapter.
  require(config.lora_rank == 0 || !io::is_adapter(folder), "--init-from",
          "a model with weights of its own to adapt",
          fmt::format("an adapter, {}", folder.string()),
          fmt::format("continue it with --lora-adapter {0}, or merge it first: binade export {0} "
                      "MERGED",
                      folder.string()));
  const nn::LanguageModelConfig model = io::read_config(io::config_file(folder));
  if (data::find_tokenizer(folder)) {
    config.tokenizer = folder.string();
  } else if (io::is_adapter(folder) && data::find_tokenizer(io::adapter_base(folder))) {
    config.tokenizer = io::adapter_base(folder).string();
  }
  config.architecture = io::config_json(model);
  config.model = model.norm == nn::NormKind::rms ? ModelFamily::llama : ModelFamily::gpt2;
  config.layers = model.layers;
  config.width = model.width;
  config.heads = model.heads;
  config.kv_heads = model.kv_heads == 0 ? model.heads : model.kv_heads;
  config.hidden = model.hidden;
  config.context = model.context;
  config.vocab = model.vocab;
  config.tied_head = model.tied_head;
  config.norm_eps = model.eps;
  config.rope_theta = model.rope_theta;
}

void apply_adapter(Config& config) {
  const io::AdapterConfig adapter = io::read_adapter_config(config.lora_adapter);
  require(
      adapter.scaled_alike, "[lora] adapter", "one whose updates are scaled by alpha / rank",
      "use_rslora or alpha_pattern",
      fmt::format("merge it and train a new one: binade export {} MERGED", config.lora_adapter));
  config.lora_rank = adapter.lora.rank;
  config.lora_alpha = adapter.lora.alpha;
  config.lora_dropout = adapter.lora.dropout;
  config.lora_targets = adapter.lora.targets;
  if (config.init_from.empty()) config.init_from = io::adapter_base(config.lora_adapter).string();
}

void choose_params(Config& config) {
  const bool in_bf16 =
      config.precision == Precision::bf16 || config.precision == Precision::quantized;
  if (config.lora_rank > 0 && in_bf16) config.params = ParameterStorage::masters;
}

Config with_precision(Config config, Precision precision) {
  config.precision = precision;
  if (!uses_autocast(precision)) {
    config.params = ParameterStorage::autocast;
    config.residual = {};
  }
  if (precision == Precision::fp16 && config.params == ParameterStorage::split)
    config.params = ParameterStorage::masters;
  if (!uses_autocast(precision) || precision == Precision::fp16) config.gradients = DType::f32;
  if (precision != Precision::quantized) {
    config.auto_precision = false;
    config.precision_plan.clear();
  }
  return config;
}

void complete(Config& config, bool vocab_given) {
  complete_vocab(config, vocab_given);
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  // Llama's MLP has three matrices and GPT-2's two, so two thirds of the width give the same size;
  // rounded up to a multiple of 64, which matmul kernels like.
  if (config.hidden == 0)
    config.hidden =
        config.model == ModelFamily::llama ? round_up(config.width * 8 / 3, 64) : 4 * config.width;
  config.device = device_of(config);
  if (config.warmup < 0) config.warmup = default_warmup(config.steps);
  require(config.warmup <= config.steps, "[train] warmup",
          fmt::format("at most the {} steps", config.steps), fmt::format("{}", config.warmup));
  require(!config.resume || !config.out.empty(), "--resume",
          "--out with the folder of the run to continue", "none");
  if (config.patience > 0) config.keep_best = true;
  check_model(config);
  check_precision(config);
  check_lora(config);
  check_dist(config);
}

}  // namespace binade::train
