#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

// Runs of the program that are ended in the middle and resumed.
namespace binade::cli {

struct Arrangement {
  std::string name;
  std::string options;              // of `binade train`
  std::string tokenizer_kind = {};  // of `binade tokenize train`; empty: bytes
  bool on_base_model = false;       // starts from the weights of another run
  int ranks = 1;
};

// Precisions, storage of parameters, recompute, accumulation, tokenizers, adapters and ranks.
const std::vector<Arrangement>& arrangements();
const Arrangement& arrangement_named(const std::string& name);
// Empty, or why runs of this arrangement cannot be started here.
std::string missing_for(const Arrangement& arrangement);
// The name of a test with this arrangement: letters, digits and underscores.
std::string arrangement_test_name(const ::testing::TestParamInfo<Arrangement>& info);

struct RunLength {
  int steps = 0, checkpoint_every = 0;
};

class ResumableRun {
 public:
  // Makes what the arrangement needs in `folder`.
  ResumableRun(const Arrangement& arrangement, RunLength length,
               const std::filesystem::path& folder);

  // Starts the run in `out`, or continues it.
  std::vector<std::string> command(const std::filesystem::path& out) const;
  // The same with the preloaded library of tests/preload/fail_calls.cpp, which acts on calls in
  // `out`; `variables` such as "BINADE_FAULT=kill".
  std::vector<std::string> command_with_fault(const std::filesystem::path& out,
                                              const std::vector<std::string>& variables) const;
  // The number of system calls at which that library can act, from one run.
  long count_calls(const std::filesystem::path& out) const;
  // Weights, moments and the rest of the trainer's state at the end, the best model, the
  // statistics of layers, plan and diagnoses, the log but for its times and memory, and the names
  // of files but for older checkpoints.
  std::string outcome(const std::filesystem::path& out) const;

 private:
  std::filesystem::path folder_;
  RunLength length_;
  std::string options_;
  int ranks_;
};

}  // namespace binade::cli
