#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "binade/train/config/overrides.h"

namespace binade::train {

// Everything that tells one run from another. The defaults are the run of `binade train` alone.
struct Config {
  // [data]
  std::string data = "builtin";
  std::string tokenizer = "bytes";
  double validation = 0.05;
  // [model]
  std::string preset = "tiny";
  std::string init_from;
  std::string model = "gpt2";
  int64_t layers = 4, width = 128, heads = 4, kv_heads = 0, hidden = 0, context = 128, vocab = 256;
  std::string tied_head = "auto";
  double norm_eps = 1e-5, rope_theta = 10000;
  // [precision]
  std::string precision = "bf16";
  std::string params = "autocast";
  std::string residual = "auto";
  std::string moments = "f32";
  std::string fp8_scaling = "delayed";
  std::string fp8_format = "hybrid";
  int64_t fp8_history = 16, fp8_margin = 0, fp8_skip_first = 0, fp8_skip_last = 0;
  bool auto_precision = false;
  std::string precision_plan;
  double scale_init = 65536;
  int64_t scale_growth_interval = 2000;
  PrecisionOverrides overrides;  // [[precision.override]], in files only
  // [train]
  std::string device = "auto";
  int64_t steps = 600, batch = 8, accumulate = 1;
  double lr = 4e-3;
  int64_t warmup = -1;
  std::string schedule = "cosine";
  double weight_decay = 0.1, beta1 = 0.9, beta2 = 0.95, clip = 1;
  bool recompute = false;
  std::string graph = "auto";
  int64_t seed = 0, threads = 0;
  // [run]
  std::string out;
  int64_t eval_every = 100, eval_batches = 8, log_every = 20, checkpoint_every = 200, keep = 2,
          sample = 400, layer_stats = 100;
  bool resume = false, dry_run = false;

  bool operator==(const Config&) const = default;
};

using Field =
    std::variant<bool Config::*, int64_t Config::*, double Config::*, std::string Config::*>;

// One key: all that reading TOML, the command line, --help, saving and messages need to know of it.
struct Key {
  std::string_view section;
  std::string_view name;
  Field field;
  std::string_view help;
  std::vector<std::string_view> choices = {};  // of texts; none: any text
  double low = 0, high = 0;                    // of numbers, both included
  bool saved = true;                           // part of config.toml
};

std::span<const Key> keys();
// "--fp8-scaling".
std::string option_name(const Key& key);
// "N", "X", "TEXT" or "a|b|c"; empty for a switch.
std::string value_name(const Key& key);
// The key's value as TOML writes it.
std::string value_text(const Key& key, const Config& config);

// Where settings come from, weakest first: the defaults, the preset, the TOML file, the command
// line.
struct Sources {
  std::filesystem::path file;                                // empty: none
  std::vector<std::pair<std::string, std::string>> options;  // option name without dashes, text
};

// The whole configuration, checked: fails naming key, expected and found. Values that stand for "by
// the rest" (warmup -1, kv_heads 0, hidden 0, device auto) are replaced by what they come to.
Config resolve(const Sources& sources);
// The same from TOML text; `name` is the file in messages.
Config resolve_text(std::string_view toml, const std::string& name);

// The configuration as a TOML file that resolves to itself.
std::string to_toml(const Config& config);

// Fails about an option the program does not have, naming the nearest one.
[[noreturn]] void refuse_option(const std::string& given);

}  // namespace binade::train
