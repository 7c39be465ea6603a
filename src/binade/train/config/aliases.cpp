#include "binade/train/config/aliases.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace binade::train {
namespace {

// Whether the values, too, mean what they mean here.
enum class Meaning : uint8_t { same, near };

struct Alias {
  std::string_view name, own;
  Meaning meaning = Meaning::same;
};

// Names in nanoGPT, Hugging Face's Trainer, Megatron, Lightning, llm.c and launchers of ranks.
constexpr Alias aliases[] = {
    {"accumulate_grad_batches", "accumulate"},
    {"activation_checkpointing", "activations", Meaning::near},
    {"adam_beta1", "beta1"},
    {"adam_beta2", "beta2"},
    {"amp", "precision", Meaning::near},
    {"base_model", "init_from", Meaning::near},
    {"batch_size", "batch"},
    {"bf16", "precision", Meaning::near},
    {"block_size", "context"},
    {"bs", "batch"},
    {"checkpoint_dir", "out", Meaning::near},
    {"checkpoint_interval", "checkpoint_every"},
    {"clip_grad", "clip"},
    {"compile", "graph", Meaning::near},
    {"context_length", "context"},
    {"ctx_len", "context"},
    {"d_model", "width"},
    {"data_path", "data"},
    {"dataset", "data"},
    {"dim", "width"},
    {"dtype", "precision", Meaning::near},
    {"early_stopping_patience", "patience", Meaning::near},
    {"epoch", "epochs"},
    {"eval_interval", "eval_every"},
    {"eval_iters", "eval_batches"},
    {"eval_split", "validation", Meaning::near},
    {"eval_steps", "eval_every"},
    {"ffn_hidden_size", "hidden"},
    {"fp16", "precision", Meaning::near},
    {"fp32", "precision", Meaning::near},
    {"fp8", "precision", Meaning::near},
    {"global_batch_size", "batch", Meaning::near},
    {"gpu", "device", Meaning::near},
    {"gpus", "ranks"},
    {"grad_accum", "accumulate"},
    {"grad_accum_steps", "accumulate"},
    {"grad_clip", "clip"},
    {"gradient_accumulation_steps", "accumulate"},
    {"gradient_checkpointing", "activations", Meaning::near},
    {"gradient_clip_val", "clip"},
    {"hidden_size", "width"},
    {"input", "data", Meaning::near},
    {"intermediate_size", "hidden"},
    {"iterations", "steps"},
    {"iters", "steps"},
    {"learning_rate", "lr"},
    {"length", "tokens", Meaning::near},
    {"log_interval", "log_every"},
    {"logging_steps", "log_every"},
    {"lora", "lora_rank", Meaning::near},
    {"lora_r", "lora_rank"},
    {"lr_schedule", "schedule"},
    {"lr_scheduler", "schedule"},
    {"lr_scheduler_type", "schedule"},
    {"lr_warmup_steps", "warmup"},
    {"max_epochs", "epochs"},
    {"max_grad_norm", "clip"},
    {"max_iters", "steps"},
    {"max_length", "context", Meaning::near},
    {"max_new_tokens", "tokens"},
    {"max_seq_len", "context"},
    {"max_steps", "steps"},
    {"max_time", "time_limit", Meaning::near},
    {"max_tokens", "tokens"},
    {"micro_batch_size", "batch"},
    {"mixed_precision", "precision", Meaning::near},
    {"model_name_or_path", "init_from", Meaning::near},
    {"n_ctx", "context"},
    {"n_embd", "width"},
    {"n_epochs", "epochs"},
    {"n_head", "heads"},
    {"n_heads", "heads"},
    {"n_kv_head", "kv_heads"},
    {"n_kv_heads", "kv_heads"},
    {"n_layer", "layers"},
    {"n_layers", "layers"},
    {"np", "ranks"},
    {"nproc", "ranks"},
    {"nproc_per_node", "ranks"},
    {"num_attention_heads", "heads"},
    {"num_epochs", "epochs"},
    {"num_gpus", "ranks"},
    {"num_heads", "heads"},
    {"num_hidden_layers", "layers"},
    {"num_iterations", "steps"},
    {"num_key_value_heads", "kv_heads"},
    {"num_layers", "layers"},
    {"num_ranks", "ranks"},
    {"num_return_sequences", "count"},
    {"num_samples", "count"},
    {"num_steps", "steps"},
    {"num_threads", "threads"},
    {"num_train_epochs", "epochs"},
    {"num_warmup_steps", "warmup"},
    {"optim", "optimizer"},
    {"out_dir", "out"},
    {"output", "out"},
    {"output_dir", "out"},
    {"per_device_train_batch_size", "batch"},
    {"pretrained_model", "init_from", Meaning::near},
    {"prometheus", "metrics_file", Meaning::near},
    {"quantize", "qat", Meaning::near},
    {"random_seed", "seed"},
    {"resume_from", "resume", Meaning::near},
    {"resume_from_checkpoint", "resume", Meaning::near},
    {"save_best", "keep_best", Meaning::near},
    {"save_dir", "out"},
    {"save_every", "checkpoint_every"},
    {"save_interval", "checkpoint_every"},
    {"save_steps", "checkpoint_every"},
    {"save_total_limit", "keep"},
    {"seq_len", "context"},
    {"seq_length", "context"},
    {"sequence_length", "context"},
    {"tf32", "precision", Meaning::near},
    {"top_logprobs", "logprobs"},
    {"total_steps", "steps"},
    {"train_batch_size", "batch", Meaning::near},
    {"train_data", "data"},
    {"train_file", "data"},
    {"train_steps", "steps"},
    {"val_split", "validation", Meaning::near},
    {"vocab_size", "vocab"},
    {"warmup_iters", "warmup"},
    {"warmup_ratio", "warmup", Meaning::near},
    {"warmup_steps", "warmup"},
    {"wd", "weight_decay"},
};
static_assert(std::is_sorted(std::begin(aliases), std::end(aliases),
                             [](const Alias& a, const Alias& b) { return a.name < b.name; }));

const Alias* find(std::string_view name) {
  const Alias* const found = std::lower_bound(
      std::begin(aliases), std::end(aliases), name,
      [](const Alias& alias, std::string_view given) { return alias.name < given; });
  return found != std::end(aliases) && found->name == name ? found : nullptr;
}

}  // namespace

std::string_view own_name(std::string_view name) {
  const Alias* found = find(name);
  return found != nullptr ? found->own : std::string_view();
}

std::string_view name_for(std::string_view name) {
  const Alias* found = find(name);
  return found != nullptr && found->meaning == Meaning::same ? found->own : std::string_view();
}

std::vector<std::string_view> other_names(std::string_view own) {
  std::vector<std::string_view> names;
  for (const Alias& alias : aliases) {
    if (alias.own == own && alias.meaning == Meaning::same) names.push_back(alias.name);
  }
  return names;
}

}  // namespace binade::train
