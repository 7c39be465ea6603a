#include "binade/lab/replay/at.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/backend/cpu/gemm/kernel.h"
#include "binade/base/error.h"
#include "binade/base/random.h"
#include "binade/lab/replay/recorded_run.h"
#include "binade/train/run/loop.h"
#include "io/temporary_folder.h"
#include "lab/replay/recorded_config.h"

namespace binade::lab {
namespace {

using ::testing::HasSubstr;

std::string train_run(const testing::TemporaryFolder& folder) {
  train::Config config = recorded_config(folder, "bf16");
  config.train.dropout = 0.1;
  train::run(config, train::Progress::Mode::quiet);
  return config.run.out;
}

std::vector<std::byte> bytes_of(const Tensor& x) {
  const auto* const bytes = static_cast<const std::byte*>(x.raw_data());
  return {bytes, bytes + x.bytes()};
}

// The caller's grad mode, autocast and random stream neither reach the replay nor change.
TEST(At, IsApartFromTheCallersWork) {
  const testing::TemporaryFolder folder;
  const std::string run = train_run(folder);
  const ViewOptions options{.step = 5, .tensors = {"gradient/blocks.0.mlp.up.weight", "logits"}};
  const StepView expected = view_step(open_run(run, "test"), options);
  ASSERT_EQ(expected.tensors.size(), 2u);

  const random::Context before = random::context();
  const auto level = backend::cpu::current_level().name;
  const NoGrad no_grad;
  const amp::Autocast half(DType::f16);
  const StepView found = at(run, options);
  EXPECT_TRUE(found.equal());
  EXPECT_GT(found.compared, 0);
  EXPECT_EQ(found.hash, expected.hash);
  EXPECT_EQ(found.loss, expected.loss);
  ASSERT_EQ(found.tensors.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(found.tensors[i].name, expected.tensors[i].name);
    EXPECT_EQ(bytes_of(found.tensors[i].value), bytes_of(expected.tensors[i].value));
  }
  EXPECT_EQ(random::context().seed, before.seed);
  EXPECT_EQ(random::context().step, before.step);
  EXPECT_EQ(random::context().next_stream, before.next_stream);
  EXPECT_FALSE(autograd::grad_enabled());
  EXPECT_EQ(backend::cpu::current_level().name, level);
}

TEST(At, SelectsTheKernelsOfTheRunAndThoseOfBeforeAgain) {
  const testing::TemporaryFolder folder;
  const std::string level(backend::cpu::current_level().name);
  backend::cpu::set_level("portable");
  const std::string run = train_run(folder);
  backend::cpu::set_level(level);
  EXPECT_TRUE(at(run, {.step = 4, .tensors = {"logits"}}).equal());
  EXPECT_EQ(backend::cpu::current_level().name, level);
}

TEST(At, RefusesWhatIsNoRun) {
  const testing::TemporaryFolder folder;
  EXPECT_THROW(at((folder / "none").string(), {.step = 1}), Error);
  const std::string run = train_run(folder);
  try {
    at(run, {.step = 99});
    FAIL() << "the run has 6 steps";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("expected 1 to 6"));
  }
}

TEST(At, BranchesOff) {
  const testing::TemporaryFolder folder;
  const std::string run = train_run(folder);
  const Branch made =
      branch(run, {.step = 4, .folder = (folder / "branch").string(), .settings = {"lr=1e-5"}});
  EXPECT_THAT(made.command, HasSubstr("--resume"));
  EXPECT_TRUE(std::filesystem::exists(folder / "branch/checkpoints/step-4"));
}

}  // namespace
}  // namespace binade::lab
