#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>
#include <utility>

#include "cli/process.h"
#include "io/temporary_folder.h"

// A long run with checkpoints, validations and statistics: memory, descriptors and disk stay as
// they were after a tenth of it.
namespace binade::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t steps = 100'000;

int64_t resident_bytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

int64_t open_descriptors(pid_t pid) {
  std::error_code error;
  const fs::directory_iterator all("/proc/" + std::to_string(pid) + "/fd", error);
  return error ? 0 : std::distance(fs::begin(all), fs::end(all));
}

int64_t logged(const fs::path& run) {
  std::error_code error;
  const auto bytes = fs::file_size(run / "metrics.jsonl", error);
  return error ? 0 : static_cast<int64_t>(bytes);
}

int64_t bytes_below(const fs::path& folder) {
  int64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += static_cast<int64_t>(entry.file_size());
  }
  return bytes;
}

TEST(SoakSlow, AHundredThousandStepsStayFlat) {
  const testing::TemporaryFolder folder;
  const fs::path run = folder / "run";
  std::vector<std::string> words = {BINADE_EXECUTABLE, "train", "--quiet", "--out", run.string()};
  std::istringstream options(
      "--layers 1 --width 16 --heads 2 --context 8 --batch 1 --eval-batches 1 --eval-every 1000 "
      "--checkpoint-every 500 --layer-stats 5000 --keep 3 --sample 0 --threads 1 --precision bf16 "
      "--steps " +
      std::to_string(steps));
  for (std::string word; options >> word;) words.push_back(word);
  Process process(words);
  // A record has about 200 bytes.
  constexpr int64_t early = steps / 10 * 200;
  int64_t memory = 0, descriptors = 0, most_memory = 0, most_descriptors = 0;
  int64_t last_bytes = 0;
  while (process.running()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const int64_t resident = resident_bytes(process.pid()), open = open_descriptors(process.pid());
    // The report at the end reads all records: only the training counts.
    const int64_t bytes = logged(run);
    if (bytes == std::exchange(last_bytes, bytes)) continue;
    if (bytes < early) {
      memory = std::max(memory, resident);
      descriptors = std::max(descriptors, open);
    } else {
      most_memory = std::max(most_memory, resident);
      most_descriptors = std::max(most_descriptors, open);
    }
  }
  ASSERT_EQ(process.wait(), 0);
  ASSERT_GT(memory, 0);
  std::printf("memory %.1f MB, later at most %.1f MB; descriptors %ld, later at most %ld\n",
              static_cast<double>(memory) / 1e6, static_cast<double>(most_memory) / 1e6,
              static_cast<long>(descriptors), static_cast<long>(most_descriptors));
  // Records kept in memory would take 9 MB more.
  EXPECT_LT(most_memory, memory + (int64_t{4} << 20));
  EXPECT_LE(most_descriptors, descriptors + 2);
  // Three checkpoints and a log.
  int64_t checkpoints = 0;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints")) {
    EXPECT_TRUE(entry.path().filename().string().starts_with("step-")) << entry.path();
    ++checkpoints;
  }
  EXPECT_EQ(checkpoints, 3);
  const int64_t expected = 3 * bytes_below(run / "checkpoints" / ("step-" + std::to_string(steps)));
  // The steps in their files have a digit more or less.
  EXPECT_NEAR(static_cast<double>(bytes_below(run / "checkpoints")), static_cast<double>(expected),
              64);
  EXPECT_LT(bytes_below(run), expected + 800 * steps);
}

}  // namespace
}  // namespace binade::cli
