#include "binade/train/config/presets.h"

#include <fmt/format.h>

#include <algorithm>

#include "binade/base/division.h"
#include "binade/base/error.h"
#include "binade/data/mixture.h"
#include "binade/data/tokenizer.h"
#include "binade/io/gguf/file.h"
#include "binade/io/huggingface.h"
#include "binade/io/lora.h"
#include "binade/io/model_folder.h"
#include "binade/train/config/component_options.h"
#include "binade/train/config/epochs.h"

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
// Preferences move a model that answers well already, by gradients of whole answers.
constexpr double preference_lr = 1e-6, preference_lora_lr = 1e-5;
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
  if (!c.model.architecture.empty()) return;  // its own checks apply
  const bool llama = c.model.family == ModelFamily::llama;
  require(c.model.width % c.model.heads == 0, "[model] heads",
          fmt::format("a divisor of the width {}", c.model.width),
          fmt::format("{}", c.model.heads));
  require(c.model.heads % c.model.kv_heads == 0, "[model] kv_heads",
          fmt::format("a divisor of heads, {}", c.model.heads),
          fmt::format("{}", c.model.kv_heads));
  require(llama || c.model.kv_heads == c.model.heads, "[model] kv_heads",
          "as many as heads in a gpt2", fmt::format("{}", c.model.kv_heads),
          "use --model llama for grouped heads");
  require(!llama || c.model.width / c.model.heads % 2 == 0, "[model] heads",
          "an even width per head for rotary positions",
          fmt::format("{}", c.model.width / c.model.heads));
}

// Takes the vocabulary of a tokenizer's file unless it is given, and checks that it suffices.
void complete_vocab(Config& c, bool given) {
  const bool token_file = data::are_token_files(c.data.source),
             bytes = c.data.tokenizer == data::byte_tokenizer;
  if (bytes && token_file) return;
  const int64_t ids = data::open_tokenizer(c.data.tokenizer)->vocab();
  if (!bytes && !given) c.model.vocab = ids;
  require(c.model.vocab >= ids, "[model] vocab",
          fmt::format("at least {} for the tokenizer '{}'", ids, c.data.tokenizer),
          fmt::format("{}", c.model.vocab));
  const bool byte_text = bytes && !token_file;
  require(c.model.init_from.empty() || !byte_text || c.model.vocab == data::byte_vocabulary,
          "--data",
          fmt::format("a token file (.bin) of the {} ids that {} knows", c.model.vocab,
                      c.model.init_from),
          fmt::format("{} by bytes, {} ids", c.data.source, data::byte_vocabulary),
          "make it with the model's own tokenizer, or start from a model of bytes");
}

void check_objective(const Config& c) {
  if (!c.objective.has_pairs()) return;
  require(!c.model.init_from.empty(), "[objective] objective",
          "--init-from with the model to train beside 'dpo', which is also the reference", "none");
  require(!c.data.pack, "[data] pack",
          "no packing beside objective 'dpo': the two answers of a pair take a row each", "'true'",
          "leave --pack out");
}

void check_precision(const Config& c) {
  const bool low = uses_autocast(c.precision.matmul);
  require(low || c.precision.params == ParameterStorage::autocast, "[precision] params",
          fmt::format("'autocast' with precision {}", name(c.precision.matmul)),
          fmt::format("'{}'", name(c.precision.params)), "masters go with bf16, fp16 and fp8");
  require(c.precision.params != ParameterStorage::split || c.precision.matmul != Precision::fp16,
          "[precision] params", "'autocast' or 'masters' with precision fp16", "'split'",
          "the upper bits of an f32 number are a bf16 number, not an f16 one");
  const bool in_bf16 =
      c.precision.matmul == Precision::bf16 || c.precision.matmul == Precision::quantized;
  require(c.precision.gradients == DType::f32 ||
              (in_bf16 && c.precision.params != ParameterStorage::autocast),
          "[precision] gradients",
          fmt::format("'f32' with precision {} and params {}", name(c.precision.matmul),
                      name(c.precision.params)),
          "'bf16'", "bf16 gradients go with bf16 parameters: params 'masters' or 'split'");
  require(c.precision.gradients == DType::f32 || c.train.accumulate == 1, "[precision] gradients",
          "'f32' with accumulate above 1", "'bf16'",
          "sums of micro-batches' gradients would be rounded to bf16, too");
  require(low || c.precision.residual.value_or(DType::f32) == DType::f32, "[precision] residual",
          fmt::format("'auto' or 'f32' with precision {}", name(c.precision.matmul)),
          fmt::format("'{}'", name_in(residual_names, c.precision.residual)));
  require(c.precision.matmul == Precision::quantized ||
              (!c.precision.automatic && c.precision.plan.empty()),
          "[precision] auto_precision, precision_plan", "precision 'fp8' beside them",
          fmt::format("'{}'", name(c.precision.matmul)));
  require(c.precision.recipe.skip_first + c.precision.recipe.skip_last <= c.model.layers,
          "[precision] recipe: skip_first, skip_last",
          fmt::format("together at most the {} layers", c.model.layers),
          fmt::format("{}", c.precision.recipe.skip_first + c.precision.recipe.skip_last));
}

