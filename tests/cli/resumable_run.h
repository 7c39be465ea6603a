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
};

// Precisions, storage of parameters, recompute, accumulation and tokenizers.
const std::vector<Arrangement>& arrangements();
const Arrangement& arrangement_named(const std::string& name);
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
  // Weights, moments and the rest of the trainer's state at the end, the statistics of layers, and
  // the log but for its times and memory.
  std::string outcome(const std::filesystem::path& out) const;

 private:
  RunLength length_;
  std::string options_;
};

}  // namespace binade::cli
