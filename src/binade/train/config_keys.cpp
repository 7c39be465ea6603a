#include <fmt/format.h>

#include <algorithm>

#include "binade/train/config.h"

// The table of keys.
namespace binade::train {
namespace {

constexpr double most = 1e9;

const std::vector<Key>& table() {
  using C = Config;
  static const std::vector<Key> keys = {
      {"data", "data", &C::data,
       "Text to learn from: a file, a folder, a token file (.bin) or a folder of them, or builtin "
       "(Binade's own sources)"},
      {"data", "tokenizer", &C::tokenizer,
       "How text becomes tokens: bytes, or a SentencePiece model (binade tokenize train); vocab is "
       "then by default its size"},
      {"data",
       "validation",
       &C::validation,
       "Share of the tokens kept for validation",
       {},
       1e-6,
       0.9},
      {"model",
       "preset",
       &C::preset,
       "A model's sizes at once; keys given beside it win",
       {"tiny", "gpt2-124m", "gpt2-350m", "gpt2-1.5b", "llama-1.3b"}},
      {"model", "model", &C::model, "Family of the model", {"gpt2", "llama"}},
      {"model", "layers", &C::layers, "Transformer blocks", {}, 1, 1024},
      {"model", "width", &C::width, "Width of the residual stream", {}, 1, 65536},
      {"model", "heads", &C::heads, "Attention heads; divides width", {}, 1, 1024},
      {"model",
       "kv_heads",
       &C::kv_heads,
       "Key and value heads (llama); 0: as many as heads",
       {},
       0,
       1024},
      {"model",
       "hidden",
       &C::hidden,
       "Width inside the MLP; 0: 4 x width (gpt2), 8/3 x width (llama)",
       {},
       0,
       1048576},
      {"model", "context", &C::context, "Tokens per sequence", {}, 1, 1048576},
      {"model", "vocab", &C::vocab, "Token ids the model knows", {}, 1, 1048576},
      {"precision",
       "precision",
       &C::precision,
       "Type the products run in",
       {"fp32", "tf32", "bf16", "fp16", "fp8"}},
      {"precision",
       "params",
       &C::params,
       "autocast: f32 parameters, cast per step; masters: 16-bit parameters, f32 masters in the "
       "optimizer",
       {"autocast", "masters"}},
      {"precision",
       "residual",
       &C::residual,
       "Type of the residual stream; auto: as the embedding gives it",
       {"auto", "f32", "bf16", "f16"}},
      {"precision", "moments", &C::moments, "Type of Adam's moments", {"f32", "bf16"}},
      {"precision",
       "fp8_scaling",
       &C::fp8_scaling,
       "How FP8 scales are found",
       {"delayed", "current", "row", "block", "mx"}},
      {"precision",
       "fp8_format",
       &C::fp8_format,
       "hybrid: e4m3 forward, e5m2 for gradients; e4m3: everywhere",
       {"hybrid", "e4m3"}},
      {"precision",
       "fp8_history",
       &C::fp8_history,
       "Steps of amax history (delayed)",
       {},
       1,
       65536},
      {"precision",
       "fp8_margin",
       &C::fp8_margin,
       "Binades kept free above the amax (delayed)",
       {},
       -64,
       64},
      {"precision",
       "fp8_skip_first",
       &C::fp8_skip_first,
       "First blocks left out of FP8",
       {},
       0,
       1024},
      {"precision", "fp8_skip_last", &C::fp8_skip_last, "Last blocks left out of FP8", {}, 0, 1024},
      {"precision",
       "scale_init",
       &C::scale_init,
       "Loss scale to start with (fp16)",
       {},
       0x1p-64,
       0x1p64},
      {"precision",
       "scale_growth_interval",
       &C::scale_growth_interval,
       "Steps without overflow until the loss scale doubles (fp16)",
       {},
       1,
       most},
      {"train", "device", &C::device, "Where to train", {"auto", "cpu"}},
      {"train", "steps", &C::steps, "Optimizer steps in all", {}, 1, most},
      {"train", "batch", &C::batch, "Sequences per micro-batch", {}, 1, 1048576},
      {"train", "accumulate", &C::accumulate, "Micro-batches per step", {}, 1, 1048576},
      {"train", "lr", &C::lr, "Highest learning rate", {}, 0, 100},
      {"train",
       "warmup",
       &C::warmup,
       "Steps of rising learning rate; -1: a twentieth of steps",
       {},
       -1,
       most},
      {"train",
       "schedule",
       &C::schedule,
       "Learning rate after warmup",
       {"constant", "linear", "cosine", "cooldown"}},
      {"train", "weight_decay", &C::weight_decay, "Decoupled decay of matrices", {}, 0, 100},
      {"train", "beta1", &C::beta1, "Adam's decay of the first moment", {}, 0, 0.9999999},
      {"train", "beta2", &C::beta2, "Adam's decay of the second moment", {}, 0, 0.9999999},
      {"train", "clip", &C::clip, "Largest norm of the gradient; 0: no limit", {}, 0, most},
      {"train", "recompute", &C::recompute,
       "Run blocks again in backward instead of keeping their activations"},
      {"train", "seed", &C::seed, "Of starting weights and of the order of data", {}, 0, 9e15},
      {"train",
       "threads",
       &C::threads,
       "CPU threads; 0: all. Results do not depend on it",
       {},
       0,
       1024},
      {"run", "out", &C::out, "Folder of the run; empty: the next free runs/N"},
      {"run",
       "eval_every",
       &C::eval_every,
       "Steps between validations; 0: at the end only",
       {},
       0,
       most},
      {"run", "eval_batches", &C::eval_batches, "Batches per validation", {}, 1, 1048576},
      {"run", "log_every", &C::log_every, "Steps between lines of the log", {}, 1, most},
      {"run",
       "checkpoint_every",
       &C::checkpoint_every,
       "Steps between checkpoints; 0: at the end only",
       {},
       0,
       most},
      {"run", "keep", &C::keep, "Checkpoints kept, newest first", {}, 1, 1048576},
      {"run", "sample", &C::sample, "Tokens generated at the end", {}, 0, 1048576},
      {"run", "resume", &C::resume, "Go on from the newest checkpoint in --out", {}, 0, 0, false},
      {"run",
       "dry_run",
       &C::dry_run,
       "Print the configuration and the model's size, train nothing",
       {},
       0,
       0,
       false},
  };
  return keys;
}

}  // namespace

std::span<const Key> keys() { return table(); }

std::string option_name(const Key& key) {
  std::string name = "--" + std::string(key.name);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string value_name(const Key& key) {
  if (!key.choices.empty()) return fmt::format("{}", fmt::join(key.choices, "|"));
  constexpr const char* names[] = {"", "N", "X", "TEXT"};
  return names[key.field.index()];
}

}  // namespace binade::train
