#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/data/tokenizer.h"
#include "binade/formats/weights/weight_format.h"
#include "binade/io/path.h"
#include "binade/nn/activations.h"
#include "binade/train/config/choices.h"
#include "binade/train/config/memory_budget.h"
#include "binade/train/config/overrides.h"

namespace binade::train {

// The settings of a run by section of its TOML file. A member has its key's name, but where that
// would repeat the section's: data.source, model.family, objective.kind, precision.matmul,
// precision.automatic and precision.plan are the keys data, model, objective, precision,
// auto_precision and precision_plan.
struct DataSettings {
  std::string source = "builtin";
  std::string tokenizer = "bytes";
  double validation = 0.05;
  std::optional<binade::data::ChatFormat> chat;  // none: that of the tokenizer's folder
  bool pack = false;

  bool operator==(const DataSettings&) const = default;
};

struct ModelSettings {
  Preset preset = Preset::tiny;
  std::string init_from;
  std::string architecture;  // a config.json; empty: as `family` has it
  ModelFamily family = ModelFamily::llama;
  int64_t layers = 4, width = 128, heads = 4, kv_heads = 0, hidden = 0, context = 256,
          vocab = binade::data::byte_vocabulary;
  std::optional<bool> tied_head;  // none: as the family has it
  double norm_eps = 1e-5, rope_theta = 10000;

  bool operator==(const ModelSettings&) const = default;
};

struct ObjectiveSettings {
  Objective kind = Objective::next_token;
  double beta = 0.1, label_smoothing = 0;  // of dpo

  bool has_pairs() const { return kind == Objective::dpo; }
  // Sequences of a micro-batch with that many examples.
  int64_t sequences(int64_t batch) const { return has_pairs() ? 2 * batch : batch; }
  bool operator==(const ObjectiveSettings&) const = default;
};

struct PrecisionSettings {
  Precision matmul = Precision::bf16;
  ParameterStorage params = ParameterStorage::autocast;
  std::optional<DType> residual;  // none: as the embedding gives it
  DType moments = DType::f32, gradients = DType::f32;
  amp::Recipe recipe = amp::recipes::delayed();  // of precision fp8
  bool automatic = false;
  std::string plan;
  double scale_init = 65536;
  int64_t scale_growth_interval = 2000;
  PrecisionOverrides overrides;  // [[precision.override]], in files only

  bool operator==(const PrecisionSettings&) const = default;
};

struct TrainSettings {
  std::optional<Device> device;  // none: a GPU if there is one
  int64_t steps = 1600, batch = 4, accumulate = 1;
  double epochs = 0;  // that steps was computed from; 0: steps was given. Not saved
  OptimizerKind optimizer = OptimizerKind::adamw;
  double lr = 3e-3;
  int64_t warmup = -1;
  optim::ScheduleKind schedule = optim::ScheduleKind::cosine;
  double weight_decay = 0.1, beta1 = 0.9, beta2 = 0.95, clip = 1;
  double dropout = 0;
  std::vector<std::string> freeze;  // patterns of parameters' names
  MemoryBudget memory;
  std::optional<nn::Activations> activations;  // none: the most that fit the memory
  GraphMode graph = GraphMode::automatic;
  bool nondeterministic = false;
  int64_t seed = 0, threads = 0;

  bool operator==(const TrainSettings&) const = default;
};

// What the frozen weights of the blocks' linear layers are in memory: values of the type that
// `params` says, a GGUF file's own blocks, or blocks of a format.
struct BaseFormat {
  // automatic: chosen when settings are resolved, which is what they are without the key.
  enum class Kind : uint8_t { automatic, none, file, blocks };

  Kind kind = Kind::none;
  const binade::formats::BlockFormat* format = nullptr;  // of blocks

  bool in_blocks() const { return kind == Kind::file || kind == Kind::blocks; }
  bool operator==(const BaseFormat&) const = default;
};

struct LoraSettings {
  int64_t rank = 0;  // 0: all weights are trained
  double alpha = 16, dropout = 0;
  std::vector<std::string> targets = {"all-linear"};
  std::string adapter;
  BaseFormat base = BaseFormat();

  bool operator==(const LoraSettings&) const = default;
};

struct QatSettings {
  const binade::formats::WeightFormat* format = nullptr;  // none: weights are not rounded
  bool head = false;
  std::vector<std::string> exclude;

  bool operator==(const QatSettings&) const = default;
};

struct RanksSettings {
  int64_t stage = 2;
  DType reduce_dtype = DType::f32;
  ranks::ReduceOrder order = ranks::ReduceOrder::fixed;
  double timeout = 600;  // seconds
  bool weight_shards = false;

  bool operator==(const RanksSettings&) const = default;
};

struct RunSettings {
  std::string out;
  int64_t eval_every = 200, eval_batches = 8, log_every = 50, checkpoint_every = 400, keep = 2,
          sample = 400, layer_stats = 100, patience = 0, hash_every = 100;
  std::vector<std::string> layer_stats_modules;  // patterns; empty: all linear layers
  bool keep_best = false;
  bool resume = false, start_over = false, dry_run = false;
  std::vector<std::string> allow_changes;  // names that differ from the checkpoint: resume_check.h
  double time_limit = 0;                   // seconds; 0: none
  double audit = 0;                        // share of the work that is computed twice
  bool audit_continue = false;             // after a mismatch
  std::string verify;                      // a run whose hashes this one must have; empty: none
  std::string metrics_file;                // for Prometheus; empty: none

  bool operator==(const RunSettings&) const = default;
};

// Everything that distinguishes one run from another. The defaults are those of `binade train`
// without arguments.
struct Config {
  DataSettings data;
  ModelSettings model;
  ObjectiveSettings objective = ObjectiveSettings();
  PrecisionSettings precision;
  TrainSettings train;
  LoraSettings lora = LoraSettings();
  QatSettings qat = QatSettings();
  RanksSettings ranks;
  RunSettings run;

  bool operator==(const Config&) const = default;
};

// Settings by source. Later ones override earlier ones: the defaults, the preset, a command's own
// defaults, the TOML file, the command line.
struct Sources {
  using Options = std::vector<std::pair<std::string, std::string>>;  // name without dashes, text

  io::Path file;  // empty: none
  Options options;
  Options defaults = {};
};

// What resolve() begins with: defaults, some of which say that the value is still to be chosen.
Config unresolved();

// The complete configuration, checked: fails naming key, expected and found. Values that stand for
// a default (warmup -1, kv_heads 0, hidden 0, device auto) are replaced by that default.
Config resolve(const Sources& sources);
// The same from TOML text; `name` is the file in messages.
Config resolve_text(std::string_view toml, const std::string& name);

// The values in TOML text that to_toml() wrote, in this or an earlier version. Opens no file and
// completes nothing: what the text lacks is as in Config().
Config saved_values(std::string_view toml, const std::string& name);

// The configuration as a TOML file that resolves to itself.
std::string to_toml(const Config& config);

}  // namespace binade::train