void check_ranks(const Config& c) {
  require(c.ranks.order == ranks::ReduceOrder::fixed || c.ranks.reduce_dtype == DType::f32,
          "[ranks] order", "'fixed' with a 16-bit reduce_dtype", "'any'");
}

void check_lora(const Config& c) {
  if (c.lora.rank == 0) {
    require(c.lora.adapter.empty(), "[lora] adapter", "a rank above 0 beside it", "rank 0");
    require(!c.lora.base.in_blocks(), "[lora] base",
            "--lora-rank beside it: weights in few bits are not trained, adapters over them are",
            "no adapters", "--lora-rank 16; to train the weights for a format, use --qat");
    return;
  }
  require(!c.model.init_from.empty(), "[lora] rank", "--init-from with the model to adapt", "none");
  require(!c.lora.targets.empty(), "[lora] targets", "at least one linear layer", "none");
  require(c.lora.base.kind != BaseFormat::Kind::file || io::gguf::is_gguf(c.model.init_from),
          "[lora] base", "a format, or --init-from with a GGUF file, whose blocks are kept",
          "'file'", "--lora-base nf4, q4_k or q8_0");
  require(
      !c.lora.base.in_blocks() || c.precision.matmul != Precision::quantized, "[lora] base",
      "precision bf16, fp16, tf32 or fp32 beside it", "'fp8'",
      "a recipe quantizes the weights by rules of its own; --lora-base none keeps them in bf16");
  require(c.train.freeze.empty(), "[train] freeze",
          "no patterns beside [lora], which freezes all weights",
          fmt::format("{}", c.train.freeze.size()));
}

void check_qat(const Config& c) {
  if (c.qat.format == nullptr) return;
  require(c.precision.matmul != Precision::quantized, "[qat] format",
          "precision bf16, fp16, tf32 or fp32 beside it", "'fp8'",
          "a recipe quantizes the weights by rules of its own");
  require(c.precision.params == ParameterStorage::autocast, "[qat] format",
          "params 'autocast' beside it: f32 weights, which the file is made from",
          fmt::format("'{}'", name(c.precision.params)));
  require(!c.lora.base.in_blocks(), "[qat] format",
          "--lora-base none beside it: what is rounded is the weight merged with its adapter",
          "a base in few bits");
  require(c.lora.rank == 0 || c.lora.dropout == 0, "[lora] dropout",
          "0 beside [qat]: what is rounded is the weight merged with its adapter",
          fmt::format("{}", c.lora.dropout));
  require(!c.qat.head || !model_config(c).tied_head, "[qat] head",
          "a model whose head has a weight of its own", "one that shares the token embedding's",
          "--tied-head false makes one");
}

// A GGUF file's blocks are kept, unless the settings need values in their place.
void choose_base(Config& c) {
  if (c.lora.base.kind != BaseFormat::Kind::automatic) return;
  const bool keeps = c.lora.rank > 0 && io::gguf::is_gguf(c.model.init_from) &&
                     c.qat.format == nullptr && c.precision.matmul != Precision::quantized;
  c.lora.base.kind = keeps ? BaseFormat::Kind::file : BaseFormat::Kind::none;
}

}  // namespace

void apply_preset(Config& config) {
  for (const PresetValues& values : presets) {
    if (values.preset != config.model.preset) continue;
    config.model.family = values.model;
    config.model.layers = values.layers;
    config.model.width = values.width;
    config.model.heads = values.heads;
    config.model.kv_heads = 0;
    config.model.hidden = values.hidden;
    config.model.context = values.context;
    config.model.vocab = values.vocab;
    config.train.batch = values.batch;
    config.train.steps = values.steps;
    config.train.lr = values.lr;
  }
}

void apply_fine_tuning(Config& config) {
  config.train.steps = fine_tuning_steps;
  const bool has_adapters = config.lora.rank > 0;
  if (config.objective.has_pairs()) {
    config.train.lr = has_adapters ? preference_lora_lr : preference_lr;
  } else {
    config.train.lr = has_adapters ? lora_lr : fine_tuning_lr;
  }
}

