#include "binade/train/hash/run_chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "binade/base/error.h"
#include "binade/train/checkpoint.h"
#include "binade/train/run/loop.h"
#include "binade/train/run/metrics.h"
#include "io/temporary_folder.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Config chained(const testing::TemporaryFolder& folder, const std::string& name) {
  Config config = small_config("fp16");
  config.train.accumulate = 2;
  config.run.checkpoint_every = 3;
  config.run.hash_every = 2;
  config.data.source = folder.put("text.txt", small_text()).string();
  config.run.out = (folder / name).string();
  return config;
}

RunResult train_chained(const Config& config) { return run(config, Progress::Mode::quiet); }

std::vector<int64_t> hashed_steps(const fs::path& run) {
  std::vector<int64_t> steps;
  for (const Link& link : read_chain(run).links) steps.push_back(link.step);
  return steps;
}

TEST(RunChain, HasALinkAtTheStartAndAtEachInterval) {
  const testing::TemporaryFolder folder;
  train_chained(chained(folder, "run"));
  EXPECT_THAT(hashed_steps(folder / "run"), ElementsAre(0, 2, 4, 6));
  EXPECT_TRUE(read_chain(folder / "run").broken.empty());
  const auto link = read_hash(folder / "run/checkpoints/step-3").link;
  ASSERT_TRUE(link);
  EXPECT_EQ(link->step, 2);
  EXPECT_EQ(link->digest, read_chain(folder / "run").links[1].digest);
}

// Also where the interval does not divide the run's steps, or is longer than the run.
TEST(RunChain, HasALinkAtTheEnd) {
  const testing::TemporaryFolder folder;
  Config config = chained(folder, "run");
  config.run.hash_every = 4;
  train_chained(config);
  EXPECT_THAT(hashed_steps(folder / "run"), ElementsAre(0, 4, 6));
  config.run.out = (folder / "short").string();
  config.run.hash_every = 100;
  train_chained(config);
  EXPECT_THAT(hashed_steps(folder / "short"), ElementsAre(0, 6));
  // With more steps it goes on behind that.
  config.train.steps = 8;
  config.run.resume = true;
  train_chained(config);
  EXPECT_THAT(hashed_steps(folder / "short"), ElementsAre(0, 6, 8));
  EXPECT_TRUE(read_chain(folder / "short").broken.empty());
}

TEST(RunChain, AResumedRunHasTheSame) {
  const testing::TemporaryFolder folder;
  Config config = chained(folder, "run");
  train_chained(config);
  const std::vector<Link> expected = read_chain(folder / "run").links;
  fs::remove_all(folder / "run/checkpoints/step-6");
  config.run.resume = true;
  train_chained(config);
  EXPECT_EQ(read_chain(folder / "run").links, expected);
  // The log's links may be lost: the checkpoint has the last one.
  fs::remove_all(folder / "run/checkpoints/step-6");
  fs::remove(folder / "run/metrics.jsonl");
  train_chained(config);
  const Chain rest = read_chain(folder / "run");
  EXPECT_EQ(rest.links, std::vector<Link>(expected.begin() + 2, expected.end()));
  EXPECT_THAT(rest.broken, ElementsAre(4));  // what came before it is not there
}

TEST(RunChain, NoneWithoutAnInterval) {
  const testing::TemporaryFolder folder;
  Config config = chained(folder, "run");
  config.run.hash_every = 0;
  train_chained(config);
  EXPECT_TRUE(read_chain(folder / "run").links.empty());
  EXPECT_FALSE(read_hash(folder / "run/checkpoints/step-6").link);
  EXPECT_TRUE(read_hash(folder / "run/checkpoints/step-6").state);
}

// --verify: the same run again, also with hashes at other steps of its own, and one resumed.
TEST(RunChain, VerifiesTheSameRun) {
  const testing::TemporaryFolder folder;
  train_chained(chained(folder, "run"));
  Config again = chained(folder, "again");
  again.run.verify = (folder / "run").string();
  again.run.hash_every = 3;
  EXPECT_EQ(train_chained(again).difference, "");
  EXPECT_THAT(hashed_steps(folder / "again"), ElementsAre(0, 3, 6));
  Config resumed = chained(folder, "run");
  fs::remove_all(folder / "run/checkpoints/step-6");
  resumed.run.resume = true;
  resumed.run.verify = resumed.run.out;  // the links that the resumed run writes again
  const RunResult result = train_chained(resumed);
  EXPECT_EQ(result.difference, "");
  EXPECT_EQ(result.steps, 6);
}

TEST(RunChain, NamesTheFirstDifference) {
  const testing::TemporaryFolder folder;
  train_chained(chained(folder, "run"));
  const auto difference = [&](auto change) {
    fs::remove_all(folder / "other");
    Config config = chained(folder, "other");
    config.run.verify = (folder / "run").string();
    change(config);
    const RunResult result = train_chained(config);
    EXPECT_FALSE(result.interrupted);
    EXPECT_EQ(result.steps,
              result.difference.empty() ? 6 : std::stoll(result.difference.substr(5)));
    return result.difference.substr(0, result.difference.find(" differ"));
  };
  EXPECT_EQ(difference([](Config& config) { config.train.seed = 1; }), "step 0: weights");
  EXPECT_EQ(difference([](Config& config) { config.train.beta1 = 0.8; }),
            "step 2: weights, moments");
  EXPECT_EQ(difference([](Config& config) { config.precision.scale_growth_interval = 3; }),
            "step 0: scales");
  EXPECT_EQ(difference([](Config& config) { config.train.threads = 2; }), "");
  EXPECT_EQ(difference([&](Config& config) {
              std::string text = small_text();
              std::ranges::replace(text, '1', '2');
              config.data.source = folder.put("other.txt", text).string();
            }),
            "step 2: weights, moments, data");
}

TEST(RunChain, RefusesARunThatItCannotCompareWith) {
  const testing::TemporaryFolder folder;
  train_chained(chained(folder, "run"));
  Config config = chained(folder, "other");
  const auto refusal = [&] {
    try {
      train_chained(config);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  config.run.verify = (folder / "missing").string();
  EXPECT_THAT(refusal(), HasSubstr("metrics.jsonl"));
  config.run.verify = (folder / "run").string();
  std::vector<Record> records = read_metrics(folder / "run/metrics.jsonl");
  const auto write = [&] {
    std::ofstream log(folder / "run/metrics.jsonl");
    for (const Record& record : records) log << to_json(record) << '\n';
  };
  records[4].link->state.weights += 1;
  write();
  EXPECT_THAT(refusal(), HasSubstr("breaks at step 4"));
  for (Record& record : records) record.link.reset();
  write();
  EXPECT_THAT(refusal(), HasSubstr("expected hashes of steps 0 to 6, found none"));
}

}  // namespace
}  // namespace binade::train
