#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "binade/data/tokens.h"
#include "binade/tensor/device.h"

namespace binade::train {

struct Config;

// What the bits of a run depend on beside its settings. A checkpoint's manifest records it, so that
// resuming can tell what has changed. A field is empty if it is unknown.
struct Origin {
  std::string run = {};         // the run's id
  std::string data = {};        // size and hash of the tokens
  std::string arithmetic = {};  // the CPU's kernels and vectors, or the GPU
  std::string version = {};     // of Binade
  std::string base = {};        // size and hash of the weights that adapters belong to

  bool operator==(const Origin&) const = default;
};

// A new run's id: 32 random hexadecimal digits.
std::string new_run_id();

// The tokens' number and hash; of a mixture those of each source, with its weight. Of more than
// 2^24 tokens it hashes that many, in evenly spaced blocks, so that opening large data stays quick.
std::string describe_data(const data::Split& split);

// Size and hash of the weights in a model's folder.
std::string describe_weights(const std::filesystem::path& folder);

// The arithmetic of a device on this machine: "cpu neon-bf16, NEON" or "NVIDIA H200 (9.0)". Two
// machines with the same one compute the same bits.
std::string describe_arithmetic(Device device);

// A setting that differs between two configurations.
struct SettingChange {
  std::string name;       // as `--allow-changes` takes it: batch, lora-rank, override
  std::string from, to;   // as TOML writes them, texts without quotes
  bool changes_bits;      // of later steps
  bool is_model = false;  // of the model itself, which a checkpoint's weights must fit
};
// Compares values, not texts: `saved` may be of an earlier version (saved_values()).
std::vector<SettingChange> all_changed_settings(const Config& saved, const Config& current);

// What `--allow-changes` can name: settings that change bits, and data, tokenizer and arithmetic.
std::vector<std::string> changeable_names();

}  // namespace binade::train
