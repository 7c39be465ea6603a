#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "binade/io/model_folder.h"
#include "binade/train/trainer.h"

// Checkpoints of a run: folders step-N that Hugging Face reads (config.json, model.safetensors and
// the tokenizer's file where there is one), with trainer.safetensors for going on, config.toml, and
// manifest.json with the size and hash of each file.
namespace binade::train {

using io::Checkpoint;
using io::list_checkpoints;

// All that a checkpoint holds, in memory of its own: training may go on while it is written.
struct Snapshot {
  int64_t step = 0;
  nn::LanguageModelConfig model;
  StateDict weights;  // under Hugging Face's names
  StateDict state;
  std::string config;     // TOML
  std::string tokenizer;  // the bytes of its file; empty: none
};

// Refuses weights that are not finite.
Snapshot take_snapshot(Trainer& trainer, std::string_view tokenizer = {});

// Writes step-N into `folder` and then removes all but the `keep` newest. The new one appears under
// its name when it is whole and on disk; nothing is removed before.
std::filesystem::path write_checkpoint(const Snapshot& snapshot,
                                       const std::filesystem::path& folder, int64_t keep);

// Both at once.
std::filesystem::path save_checkpoint(Trainer& trainer, const std::filesystem::path& folder,
                                      int64_t keep, std::string_view tokenizer = {});

// Compares every file with the manifest: fails naming the file, expected and found.
void verify_checkpoint(const std::filesystem::path& checkpoint);

// Verifies, then loads everything, so that the next step is the one an uninterrupted run would
// take. Fails, having changed nothing, where the checkpoint is of another model.
void load_checkpoint(Trainer& trainer, const std::filesystem::path& checkpoint);

// Removes what an interrupted save left behind.
void remove_leftovers(const std::filesystem::path& folder);

}  // namespace binade::train
