#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace binade::lab {

struct RecordedRun;

struct BranchOptions {
  int64_t step = 0;                        // after which the new run begins
  std::string folder;                      // of the new run; must not exist
  std::vector<std::string> settings = {};  // "lr=1e-4": as options of `binade train`, without --
};

struct Branch {
  std::string folder;
  std::string command;  // that continues it
  std::vector<std::string> notes;
};

// Makes a run of its own that has the steps of `run` up to options.step, which are replayed, and
// other settings from there on. Fails for settings that its state cannot take.
Branch branch_run(const RecordedRun& run, const BranchOptions& options);

}  // namespace binade::lab
