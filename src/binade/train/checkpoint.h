#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "binade/io/manifest.h"
#include "binade/io/model_folder.h"
#include "binade/io/safetensors.h"
#include "binade/train/hash/chain.h"
#include "binade/train/run/origin.h"
#include "binade/train/trainer.h"

// Checkpoints of a run: folders step-N that Hugging Face reads (config.json, model.safetensors and
// the tokenizer's file if there is one; a run with adapters writes PEFT's adapter_config.json and
// adapter_model.safetensors in place of the weights), with trainer.safetensors for resuming,
// config.toml, and manifest.json with the size and hash of each file, the run's id, and what the
// run's bits depend on (origin.h).
namespace binade::train {

inline constexpr const char* trainer_state_file = "trainer.safetensors";

using io::Checkpoint;
using io::list_checkpoints;

// Copies of all that a checkpoint holds, so that training may continue while it is written.
struct Snapshot {
  int64_t step = 0;
  nn::LanguageModelConfig model;
  // Under Hugging Face's names; of a run with adapters, only theirs; none if all ranks write them.
  StateDict weights;
  DType dtype = DType::f32;         // of the weights
  std::string adapter = {};         // adapter_config.json of a run with adapters
  io::Metadata adapter_facts = {};  // beside its tensors
  StateDict state;                  // Trainer::state_dict(); empty: a model alone
  std::string config;               // TOML
  std::string tokenizer;            // the bytes of its file; empty: bytes
  io::CompanionFiles companions = {};
  Origin origin = {};
  StateHash hash = {};    // of the trainer
  std::string link = {};  // the newest of the run's hash chain (LinkName); empty: none
};

// Fails for non-finite weights, since a run cannot continue from a checkpoint with a NaN in it. On
// many ranks each checks those it updates.
void require_finite(Trainer& trainer);

// Fails for non-finite weights.
Snapshot take_snapshot(Trainer& trainer, std::string_view tokenizer = {},
                       const io::CompanionFiles& companions = {});

// Writes step-N into `folder`, then removes all but the `keep` newest. The new one gets its name
// once it is complete and on disk; nothing is removed before that.
std::filesystem::path write_checkpoint(const Snapshot& snapshot, const io::Path& folder,
                                       int64_t keep);
// The steps of this, for a folder that others write to, too. First: whether there is a complete
// checkpoint of that step, which then is the same.
bool has_checkpoint(const io::Path& folder, int64_t step);
// Second: all files but the manifest.
void write_files(const Snapshot& snapshot, const io::Path& folder);
// Third: the step and the facts of a manifest, which lists the files in the folder and comes last.
io::Manifest manifest_of(const Snapshot& snapshot);
void write_manifest(const io::Manifest& manifest, const io::Path& folder);
// Last: removes all but the `keep` newest.
void remove_old_checkpoints(const io::Path& folder, int64_t keep);

// Writes the files of a checkpoint, without the state for resuming, as `folder`, which is replaced
// once they are complete and on disk.
void write_model(const Snapshot& snapshot, const io::Path& folder);

// take_snapshot and write_checkpoint.
std::filesystem::path save_checkpoint(Trainer& trainer, const io::Path& folder, int64_t keep,
                                      std::string_view tokenizer = {});

// Compares every file with the manifest: fails naming the file, expected and found.
void verify_checkpoint(const io::Path& checkpoint);

// The origin in a checkpoint's manifest; its fields are empty if the manifest has none.
Origin read_origin(const io::Path& checkpoint);

// The hash of the trainer that a checkpoint was taken of, and the newest link of its run's chain;
// none in checkpoints of older versions.
struct CheckpointHash {
  std::optional<StateHash> state;
  std::optional<LinkName> link;
};
CheckpointHash read_hash(const io::Path& checkpoint);

// Verifies, then loads everything, so that the next step is the one of an uninterrupted run. Fails
// without any change if the checkpoint is of another model.
void load_checkpoint(Trainer& trainer, const std::filesystem::path& checkpoint);

// Removes the leftovers of interrupted saves. Call it only where no other process saves.
void remove_leftovers(const io::Path& folder);

}  // namespace binade::train
