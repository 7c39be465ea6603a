#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "cli/command.h"
#include "cli/process.h"
#include "io/temporary_folder.h"

// The example of reinforcement learning: it refuses to go on if a probability of the first update
// is not the sampled one.
namespace binade::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string contents(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

class GrpoExample : public ::testing::TestWithParam<const char*> {
 protected:
  Outcome run(const std::string& options) const {
    return run_shell(quoted(BINADE_GRPO_EXAMPLE) + " --precision " + GetParam() + " " + options);
  }
  std::string out(const char* name) const { return " --out " + quoted((folder_ / name).string()); }

  testing::TemporaryFolder folder_;
};

TEST_P(GrpoExample, IsKilledAndResumedBitForBit) {
  const std::string options = "--steps 5 --save-every 1";
  const Outcome whole = run(options + out("whole"));
  ASSERT_EQ(whole.status, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("first update 0,"));
  {
    Process killed({BINADE_GRPO_EXAMPLE, "--precision", GetParam(), "--steps", "5", "--save-every",
                    "1", "--out", (folder_ / "killed").string()});
    while (killed.running() && !std::filesystem::exists(folder_ / "killed" / "rewards.csv"))
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    killed.kill();
  }
  const Outcome resumed = run(options + out("killed"));
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("continuing from step"));
  EXPECT_TRUE(contents(folder_ / "whole" / "state.safetensors") ==
              contents(folder_ / "killed" / "state.safetensors"));
}

TEST_P(GrpoExample, SeesAnotherSampler) {
  const std::string other = std::string(GetParam()) == "bf16" ? "fp32" : "bf16";
  const Outcome outcome = run("--steps 1 --sampler-precision " + other);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, Not(HasSubstr("first update 0,")));
}

INSTANTIATE_TEST_SUITE_P(Precisions, GrpoExample, ::testing::Values("fp32", "bf16", "fp16", "fp8"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace binade::cli
