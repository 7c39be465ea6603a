#pragma once

#include <memory>
#include <string>
#include <vector>

#include "binade/data/corpus.h"
#include "binade/io/model_folder.h"
#include "binade/train/config/config.h"
#include "binade/train/hash/chain.h"
#include "binade/train/run/origin.h"

namespace binade::lab {

// A run's folder as it is read for replaying it.
struct RecordedRun {
  io::Path folder;
  train::Config config = train::Config();
  // Of steps before it was resumed with other settings, oldest first.
  struct Earlier {
    int64_t last = 0;  // step
    train::Config config = train::Config();
  };
  std::vector<Earlier> earlier;
  train::Chain chain;
  // Those that match their manifest, oldest first.
  std::vector<io::Checkpoint> checkpoints;
  train::Origin origin;  // of the newest of these; empty without one
  int64_t steps = 0;     // that the log or a checkpoint has
  std::unique_ptr<const data::Tokenizer> tokenizer;
  data::Split split;
  std::vector<std::string> notes;  // what cannot be checked or was passed over

  // Those by which a step was taken.
  const train::Config& settings_of(int64_t step) const;
  // The newest checkpoint of at most `step` steps, or null.
  const io::Checkpoint* checkpoint_before(int64_t step) const;
};

// What a run's folder says, without its data.
RecordedRun read_recorded(const std::string& folder);
// Opens the data and selects the CPU's kernels that the run was trained with, if this CPU has them.
// Fails if its steps cannot be repeated here, saying why: other data, another processor, sums in
// any order, precision that changes by itself. `caller` begins messages.
void open_data(RecordedRun& run, std::string_view caller);
// Both.
RecordedRun open_run(const std::string& folder, std::string_view caller);

// The tokens of a configuration's data, read with its tokenizer.
data::Split read_data(const train::Config& config, const data::Tokenizer* tokenizer);

// Selects the kernels by which a run was trained (Origin::arithmetic) for all that follows. Fails
// if this machine cannot.
void select_arithmetic(const train::Config& config, const std::string& arithmetic,
                       std::string_view caller);

}  // namespace binade::lab
