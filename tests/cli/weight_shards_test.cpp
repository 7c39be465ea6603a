#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/ranks_run.h"
#include "support/rank_variables.h"

// Checkpoints whose weights all ranks write, a shard each (--weight-shards).
namespace binade::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

const std::string sharded = " --weight-shards ";

// Each tensor's type, shape and bytes, by a reader of the format that knows nothing else.
void add_tensors(const fs::path& file, std::map<std::string, std::string>& tensors) {
  const std::string bytes = read(file);
  uint64_t length = 0;
  ASSERT_GE(bytes.size(), sizeof length) << file;
  bytes.copy(reinterpret_cast<char*>(&length), sizeof length);
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto begin = entry["data_offsets"][0].get<size_t>(),
               end = entry["data_offsets"][1].get<size_t>();
    EXPECT_FALSE(tensors.contains(name)) << name << " twice";
    tensors[name] = entry["dtype"].dump() + entry["shape"].dump() +
                    bytes.substr(8 + length + begin, end - begin);
  }
}

std::string shard_name(int shard, int shards) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard, shards);
}

std::map<std::string, std::string> tensors_of(const fs::path& checkpoint, int shards) {
  std::map<std::string, std::string> tensors;
  for (int shard = 1; shard <= shards; ++shard)
    add_tensors(checkpoint / shard_name(shard, shards), tensors);
  return tensors;
}

// By a name that was freed: with the bytes of `from`.
void put_copy(const fs::path& from, const fs::path& to) {
  fs::remove(to);
  fs::copy_file(from, to);
}

class WeightShardRuns : public RanksRun {
 protected:
  std::string on_ranks(int ranks, const std::string& command) const override {
    return test::on_ranks_by_variables(ranks, command);
  }

  // Everything but the weights is that of one process, and the weights are in shards.
  static void expect_sharded(const fs::path& run, const fs::path& alone, int shards) {
    EXPECT_EQ(metrics_of(run), metrics_of(alone));
    for (const std::string step : {"step-3", "step-6"}) {
      const fs::path one = run / "checkpoints" / step, other = alone / "checkpoints" / step;
      EXPECT_TRUE(read(one / "trainer.safetensors") == read(other / "trainer.safetensors"));
      EXPECT_EQ(read(one / "config.json"), read(other / "config.json"));
      EXPECT_FALSE(fs::exists(one / "model.safetensors"));
      std::map<std::string, std::string> expected;
      add_tensors(other / "model.safetensors", expected);
      EXPECT_TRUE(tensors_of(one, shards) == expected) << step;
    }
  }

  void expect_faults_lose_nothing(int stride);
};

TEST_F(WeightShardRuns, HoldTheTensorsOfOneProcess) {
  const struct {
    const char* options;
    int ranks;
  } cases[] = {{"--precision fp32", 3},
               {"--precision bf16 --params masters --stage 3", 2},
               {"--recipe 'delayed, history = 3' --stage 3 --freeze blocks.0 --model llama", 3},
               {"--precision bf16 --optimizer muon --stage 1", 2}};
  for (const auto& [options, ranks] : cases) {
    SCOPED_TRACE(options);
    const fs::path alone = trained("alone", 1, ranks_run + std::string(options));
    ASSERT_EQ(outcome_.status, 0) << outcome_.err;
    const fs::path run = trained("many", ranks, ranks_run + std::string(options) + sharded);
    ASSERT_EQ(outcome_.status, 0) << outcome_.err;
    EXPECT_EQ(outcome_.err, "");
    expect_sharded(run, alone, ranks);
    start_over();
  }
}

TEST_F(WeightShardRuns, ResumeOnAnotherNumberOfRanks) {
  const std::string options = ranks_run + std::string("--precision bf16 --params masters ");
  const fs::path alone = trained("alone", 1, options);
  for (const auto& [first, second, stage] : {std::tuple(2, 3, 3), {3, 2, 2}, {2, 1, 2}}) {
    SCOPED_TRACE(fmt::format("{} then {}", first, second));
    const fs::path run =
        trained("many", first, options + sharded + "--stage " + std::to_string(stage));
    ASSERT_EQ(outcome_.status, 0) << outcome_.err;
    fs::remove_all(run / "checkpoints" / "step-6");
    trained("many", second, "train --resume --start-over --out run --quiet");
    ASSERT_EQ(outcome_.status, 0) << outcome_.err;
    EXPECT_EQ(metrics_of(run), metrics_of(alone));
    const fs::path last = run / "checkpoints" / "step-6";
    std::map<std::string, std::string> expected, found;
    add_tensors(alone / "checkpoints/step-6/model.safetensors", expected);
    if (second == 1) {
      add_tensors(last / "model.safetensors", found);
    } else {
      found = tensors_of(last, second);
    }
    EXPECT_TRUE(found == expected);
    EXPECT_TRUE(read(last / "trainer.safetensors") ==
                read(alone / "checkpoints/step-6/trainer.safetensors"));
    fs::remove_all(run);
  }
}

