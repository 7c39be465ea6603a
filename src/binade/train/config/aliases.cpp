#include "binade/train/config/aliases.h"

#include <algorithm>
#include <utility>

namespace binade::train {
namespace {

// Names in nanoGPT, Hugging Face's Trainer, Megatron, llm.c and launchers of ranks.
constexpr std::pair<std::string_view, std::string_view> aliases[] = {
    {"activation_checkpointing", "activations"},
    {"batch_size", "batch"},
    {"block_size", "context"},
    {"checkpoint_dir", "out"},
    {"checkpoint_interval", "checkpoint_every"},
    {"clip_grad", "clip"},
    {"context_length", "context"},
    {"d_model", "width"},
    {"dataset", "data"},
    {"dim", "width"},
    {"epochs", "steps"},
    {"eval_interval", "eval_every"},
    {"eval_iters", "eval_batches"},
    {"eval_steps", "eval_every"},
    {"ffn_hidden_size", "hidden"},
    {"grad_accum", "accumulate"},
    {"grad_clip", "clip"},
    {"gradient_accumulation_steps", "accumulate"},
    {"gradient_checkpointing", "activations"},
    {"hidden_size", "width"},
    {"input", "data"},
    {"intermediate_size", "hidden"},
    {"iterations", "steps"},
    {"iters", "steps"},
    {"learning_rate", "lr"},
    {"length", "tokens"},
    {"log_interval", "log_every"},
    {"logging_steps", "log_every"},
    {"lora_r", "lora_rank"},
    {"lr_schedule", "schedule"},
    {"lr_scheduler", "schedule"},
    {"lr_scheduler_type", "schedule"},
    {"max_grad_norm", "clip"},
    {"max_iters", "steps"},
    {"max_length", "context"},
    {"max_new_tokens", "tokens"},
    {"max_seq_len", "context"},
    {"max_steps", "steps"},
    {"max_tokens", "tokens"},
    {"micro_batch_size", "batch"},
    {"n_embd", "width"},
    {"n_head", "heads"},
    {"n_kv_head", "kv_heads"},
    {"n_layer", "layers"},
    {"np", "ranks"},
    {"nproc", "ranks"},
    {"nproc_per_node", "ranks"},
    {"num_attention_heads", "heads"},
    {"num_epochs", "steps"},
    {"num_heads", "heads"},
    {"num_hidden_layers", "layers"},
    {"num_iterations", "steps"},
    {"num_key_value_heads", "kv_heads"},
    {"num_layers", "layers"},
    {"num_ranks", "ranks"},
    {"num_return_sequences", "count"},
    {"num_samples", "count"},
    {"num_threads", "threads"},
    {"num_train_epochs", "steps"},
    {"out_dir", "out"},
    {"output", "out"},
    {"output_dir", "out"},
    {"per_device_train_batch_size", "batch"},
    {"resume_from_checkpoint", "resume"},
    {"save_dir", "out"},
    {"save_every", "checkpoint_every"},
    {"save_interval", "checkpoint_every"},
    {"save_steps", "checkpoint_every"},
    {"seq_len", "context"},
    {"seq_length", "context"},
    {"sequence_length", "context"},
    {"train_data", "data"},
    {"vocab_size", "vocab"},
    {"warmup_iters", "warmup"},
    {"warmup_steps", "warmup"},
    {"wd", "weight_decay"},
};
static_assert(std::is_sorted(std::begin(aliases), std::end(aliases)));

}  // namespace

std::string_view own_name(std::string_view name) {
  const auto* const found = std::lower_bound(
      std::begin(aliases), std::end(aliases), name,
      [](const auto& alias, std::string_view given) { return alias.first < given; });
  return found != std::end(aliases) && found->first == name ? found->second : std::string_view();
}

}  // namespace binade::train
