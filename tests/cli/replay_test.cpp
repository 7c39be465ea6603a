#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "io/temporary_folder.h"

// What tells whether a run can be repeated: exit code 0 if all is equal, 1 if not, 2 for bad input.
namespace binade::cli {
namespace {

using ::testing::HasSubstr;

class Replay : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new testing::TemporaryFolder;
    ASSERT_EQ(binade(train("run")).status, 0);
    const Outcome other = binade(train("other") + " --beta2 0.9");
    ASSERT_EQ(other.status, 0) << other.err;
  }
  static void TearDownTestSuite() { delete folder_; }

  static std::string path(const std::string& name) { return quoted((*folder_ / name).string()); }
  static std::string train(const std::string& out) {
    return "train --device cpu --quiet --layers 1 --width 16 --heads 2 --context 8 --batch 2 "
           "--eval-batches 1 --sample 0 --steps 4 --checkpoint-every 2 --hash-every 2 --out " +
           path(out);
  }

  static testing::TemporaryFolder* folder_;
};
testing::TemporaryFolder* Replay::folder_ = nullptr;

TEST_F(Replay, AtShowsTensors) {
  const Outcome table = binade("at " + path("run") + " --step 3 --tensor 'blocks.0.mlp'");
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("replayed from step 2"));
  EXPECT_THAT(table.out, HasSubstr("activation/blocks.0.mlp"));
  const Outcome json = binade("at " + path("run") + " --step 3 --json --tensor logits --save " +
                              path("at.safetensors") + " --html " + path("at.html"));
  EXPECT_EQ(json.status, 0) << json.err;
  const auto parsed = nlohmann::json::parse(json.out);
  EXPECT_EQ(parsed["equal"], true);
  EXPECT_EQ(parsed["tensors"][0]["name"], "logits");
  EXPECT_TRUE(std::filesystem::exists(*folder_ / "at.safetensors"));
  EXPECT_THAT(testing::content_of(*folder_ / "at.html"), HasSubstr("Step 3 of run"));
  const Outcome bad = binade("at " + path("run") + " --step 5");
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.err, HasSubstr("--step: expected 1 to 4"));
}

TEST_F(Replay, AtMakesABranch) {
  const Outcome branch =
      binade("at " + path("run") + " --step 3 --set beta1=0.8 --branch " + path("branch"));
  EXPECT_EQ(branch.status, 0) << branch.err;
  EXPECT_THAT(branch.out, HasSubstr("--allow-changes beta1"));
  const Outcome resumed =
      binade("train --quiet --resume --allow-changes beta1 --out " + path("branch"));
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(binade("at " + path("run") + " --step 3 --set beta1=0.8").status, 2);
}

TEST_F(Replay, DiffNamesTheCause) {
  const Outcome same = binade("diff " + path("run") + " " + path("run"));
  EXPECT_EQ(same.status, 0) << same.err;
  EXPECT_THAT(same.out, HasSubstr("equal, bit for bit, up to step 4"));
  const Outcome differ = binade("diff " + path("run") + " " + path("other"));
  EXPECT_EQ(differ.status, 1) << differ.err;
  EXPECT_THAT(differ.out, HasSubstr("from step 1 on"));
  EXPECT_THAT(differ.out, HasSubstr("cause:  setting: beta2: 0.95 and 0.9"));
  const Outcome json = binade("diff --json " + path("run") + " " + path("other"));
  EXPECT_EQ(nlohmann::json::parse(json.out)["causes"][0]["confirmed"], true);
  EXPECT_EQ(binade("diff " + path("run") + " " + path("none")).status, 2);
}

TEST_F(Replay, DiffReadsARecordingOfTorch) {
  const std::string golden = (testing::golden("torch_diff") / "").string();
  const Outcome same = binade("diff " + golden + "llama " + golden + "llama_healthy.safetensors");
  EXPECT_EQ(same.status, 0) << same.err;
  EXPECT_THAT(same.out, HasSubstr("21 weights, 31 results, 26 gradients"));
  const std::string other = golden + "llama " + golden + "llama_interleaved.safetensors";
  const Outcome differ = binade("diff " + other);
  EXPECT_EQ(differ.status, 1) << differ.err;
  EXPECT_THAT(differ.out, HasSubstr("first:  activation/blocks.0.attention/rope, q at [0, 1, "));
  EXPECT_THAT(differ.err, HasSubstr("only the forward is compared"));
  const Outcome json = binade("diff --json --precision bf16 " + other);
  EXPECT_EQ(nlohmann::json::parse(json.out)["unit_roundoff"], 0x1p-8);
  const Outcome no_recording =
      binade("diff " + golden + "llama " + golden + "llama/model.safetensors");
  EXPECT_EQ(no_recording.status, 2);
  EXPECT_THAT(no_recording.err, HasSubstr("expected a recording of a torch model"));
  EXPECT_EQ(binade("diff --precision bf16 " + path("run") + " " + path("run")).status, 2);
}

TEST_F(Replay, VerifyStopsAtADifference) {
  EXPECT_EQ(binade(train("again") + " --verify " + path("run")).status, 0);
  const Outcome differs = binade(train("third") + " --seed 1 --json --verify " + path("run"));
  EXPECT_EQ(differs.status, 2);  // --json excludes --quiet
  const Outcome stopped = binade(train("third") + " --seed 1 --verify " + path("run"));
  EXPECT_EQ(stopped.status, 1) << stopped.err;
  EXPECT_EQ(binade(train("fourth") + " --verify " + path("none")).status, 2);
}

TEST_F(Replay, ReproduceRepeatsAndAudits) {
  const Outcome written = binade("reproduce " + path("run") + " --write " + path("manifest.json"));
  EXPECT_EQ(written.status, 0) << written.err;
  EXPECT_THAT(written.out, HasSubstr("4 steps, 3 hashes"));
  const Outcome repeated =
      binade("reproduce " + path("manifest.json") + " --out " + path("repeated"));
  EXPECT_EQ(repeated.status, 0) << repeated.err;
  EXPECT_THAT(repeated.out, HasSubstr("verified: 3 hashes are those of"));
  const std::string audit = "reproduce " + path("manifest.json") + " --audit 2 --run ";
  const Outcome audited = binade(audit + path("run"));
  EXPECT_EQ(audited.status, 0) << audited.err;
  EXPECT_THAT(audited.out, HasSubstr("checked: 4 of 4 steps"));
  const Outcome other = binade(audit + path("other"));
  EXPECT_EQ(other.status, 1) << other.err;
  EXPECT_EQ(binade("reproduce " + path("manifest.json") + " --audit 1").status, 2);
}

}  // namespace
}  // namespace binade::cli
