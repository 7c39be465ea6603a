#include "binade/lab/replay/reproduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "binade/base/error.h"
#include "binade/io/manifest.h"
#include "binade/train/checkpoint.h"
#include "binade/train/run/loop.h"
#include "binade/train/run/resume_settings.h"
#include "io/temporary_folder.h"
#include "train/small_run.h"

namespace binade::lab {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Reproduce : public ::testing::Test {
 protected:
  void SetUp() override {
    train::Config config = train::small_config("fp16");
    config.train.steps = 8;
    config.train.accumulate = 2;
    config.run.checkpoint_every = 2;
    config.run.keep = 3;
    config.run.hash_every = 1;
    config.run.sample = 0;
    config.data.source = folder_.put("text.txt", train::small_text()).string();
    config.run.out = run_;
    train::run(config, train::Progress::Mode::quiet);
    write(manifest_of(run_));
  }

  void write(const train::Reproduction& manifest) const {
    folder_.put("manifest.json", train::to_json(manifest));
  }
  static std::string refusal(const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }

  const testing::TemporaryFolder folder_;
  const std::string run_ = (folder_ / "run").string(),
                    manifest_ = (folder_ / "manifest.json").string();
};

TEST_F(Reproduce, RepeatsARunElsewhere) {
  const std::string moved = folder_.put("moved.txt", train::small_text()).string();
  fs::remove(folder_ / "text.txt");
  fs::remove_all(run_);
  train::Config config = repeating_config(manifest_, (folder_ / "again").string(), moved, "");
  config.train.threads = 1;
  const train::RunResult result = train::run(config, train::Progress::Mode::quiet);
  EXPECT_EQ(result.difference, "");
  EXPECT_EQ(result.steps, 8);
  EXPECT_EQ(train::read_chain(folder_ / "again").links, train::read_reproduction(manifest_).links);
}

TEST_F(Reproduce, SaysAtOnceWhatIsNotTheRuns) {
  const std::string out = (folder_ / "again").string();
  const std::string other = folder_.put("other.txt", train::small_text() + "x").string();
  EXPECT_THAT(refusal([&] { repeating_config(manifest_, out, other, ""); }),
              HasSubstr("data: the run had "));
  train::Reproduction manifest = train::read_reproduction(manifest_);
  manifest.origin.arithmetic = "NVIDIA H200 (9.0)";
  write(manifest);
  const std::string message = refusal([&] { repeating_config(manifest_, out, "", ""); });
  EXPECT_THAT(message, HasSubstr("NVIDIA H200 (9.0), by which it was trained"));
  EXPECT_THAT(message, HasSubstr("rounds its sums in another order"));
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(Reproduce, AuditsSegmentsFromCheckpoints) {
  const Audit all = audit_run(manifest_, run_, 10, 1);
  EXPECT_TRUE(all.equal());
  EXPECT_EQ(all.available, 3);  // 0 to 4, 4 to 6, 6 to 8
  ASSERT_EQ(all.segments.size(), 3u);
  EXPECT_EQ(all.checked_steps, 8);
  EXPECT_EQ(all.segments[1].from, 4);
  EXPECT_EQ(all.segments[1].to, 6);
  EXPECT_GE(all.segments[1].compared, 3);
  EXPECT_THAT(audit_text(all), HasSubstr("checked: 8 of 8 steps, in 3 of 3 segments; all equal"));
  // Other seeds choose other segments.
  std::set<int64_t> begins;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Audit one = audit_run(manifest_, run_, 1, seed);
    ASSERT_EQ(one.segments.size(), 1u);
    begins.insert(one.segments[0].from);
    EXPECT_EQ(audit_run(manifest_, run_, 1, seed).segments[0].from, one.segments[0].from);
  }
  EXPECT_EQ(begins, (std::set<int64_t>{0, 4, 6}));
}

// All links from one on were computed for other states: the digests are right.
TEST_F(Reproduce, AnAuditFindsAForgedSegment) {
  train::Reproduction manifest = train::read_reproduction(manifest_);
  std::string before;
  for (train::Link& link : manifest.links) {
    if (link.step == 5) link.state.weights ^= 8;
    link = train::next_link(before, link.step, link.state);
    before = link.digest;
  }
  write(manifest);
  const Audit audit = audit_run(manifest_, run_, 3, 0);
  EXPECT_FALSE(audit.equal());
  EXPECT_EQ(audit.segments[0].difference, "");
  EXPECT_THAT(audit.segments[1].difference, HasSubstr("step 5: weights differ"));
  EXPECT_EQ(audit.segments[2].difference, "");
  EXPECT_THAT(audit_text(audit), HasSubstr("the run is not what the manifest says"));
}

TEST_F(Reproduce, NeedsAnUnbrokenChain) {
  std::string log = testing::content_of(run_ + "/metrics.jsonl");
  const size_t at = log.find("\"hash\"");
  std::ofstream(run_ + "/metrics.jsonl")
      << log.substr(0, log.rfind('\n', at) + 1) << log.substr(log.find('\n', at) + 1);
  EXPECT_THAT(refusal([&] { manifest_of(run_); }), HasSubstr("one that breaks at step 1"));
  std::ofstream(run_ + "/metrics.jsonl") << "";
  EXPECT_THAT(refusal([&] { manifest_of(run_); }), HasSubstr("one without hashes"));
}

// Its paths and numbers are those of someone else.
TEST_F(Reproduce, TrustsNoManifest) {
  train::Config config = train::saved_settings(run_, {}).config;
  config.run.metrics_file = (folder_ / "precious.txt").string();
  train::Reproduction manifest = train::read_reproduction(manifest_);
  manifest.config = train::to_toml(config);
  write(manifest);
  EXPECT_EQ(repeating_config(manifest_, (folder_ / "again").string(), "", "").run.metrics_file, "");

  const auto refused = [&](const train::Reproduction& changed) {
    write(changed);
    const auto repeat = [&] { repeating_config(manifest_, (folder_ / "again").string(), "", ""); };
    const std::string message = refusal([&] { audit_run(manifest_, run_, 1, 0); });
    EXPECT_EQ(refusal(repeat), message);
    return message;
  };
  train::Reproduction endless = manifest;
  constexpr int64_t far = int64_t{1} << 60;
  endless.links.push_back(
      train::next_link(endless.links.back().digest, far, endless.links.back().state));
  EXPECT_THAT(refused(endless), HasSubstr("a last hash of at most 8, found 1152921504606846976"));
  endless.steps = far;
  EXPECT_THAT(refused(endless), HasSubstr("steps of at most 8"));
  manifest.links.clear();
  EXPECT_THAT(refused(manifest), HasSubstr("expected hashes of the run"));
}

TEST_F(Reproduce, NeedsOneConfiguration) {
  train::Config config = train::saved_settings(run_, {}).config;
  config.train.steps = 12;
  config.run.resume = true;
  train::run(config, train::Progress::Mode::quiet);
  EXPECT_THAT(refusal([&] { manifest_of(run_); }), HasSubstr("resumed with others after step 8"));
}

// A segment's end is compared with the checkpoint there, whose state the next one begins with.
TEST_F(Reproduce, AnAuditComparesCheckpointsAtTheEndOfSegments) {
  train::Reproduction manifest = train::read_reproduction(manifest_);
  manifest.links.resize(1);
  write(manifest);
  const Audit audit = audit_run(manifest_, run_, 3, 0);
  EXPECT_TRUE(audit.equal());
  for (const AuditedSegment& one : audit.segments) EXPECT_TRUE(one.checked);
  const fs::path checkpoint = fs::path(run_) / "checkpoints/step-6";
  const auto facts = io::read_manifest(checkpoint, "test").facts;
  fs::remove(checkpoint / "manifest.json");
  auto without = facts;
  std::erase_if(without, [](const auto& fact) { return fact.first == "hash"; });
  const std::string text =
      io::manifest_text(checkpoint, {.step = 6, .facts = without, .files = {}}, "test");
  std::ofstream(checkpoint / "manifest.json") << text;
  const Audit unknown = audit_run(manifest_, run_, 3, 0);
  EXPECT_FALSE(unknown.segments[1].checked);  // 4 to 6
  EXPECT_EQ(unknown.checked_steps, 6);
  EXPECT_THAT(audit_text(unknown), HasSubstr("steps 5 to 6: not checked"));
}

}  // namespace
}  // namespace binade::lab
