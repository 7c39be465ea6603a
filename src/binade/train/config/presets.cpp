#include "binade/train/config/presets.h"

#include <fmt/format.h>

#include "binade/backend/gpu.h"
#include "binade/base/division.h"
#include "binade/base/error.h"
#include "binade/data/tokenizer.h"

namespace binade::train {
namespace {

struct Preset {
  std::string_view name, model;
  int64_t layers, width, heads, kv_heads, hidden, context, vocab;
};

constexpr Preset presets[] = {
    {"tiny", "gpt2", 4, 128, 4, 0, 0, 128, 256},
    {"small", "gpt2", 4, 256, 4, 0, 0, 256, 256},
    {"gpt2-124m", "gpt2", 12, 768, 12, 0, 0, 1024, 50257},
    {"gpt2-350m", "gpt2", 24, 1024, 16, 0, 0, 1024, 50257},
    {"gpt2-1.5b", "gpt2", 48, 1600, 25, 0, 0, 1024, 50257},
    {"llama-1.3b", "llama", 24, 2048, 16, 0, 5632, 2048, 32000},
};

void require(bool good, std::string key, std::string expected, std::string found,
             std::string hint = {}) {
  if (!good)
    fail("config", {.argument = std::move(key),
                    .expected = std::move(expected),
                    .found = std::move(found),
                    .hint = std::move(hint)});
}

void check_model(const Config& c) {
  require(c.width % c.heads == 0, "[model] heads",
          fmt::format("a divisor of the width {}", c.width), fmt::format("{}", c.heads));
  require(c.heads % c.kv_heads == 0, "[model] kv_heads",
          fmt::format("a divisor of heads, {}", c.heads), fmt::format("{}", c.kv_heads));
  require(c.model == "llama" || c.kv_heads == c.heads, "[model] kv_heads",
          "as many as heads in a gpt2", fmt::format("{}", c.kv_heads),
          "use --model llama for grouped heads");
  require(c.model != "llama" || c.width / c.heads % 2 == 0, "[model] heads",
          "an even width per head for rotary positions", fmt::format("{}", c.width / c.heads));
}

// A tokenizer's file says how many ids there are.
void complete_vocab(Config& c, bool given) {
  const bool token_file = c.data.ends_with(".bin");
  if (c.tokenizer == "bytes" && token_file) return;
  const int64_t ids = data::open_tokenizer(c.tokenizer)->vocab();
  if (c.tokenizer != "bytes" && !given) c.vocab = ids;
  require(c.vocab >= ids, "[model] vocab",
          fmt::format("at least {} for the tokenizer '{}'", ids, c.tokenizer),
          fmt::format("{}", c.vocab));
  require(c.init_from.empty() || token_file || c.tokenizer != "bytes" || c.vocab == 256, "--data",
          fmt::format("a token file (.bin) of the {} ids that {} knows", c.vocab, c.init_from),
          c.data + " by bytes, 256 ids",
          "make it with the model's own tokenizer, or start from a model of bytes");
}

void check_precision(const Config& c) {
  const bool low = c.precision == "bf16" || c.precision == "fp16" || c.precision == "fp8";
  require(low || c.params == "autocast", "[precision] params",
          fmt::format("'autocast' with precision {}", c.precision), "'masters'",
          "masters go with bf16, fp16 and fp8");
  require(low || c.residual == "auto" || c.residual == "f32", "[precision] residual",
          fmt::format("'auto' or 'f32' with precision {}", c.precision), "'" + c.residual + "'");
  require(c.precision == "fp8" || (!c.auto_precision && c.precision_plan.empty()),
          "[precision] auto_precision, precision_plan", "precision 'fp8' beside them",
          "'" + c.precision + "'");
  require(c.fp8_skip_first + c.fp8_skip_last <= c.layers,
          "[precision] fp8_skip_first, fp8_skip_last",
          fmt::format("together at most the {} layers", c.layers),
          fmt::format("{}", c.fp8_skip_first + c.fp8_skip_last));
}

}  // namespace

void apply_preset(Config& config) {
  for (const Preset& preset : presets) {
    if (preset.name != config.preset) continue;
    config.model = preset.model;
    config.layers = preset.layers;
    config.width = preset.width;
    config.heads = preset.heads;
    config.kv_heads = preset.kv_heads;
    config.hidden = preset.hidden;
    config.context = preset.context;
    config.vocab = preset.vocab;
  }
}

void complete(Config& config, bool vocab_given) {
  complete_vocab(config, vocab_given);
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  // Llama's MLP has three matrices where GPT-2's has two: two thirds of the width make them equal
  // in size.
  if (config.hidden == 0)
    config.hidden =
        config.model == "llama" ? round_up(config.width * 8 / 3, 64) : 4 * config.width;
  if (config.device == "auto") config.device = backend::gpus().empty() ? "cpu" : "cuda";
  if (config.warmup < 0) config.warmup = config.steps / 20;
  require(config.warmup <= config.steps, "[train] warmup",
          fmt::format("at most the {} steps", config.steps), fmt::format("{}", config.warmup));
  require(!config.resume || !config.out.empty(), "--resume",
          "--out with the folder of the run to go on with", "none");
  check_model(config);
  check_precision(config);
}

}  // namespace binade::train
