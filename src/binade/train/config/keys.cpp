#include "binade/train/config/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "binade/formats/weights/base_format.h"

namespace binade::train {
namespace {

// Bounds that no run reaches; they keep a typing error from asking for the impossible.
constexpr double most = 1e9;
constexpr double most_of_a_size = 1 << 20;

// Each section has a type of its own, which leads to its place.
constexpr std::tuple sections = {&Config::data,      &Config::model, &Config::objective,
                                 &Config::precision, &Config::train, &Config::lora,
                                 &Config::qat,       &Config::ranks, &Config::run};

template <auto member>
struct Place;
template <class T, class Section, T Section::*member>
struct Place<member> {
  static constexpr auto section = std::get<Section Config::*>(sections);
  static const T& get(const Config& config) { return config.*section.*member; }
  static T& in(Config& config) { return config.*section.*member; }
  static constexpr Member<T> value = {get, in};
};
template <auto member>
constexpr auto at = Place<member>::value;

// A member whose values have names in a table of choices.h.
template <auto member, const auto& table>
constexpr Choice choice = {
    .names =
        [] {
          std::vector<std::string_view> names;
          for (const auto& [name, value] : table) names.push_back(name);
          return names;
        },
    .get = [](const Config& config) { return name_in(table, at<member>.get(config)); },
    .set =
        [](Config& config, std::string_view name) {
          const auto found = find_named(table, name);
          if (found) at<member>.in(config) = *found;
          return found.has_value();
        }};

constexpr Spelled activations = {
    .get = [](const Config& config) -> std::string {
      return config.train.activations ? nn::to_text(*config.train.activations) : "auto";
    },
    .set =
        [](Config& config, std::string_view text) {
          config.train.activations = nn::parse_activations(text);
          return config.train.activations || text == "auto";
        },
    .expected =
        "auto, keep, lean, recompute, a number of blocks to keep, or both: 'keep = 8, lean = 4'",
    .placeholder = "auto|keep|N|lean|recompute"};

constexpr Spelled memory = {
    .get = [](const Config& config) { return to_text(config.train.memory); },
    .set =
        [](Config& config, std::string_view text) {
          const auto budget = parse_budget(text);
          config.train.memory = budget.value_or(MemoryBudget{});
          return budget.has_value();
        },
    .expected = "auto, least, or a size with its unit, such as 16GB or 24GiB",
    .placeholder = "auto|SIZE|least",
    .likely =
        [](std::string_view text) {
          const std::string in_gb = std::string(text) + "GB";
          return parse_bytes(in_gb) ? in_gb : "";
        }};

constexpr Spelled weight_format = {
    .get = [](const Config& config) -> std::string {
      return std::string(config.qat.format == nullptr ? "none" : config.qat.format->name);
    },
    .set =
        [](Config& config, std::string_view text) {
          config.qat.format = formats::find_weight_format(text);
          return config.qat.format != nullptr || text == "none";
        },
    .expected = "none, q4_0, q8_0, mxfp4, int4-g128, nvfp4, fp8-block, q4_k or q6_k",
    .placeholder = "FORMAT"};

constexpr Named<BaseFormat::Kind> base_kinds[] = {{"auto", BaseFormat::Kind::automatic},
                                                  {"none", BaseFormat::Kind::none},
                                                  {"file", BaseFormat::Kind::file}};

constexpr Spelled base_format = {.get = [](const Config& config) -> std::string {
                                   const BaseFormat& base = config.lora.base;
                                   if (base.format != nullptr)
                                     return std::string(base.format->name);
                                   return std::string(name_in(base_kinds, base.kind));
                                 },
                                 .set =
                                     [](Config& config, std::string_view text) {
                                       BaseFormat& base = config.lora.base;
                                       const auto kind = find_named(base_kinds, text);
                                       const auto* format =
                                           kind ? nullptr : binade::formats::find_base_format(text);
                                       base = {kind.value_or(BaseFormat::Kind::blocks), format};
                                       return kind || format != nullptr;
                                     },
                                 .expected = "auto, none, file, q4_0, q4_k, q8_0, nf4 or fp8-block",
                                 .placeholder = "FORMAT"};

constexpr Key all_keys[] = {
    {"data", "data", Text{at<&DataSettings::source>},
     "Training text: a file (.txt, .jsonl, also .gz or .zst), a folder, a token file (.bin) or a "
     "folder of them, a .jsonl file of conversations, builtin (Binade's own sources), or several "
     "with weights: 3*books,1*code"},
    {"data", "tokenizer", Text{at<&DataSettings::tokenizer>},
     "bytes, or a tokenizer.json, a SentencePiece model (binade tokenize train makes both) or a "
     "folder with one, which sets vocab's default"},
    {"data", "validation", Real{at<&DataSettings::validation>, 1e-6, 0.9, "fraction"},
     "Fraction of the tokens, or of the examples, held out for validation"},
    {"data", "chat", choice<&DataSettings::chat, chat_names>,
     "How a .jsonl file's messages are written; auto: by the chat template in the tokenizer's "
     "folder"},
    {"data", "pack", Switch{at<&DataSettings::pack>},
     "Put several examples of a .jsonl file into a sequence, where they do not see one another"},
    {"model", "preset", choice<&ModelSettings::preset, preset_names>,
     "Model size with its batch, steps and learning rate; explicit keys override it"},
    {"model", "init_from", Text{at<&ModelSettings::init_from>},
     "Start from the weights of a Hugging Face folder or a run, which set the model's sizes; lr "
     "and steps then default to 3e-5 and 500"},
    {"model", "architecture", Text{at<&ModelSettings::architecture>},
     "Contents of a config.json whose family and options the model has; init_from sets it"},
    {"model", "model", choice<&ModelSettings::family, model_names>, "Model family"},
    {"model", "layers", Whole{at<&ModelSettings::layers>, 1, 1024}, "Transformer blocks"},
    {"model", "width", Whole{at<&ModelSettings::width>, 1, 65536}, "Width of the residual stream"},
    {"model", "heads", Whole{at<&ModelSettings::heads>, 1, 1024},
     "Attention heads; must divide width"},
    {"model", "kv_heads", Whole{at<&ModelSettings::kv_heads>, 0, 1024},
     "Key and value heads (llama); 0: as many as heads"},
    {"model", "hidden", Whole{at<&ModelSettings::hidden>, 0, most_of_a_size},
     "MLP width; 0: 4 x width (gpt2), 8/3 x width (llama)"},
    {"model", "context", Whole{at<&ModelSettings::context>, 1, most_of_a_size},
     "Tokens per sequence"},
    {"model", "vocab", Whole{at<&ModelSettings::vocab>, 1, most_of_a_size}, "Vocabulary size"},
    {"model", "tied_head", choice<&ModelSettings::tied_head, tied_head_names>,
     "Whether the head shares the token embedding; auto: in gpt2, not in llama"},
    {"model", "norm_eps", Real{at<&ModelSettings::norm_eps>, 1e-12, 1}, "Epsilon of the norms"},
    {"model", "rope_theta", Real{at<&ModelSettings::rope_theta>, 1, 1e12},
     "Base of rotary positions (llama)"},
    {"objective", "objective", choice<&ObjectiveSettings::kind, objective_names>,
     "What to minimize: next-token, the cross entropy; dpo, direct preference optimization on a "
     ".jsonl file of pairs (prompt, chosen, rejected), from the model of init_from"},
    {"objective", "beta", Real{at<&ObjectiveSettings::beta>, 1e-6, 1e3},
     "How strongly dpo holds the model to the reference, which is the model it starts from"},
    {"objective", "label_smoothing", Real{at<&ObjectiveSettings::label_smoothing>, 0, 0.49},
     "Probability that dpo assumes of a pair with its answers swapped"},
    {"precision", "precision", choice<&PrecisionSettings::matmul, precision_names>,
     "Matmul precision"},
    {"precision", "params", choice<&PrecisionSettings::params, parameter_names>,
     "autocast: f32 parameters, cast once per step; masters: 16-bit parameters, f32 master weights "
     "in the optimizer; split: bf16 parameters and the lower bits of f32 master weights"},
    {"precision", "residual", choice<&PrecisionSettings::residual, residual_names>,
     "Type of the residual stream; auto: that of the embedding's output"},
    {"precision", "moments", choice<&PrecisionSettings::moments, moments_names>,
     "Type of the optimizer's moments; 8bit is for adamw and muon"},
    {"precision", "gradients", choice<&PrecisionSettings::gradients, gradient_names>,
     "Type of the gradients of blocks' matrices with bf16 parameters; bf16: rounded once, after "
     "f32 sums"},
    {"precision", "recipe", RecipeText{at<&PrecisionSettings::recipe>},
     "How precision fp8 quantizes, and which layers: delayed, current, row, block, mx, mxfp8, "
     "mxfp6, "
     "mxfp4, nvfp4, nvfp4-plain or a file, and fields that differ: 'delayed, history = 1024, head "
     "= true'"},
    {"precision", "auto_precision", Switch{at<&PrecisionSettings::automatic>},
     "Move matmuls that the recipe harms to finer scales or bf16 and back, and write the plan of "
     "it"},
    {"precision", "precision_plan", Text{at<&PrecisionSettings::plan>},
     "Plan of an earlier run: its layers have that precision from the first step (fp8)"},
    {"precision", "scale_init", Real{at<&PrecisionSettings::scale_init>, 0x1p-64, 0x1p64},
     "Initial loss scale (fp16)"},
    {"precision", "scale_growth_interval",
     Whole{at<&PrecisionSettings::scale_growth_interval>, 1, most},
     "Steps without overflow until the loss scale doubles (fp16)"},
    {"train", "device", choice<&TrainSettings::device, device_names>,
     "Device to train on; auto: a GPU if there is one"},
    {"train", "steps", Whole{at<&TrainSettings::steps>, 1, most},
     "Optimizer steps in all; by preset or init_from"},
    {"train", "epochs", Real{at<&TrainSettings::epochs>, 1e-6, 1e6},
     "Steps as passes over the training data, such as 3 or 0.5; default: as steps says", false},
    {"train", "batch", Whole{at<&TrainSettings::batch>, 1, most_of_a_size},
     "Sequences per micro-batch; by preset"},
    {"train", "accumulate", Whole{at<&TrainSettings::accumulate>, 1, most_of_a_size},
     "Micro-batches per step"},
    {"train", "optimizer", choice<&TrainSettings::optimizer, optimizer_names>,
     "Optimizer; muon: of the blocks' matrices, adamw of the rest. Others on the CPU alone"},
    {"train", "lr", Real{at<&TrainSettings::lr>, 0, 100},
     "Peak learning rate; by preset or init_from"},
    {"train", "warmup", Whole{at<&TrainSettings::warmup>, -1, most},
     "Steps of linear warmup; -1: a tenth of steps, at most 2000"},
    {"train", "schedule", choice<&TrainSettings::schedule, schedule_names>,
     "Learning rate after warmup"},
    {"train", "weight_decay", Real{at<&TrainSettings::weight_decay>, 0, 100},
     "Decoupled decay of matrices"},
    {"train", "beta1", Real{at<&TrainSettings::beta1>, 0, 0.9999999},
     "Decay of Adam's first moment; Lion's beta1"},
    {"train", "beta2", Real{at<&TrainSettings::beta2>, 0, 0.9999999},
     "Decay of Adam's second moment; Lion's beta2"},
    {"train", "clip", Real{at<&TrainSettings::clip>, 0, most},
     "Maximum norm of the gradient; 0: no clipping"},
    {"train", "dropout", Real{at<&TrainSettings::dropout>, 0, 0.99, "fraction"},
     "Probability of zeroing an activation after the embedding, attention and the MLP"},
    {"train", "freeze", List{at<&TrainSettings::freeze>},
     "Parameters that are not trained, by name: a pattern with * and ?, or a module and all below "
     "it, such as embedding or blocks.0"},
    {"train", "memory", memory,
     "Memory of the device that the run may take; auto: what is free. Of arrangements with the "
     "same bits the fastest that fits is taken; least: the one that takes the least"},
    {"train", "activations", activations,
     "What blocks keep for the backward: everything, everything in N blocks while the others run "
     "again, or nothing; auto: as much as fits the memory. lean: what costs much to compute"},
    {"train", "graph", choice<&TrainSettings::graph, graph_names>,
     "Whether a GPU's steps are captured as a graph and replayed; auto: if launching kernels takes "
     "a good part of a step's time"},
    {"train", "nondeterministic", Switch{at<&TrainSettings::nondeterministic>},
     "Let a GPU without Binade's own kernel add up gradients of 16-bit attention in any order, "
     "which "
     "can be faster at long contexts; two runs then differ in their last bits"},
    {"train", "seed", Whole{at<&TrainSettings::seed>, 0, 9e15},
     "Seed of the initial weights and the data order"},
    {"train", "threads", Whole{at<&TrainSettings::threads>, 0, 1024},
     "CPU threads; 0: all. Results do not depend on it"},
    {"lora", "rank", Whole{at<&LoraSettings::rank>, 0, 65536},
     "Rank of low-rank adapters, which are trained instead of the weights; 0: none"},
    {"lora", "alpha", Real{at<&LoraSettings::alpha>, 1e-6, most},
     "Adapters' updates are scaled by alpha / rank"},
    {"lora", "dropout", Real{at<&LoraSettings::dropout>, 0, 0.99, "fraction"},
     "Dropout of the adapters' inputs"},
    {"lora", "targets", List{at<&LoraSettings::targets>},
     "Linear layers to adapt, by Hugging Face's names (q_proj, v_proj, ...); all-linear: all but "
     "the head"},
    {"lora", "adapter", Text{at<&LoraSettings::adapter>},
     "Start from the adapter in this folder (PEFT's files), which sets rank, alpha, targets and "
     "init_from's default"},
    {"lora", "base", base_format,
     "Keep the frozen linear layers in few bits in memory (QLoRA): q4_0, q4_k, q8_0, nf4, "
     "fp8-block; file: the blocks of the GGUF file of --init-from as they are; none; auto: file "
     "for a GGUF file"},
    {"qat", "format", weight_format,
     "Quantization-aware training: blocks' linear layers compute with the values that a file in "
     "this format will hold. q4_0, q8_0, mxfp4, q4_k, q6_k: llama.cpp; int4-g128, nvfp4, "
     "fp8-block: compressed-tensors"},
    {"qat", "head", Switch{at<&QatSettings::head>}, "Round the weight of an untied LM head, too"},
    {"qat", "exclude", List{at<&QatSettings::exclude>},
     "Linear layers that are not rounded, named as in --lora-targets"},
    {"ranks", "stage", Whole{at<&RanksSettings::stage>, 1, 3},
     "On many ranks: 1 shards master weights and moments; 2 releases gradients early, too; 3 also "
     "shards the blocks' weights. Results do not depend on it"},
    {"ranks", "reduce_dtype", choice<&RanksSettings::reduce_dtype, reduce_names>,
     "Type of micro-batches' gradients between ranks; they are summed in f32. A 16-bit type "
     "rounds each once, on one rank too"},
    {"ranks", "order", choice<&RanksSettings::order, reduce_order_names>,
     "Order in which ranks' gradients are added: fixed, for the same bits on any number of ranks, "
     "or any, the message library's own, which is not reproducible"},
    {"ranks", "timeout", Real{at<&RanksSettings::timeout>, 1, 1e9, "number of seconds"},
     "Seconds that a rank waits for another before the run ends and names it"},
    {"ranks", "weight_shards", Switch{at<&RanksSettings::weight_shards>},
     "Each rank writes a part (shard) of a checkpoint's weights, instead of rank 0 all of them; "
     "needs a file system that all ranks share"},
    {"run", "out", Text{at<&RunSettings::out>}, "Folder of the run; empty: the next free runs/N"},
    {"run", "eval_every", Whole{at<&RunSettings::eval_every>, 0, most},
     "Steps between validations; 0: at the end only"},
    {"run", "eval_batches", Whole{at<&RunSettings::eval_batches>, 1, most_of_a_size},
     "Batches per validation"},
    {"run", "log_every", Whole{at<&RunSettings::log_every>, 1, most},
     "Steps between lines of the log"},
    {"run", "checkpoint_every", Whole{at<&RunSettings::checkpoint_every>, 0, most},
     "Steps between checkpoints; 0: at the end only"},
    {"run", "keep", Whole{at<&RunSettings::keep>, 1, most_of_a_size},
     "How many of the newest checkpoints to keep"},
    {"run", "sample", Whole{at<&RunSettings::sample>, 0, most_of_a_size},
     "Tokens to generate at the end, after two lines at each validation; 0: none"},
    {"run", "layer_stats", Whole{at<&RunSettings::layer_stats>, 0, most},
     "Steps between per-layer statistics; 0: none"},
    {"run", "layer_stats_modules", List{at<&RunSettings::layer_stats_modules>},
     "Linear layers with statistics: patterns with * and ?, or modules and all below them, such as "
     "blocks.*.mlp; empty: all"},
    {"run", "keep_best", Switch{at<&RunSettings::keep_best>},
     "Write the model with the lowest validation loss to best/ in the run's folder"},
    {"run", "patience", Whole{at<&RunSettings::patience>, 0, most},
     "Stop after this many validations without a lower loss, and keep the best; 0: never"},
    {"run", "hash_every", Whole{at<&RunSettings::hash_every>, 0, most},
     "Steps between hashes of weights, moments, scales and data in the log; 0: none"},
    {"run", "audit", Real{at<&RunSettings::audit>, 0, 1, "fraction"},
     "Fraction of the work of steps that is computed twice, to find processors that err; 0: none"},
    {"run", "audit_continue", Switch{at<&RunSettings::audit_continue>},
     "Go on when an audit finds a difference, instead of stopping with exit code 1"},
    {"run", "resume", Switch{at<&RunSettings::resume>},
     "Continue from the newest checkpoint in --out", false},
    {"run", "start_over", Switch{at<&RunSettings::start_over>},
     "With --resume: train from step 0 if the run's checkpoints are gone", false},
    {"run", "allow_changes", List{at<&RunSettings::allow_changes>, "data"},
     "With --resume: continue although these differ from the checkpoint's: names of settings, such "
     "as batch,seed, or data (if none is named), tokenizer, arithmetic",
     false},
    {"run", "time_limit", Real{at<&RunSettings::time_limit>, 0, 1e9, "number of seconds"},
     "Seconds after which the run saves a checkpoint and stops (exit code 124); 0: none", false},
    {"run", "verify", Text{at<&RunSettings::verify>},
     "Compare with the hashes in the log of this run, and stop at the first that differs (exit "
     "code "
     "1)",
     false},
    {"run", "metrics_file", Text{at<&RunSettings::metrics_file>},
     "Text file with the newest numbers for Prometheus, of node exporter's textfile collector (a "
     "name ending in .prom); empty: none"},
    {"run", "dry_run", Switch{at<&RunSettings::dry_run>},
     "Print the configuration and its memory forecast, then stop", false},
};

}  // namespace

std::span<const Key> keys() { return all_keys; }

bool is_common(const Key& key) {
  // Of each section, what is for the few.
  constexpr std::pair<std::string_view, std::string_view> rare[] = {
      {"model", "architecture"},
      {"model", "tied_head"},
      {"model", "norm_eps"},
      {"model", "rope_theta"},
      {"objective", "label_smoothing"},
      {"precision", "residual"},
      {"precision", "gradients"},
      {"precision", "precision_plan"},
      {"precision", "scale_init"},
      {"precision", "scale_growth_interval"},
      {"train", "beta1"},
      {"train", "beta2"},
      {"train", "freeze"},
      {"train", "activations"},
      {"train", "graph"},
      {"train", "nondeterministic"},
      {"lora", "alpha"},
      {"lora", "dropout"},
      {"lora", "targets"},
      {"qat", "head"},
      {"qat", "exclude"},
      {"ranks", "reduce_dtype"},
      {"ranks", "order"},
      {"ranks", "timeout"},
      {"ranks", "weight_shards"},
      {"run", "eval_batches"},
      {"run", "log_every"},
      {"run", "keep"},
      {"run", "sample"},
      {"run", "layer_stats"},
      {"run", "layer_stats_modules"},
      {"run", "audit"},
      {"run", "audit_continue"},
      {"run", "start_over"},
      {"run", "allow_changes"}};
  return std::ranges::find(rare, std::pair(key.section, key.name)) == std::end(rare);
}

std::string option_name(const Key& key) {
  const bool is_qat = key.section == "qat";
  if (is_qat && key.name == "format") return "--qat";
  std::string name = (key.section == "lora" ? "--lora-"
                      : is_qat              ? "--qat-"
                                            : "--") +
                     std::string(key.name);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string value_name(const Key& key) {
  return std::visit(
      [](const auto& field) -> std::string {
        using T = std::decay_t<decltype(field)>;
        if constexpr (std::is_same_v<T, Choice>)
          return fmt::format("{}", fmt::join(field.names(), "|"));
        if constexpr (std::is_same_v<T, Spelled>) return std::string(field.placeholder);
        return std::is_same_v<T, Whole>        ? "N"
               : std::is_same_v<T, Real>       ? "X"
               : std::is_same_v<T, Text>       ? "TEXT"
               : std::is_same_v<T, List>       ? "A,B"
               : std::is_same_v<T, RecipeText> ? "NAME|FILE"
                                               : "";
      },
      key.field);
}

}  // namespace binade::train
