#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.h"

namespace binade::cli {

// Words of a run that ranks and one process train alike; "--out run" is among them.
extern const std::string ranks_run;

std::string read(const std::filesystem::path& path);

// Everything a step's line says, except times and memory.
std::vector<nlohmann::json> metrics_of(const std::filesystem::path& run);

// The options with another value of one of them.
std::string changed(std::string options, const std::string& name, const std::string& value);

// Training on many ranks, compared with one process. A launcher derives from it.
class RanksRun : public ::testing::Test {
 protected:
  void SetUp() override { start_over(); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A line of shell that runs a command on that many ranks.
  virtual std::string on_ranks(int ranks, const std::string& command) const = 0;

  // Runs the program in a folder of its own, on that many ranks, and returns the run's folder.
  std::filesystem::path trained(const std::string& name, int ranks, const std::string& options);
  // An empty folder.
  void start_over() const;
  static void expect_same_files(const std::filesystem::path& run,
                                const std::filesystem::path& expected,
                                const std::vector<std::string>& checkpoints);

  Outcome outcome_;
  const std::filesystem::path folder_ = unique_folder();

 private:
  static std::filesystem::path unique_folder();
};

}  // namespace binade::cli