// The best model, and what reads a model's folder.
TEST_F(WeightShardRuns, AreReadLikeOneFile) {
  const std::string options = ranks_run + std::string("--precision bf16 --keep-best ");
  const fs::path alone = trained("alone", 1, options);
  const fs::path run = trained("many", 2, options + sharded);
  ASSERT_EQ(outcome_.status, 0) << outcome_.err;
  const auto run_on = [&](const std::string& before, const fs::path& folder,
                          const std::string& after) {
    const Outcome outcome = binade(before + quoted(folder.string()) + after);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  for (const char* folder : {"checkpoints/step-3", "best"}) {
    EXPECT_EQ(run_on("generate ", run / folder, " --prompt 'Once ' --tokens 20 --temperature 0"),
              run_on("generate ", alone / folder, " --prompt 'Once ' --tokens 20 --temperature 0"));
  }
  for (const auto& [from, to] : {std::pair(run, "a"), {alone, "b"}})
    run_on("export ", from, " " + quoted((folder_ / to).string()) + " --dtype f32");
  EXPECT_TRUE(read(folder_ / "a/model.safetensors") == read(folder_ / "b/model.safetensors"));
  EXPECT_THAT(run_on("diff ", run, " " + quoted(alone.string())),
              HasSubstr("are equal, bit for bit, up to step 6"));
}

TEST_F(WeightShardRuns, RefuseShardsThatAreMissingOrOthers) {
  const fs::path run = trained("many", 2, ranks_run + std::string("--precision bf16") + sharded);
  ASSERT_EQ(outcome_.status, 0) << outcome_.err;
  const fs::path step = run / "checkpoints" / "step-6";
  const fs::path shard = step / shard_name(2, 2), kept = folder_ / "kept";
  const auto expect_refused = [&](const std::string& found) {
    for (const std::string command : {"eval ", "generate --prompt a ", "inspect "}) {
      const Outcome outcome = binade(command + quoted(step.string()));
      EXPECT_EQ(outcome.status, 2) << command;
      EXPECT_THAT(outcome.err, AllOf(HasSubstr(shard.filename().string()), HasSubstr(found)))
          << command;
    }
  };
  fs::copy_file(shard, kept);
  fs::remove(shard);
  expect_refused("No such file");
  put_copy(run / "checkpoints" / "step-3" / shard_name(2, 2), shard);
  expect_refused("XXH3");
  put_copy(step / shard_name(1, 2), shard);
  expect_refused("bytes");
  put_copy(kept, shard);
  EXPECT_EQ(binade("generate --prompt a --tokens 2 " + quoted(step.string())).status, 0);
}

// A fault at every `stride`-th of rank 1's calls on files: the run ends, and names the rank unless
// it is gone; what is there is complete, and the resumed run is that of no fault.
void WeightShardRuns::expect_faults_lose_nothing(int stride) {
  const std::string options = ranks_run + std::string("--precision bf16") + sharded;
  const fs::path straight = trained("straight", 2, options);
  ASSERT_EQ(outcome_.status, 0) << outcome_.err;
  int call = 0;
  for (; !HasFailure(); call += stride) {
    const std::string fault = call % 2 == 0 ? "kill" : "ENOSPC";
    SCOPED_TRACE(fmt::format("{} at call {}", fault, call));
    const fs::path where = folder_ / "many";
    fs::create_directories(where);
    const std::string preload = fmt::format(
        "env $([ $rank = 1 ] && echo LD_PRELOAD={} BINADE_FAULT_ROOT={} BINADE_FAULT={} "
        "BINADE_FAULT_AT={}) {} ",
        BINADE_FAIL_CALLS, (where / "run/checkpoints").string(), fault, call, BINADE_EXECUTABLE);
    const Outcome outcome =
        run_shell("cd " + quoted(where.string()) + " && export BINADE_THREADS=1 && " +
                  on_ranks(2, preload + options));
    if (outcome.status == 0) break;
    EXPECT_THAT(outcome.err, AnyOf(HasSubstr("rank 1: "), HasSubstr("lost rank 1")));
    trained("many", 2, options + "--resume");
    EXPECT_EQ(outcome_.status, 0) << outcome_.err;
    EXPECT_EQ(metrics_of(where / "run"), metrics_of(straight));
    for (const auto& entry : fs::directory_iterator(where / "run/checkpoints"))
      EXPECT_FALSE(entry.path().filename().string().starts_with('.')) << entry.path();
    EXPECT_TRUE(tensors_of(where / "run/checkpoints/step-6", 2) ==
                tensors_of(straight / "checkpoints/step-6", 2));
    fs::remove_all(where);
  }
  EXPECT_GE(call, 8) << "calls of a rank for two checkpoints";
}

TEST_F(WeightShardRuns, AFaultOfARankLosesNothing) { expect_faults_lose_nothing(5); }

using WeightShardRunsSlow = WeightShardRuns;

TEST_F(WeightShardRunsSlow, AFaultAtAnyCallLosesNothing) { expect_faults_lose_nothing(1); }

}  // namespace
}  // namespace binade::cli