void apply_init_from(Config& config) {
  const std::filesystem::path folder = io::model_folder(config.model.init_from, "--init-from");
  // No program reads an adapter of an adapter.
  require(config.lora.rank == 0 || !io::is_adapter(folder), "--init-from",
          "a model with weights of its own to adapt",
          fmt::format("an adapter, {}", folder.string()),
          fmt::format("continue it with --lora-adapter {0}, or merge it first: binade export {0} "
                      "MERGED",
                      folder.string()));
  const nn::LanguageModelConfig model = io::read_config(io::config_file(folder));
  if (data::find_tokenizer(folder)) {
    config.data.tokenizer = folder.string();
  } else if (io::is_adapter(folder) && data::find_tokenizer(io::adapter_base(folder))) {
    config.data.tokenizer = io::adapter_base(folder).string();
  }
  config.model.architecture = io::config_json(model);
  config.model.family = model.norm == nn::NormKind::rms ? ModelFamily::llama : ModelFamily::gpt2;
  config.model.layers = model.layers;
  config.model.width = model.width;
  config.model.heads = model.heads;
  config.model.kv_heads = model.kv_heads == 0 ? model.heads : model.kv_heads;
  config.model.hidden = model.hidden;
  config.model.context = model.context;
  config.model.vocab = model.vocab;
  config.model.tied_head = model.tied_head;
  config.model.norm_eps = model.eps;
  config.model.rope_theta = model.rope_theta;
}

void apply_adapter(Config& config) {
  const io::AdapterConfig adapter = io::read_adapter_config(config.lora.adapter);
  require(
      adapter.scaled_alike, "[lora] adapter", "one whose updates are scaled by alpha / rank",
      "use_rslora or alpha_pattern",
      fmt::format("merge it and train a new one: binade export {} MERGED", config.lora.adapter));
  config.lora.rank = adapter.lora.rank;
  config.lora.alpha = adapter.lora.alpha;
  config.lora.dropout = adapter.lora.dropout;
  config.lora.targets = adapter.lora.targets;
  if (config.model.init_from.empty())
    config.model.init_from = io::adapter_base(config.lora.adapter).string();
}

void choose_params(Config& config) {
  const bool in_bf16 =
      config.precision.matmul == Precision::bf16 || config.precision.matmul == Precision::quantized;
  const bool rounds_f32 = config.qat.format != nullptr;
  if (config.lora.rank > 0 && in_bf16 && !rounds_f32)
    config.precision.params = ParameterStorage::masters;
}

Config with_precision(Config config, Precision precision) {
  config.precision.matmul = precision;
  if (!uses_autocast(precision)) {
    config.precision.params = ParameterStorage::autocast;
    config.precision.residual = {};
  }
  if (precision == Precision::fp16 && config.precision.params == ParameterStorage::split)
    config.precision.params = ParameterStorage::masters;
  if (!uses_autocast(precision) || precision == Precision::fp16)
    config.precision.gradients = DType::f32;
  if (precision != Precision::quantized) {
    config.precision.automatic = false;
    config.precision.plan.clear();
  }
  return config;
}

void complete(Config& config, bool vocab_given) {
  complete_vocab(config, vocab_given);
  if (config.model.kv_heads == 0) config.model.kv_heads = config.model.heads;
  // Llama's MLP has three matrices and GPT-2's two, so two thirds of the width give the same size;
  // rounded up to a multiple of 64, which matmul kernels like.
  if (config.model.hidden == 0)
    config.model.hidden = config.model.family == ModelFamily::llama
                              ? round_up(config.model.width * 8 / 3, 64)
                              : 4 * config.model.width;
  config.train.device = device_of(config);
  choose_base(config);
  check_model(config);
  if (config.train.epochs > 0) config.train.steps = steps_of_epochs(config);
  if (config.train.warmup < 0) config.train.warmup = default_warmup(config.train.steps);
  require(config.train.warmup <= config.train.steps, "[train] warmup",
          fmt::format("at most the {} steps", config.train.steps),
          fmt::format("{}", config.train.warmup));
  require(!config.run.resume || !config.run.out.empty(), "--resume",
          "--out with the folder of the run to continue", "none");
  if (config.run.patience > 0) config.run.keep_best = true;
  check_objective(config);
  check_precision(config);
  check_lora(config);
  check_qat(config);
  check_ranks(config);
}

}  // namespace binade::train
