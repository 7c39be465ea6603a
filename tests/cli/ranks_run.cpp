#include "cli/ranks_run.h"

#include <unistd.h>

#include <fstream>
#include <iterator>

#include "support/paths.h"

namespace binade::cli {

namespace fs = std::filesystem;

const std::string ranks_run =
    "train --device cpu --layers 2 --width 32 --heads 2 --context 32 --batch 1 --accumulate 5 "
    "--steps 6 --eval-every 3 --eval-batches 3 --checkpoint-every 3 --layer-stats 3 --sample 0 "
    "--hash-every 2 "
    "--quiet --out run --data " +
    (test::source_dir() / "README.md").string() + " ";

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<nlohmann::json> metrics_of(const fs::path& run) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(run / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    nlohmann::json one = nlohmann::json::parse(line);
    for (const char* name : {"tokens_per_second", "seconds", "memory", "checksum"}) one.erase(name);
    lines.push_back(std::move(one));
  }
  return lines;
}

std::string changed(std::string options, const std::string& name, const std::string& value) {
  const size_t begin = options.find(name + " ") + name.size() + 1;
  return options.replace(begin, options.find(' ', begin) - begin, value);
}

fs::path RanksRun::unique_folder() {
  return fs::temp_directory_path() / ("binade_ranks_test." + std::to_string(::getpid()));
}

void RanksRun::start_over() const {
  fs::remove_all(folder_);
  fs::create_directories(folder_);
}

fs::path RanksRun::trained(const std::string& name, int ranks, const std::string& options) {
  const fs::path where = folder_ / name;
  fs::create_directories(where);
  const std::string command = BINADE_EXECUTABLE " " + options;
  outcome_ = run_shell("cd " + quoted(where.string()) + " && export BINADE_THREADS=1 && " +
                       (ranks == 1 ? command : on_ranks(ranks, command)));
  return where / "run";
}

void RanksRun::expect_same_files(const fs::path& run, const fs::path& expected,
                                 const std::vector<std::string>& checkpoints) {
  EXPECT_EQ(metrics_of(run), metrics_of(expected));
  EXPECT_EQ(read(run / "layers.jsonl"), read(expected / "layers.jsonl"));
  for (const std::string& step : checkpoints) {
    for (const char* file : {"model.safetensors", "trainer.safetensors", "config.toml"}) {
      const std::string bytes = read(expected / "checkpoints" / step / file);
      ASSERT_FALSE(bytes.empty());
      EXPECT_TRUE(read(run / "checkpoints" / step / file) == bytes) << step << " " << file;
    }
  }
}

}  // namespace binade::cli
