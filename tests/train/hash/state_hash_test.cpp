#include "binade/train/hash/state_hash.h"

#include <gtest/gtest.h>

#include "binade/autograd/grad_mode.h"
#include "binade/train/checkpoint.h"
#include "io/temporary_folder.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

Config hashed_config(const std::string& precision) {
  Config config = small_config(precision);
  config.train.accumulate = 3;
  return config;
}

StateHash hash_after(const Config& config, int64_t steps) {
  Trainer trainer(config);
  for (int64_t i = 0; i < steps; ++i) trainer.step(small_tokens());
  return trainer.hash();
}

TEST(StateHash, IsThatOfEveryRunWithTheSameSettings) {
  for (const char* precision : {"fp32", "bf16", "fp16", "fp8"}) {
    SCOPED_TRACE(precision);
    const Config config = hashed_config(precision);
    EXPECT_EQ(hash_after(config, 2), hash_after(config, 2));
    EXPECT_EQ(differing_parts(hash_after(config, 2), hash_after(config, 3)).substr(0, 16),
              "weights, moments");
  }
}

// Looking changes nothing.
TEST(StateHash, OfOneStepDoesNotChangeTheNext) {
  for (const char* precision : {"bf16", "fp16", "fp8"}) {
    SCOPED_TRACE(precision);
    Trainer trainer(hashed_config(precision));
    for (int i = 0; i < 3; ++i) {
      trainer.step(small_tokens());
      EXPECT_EQ(trainer.hash(), trainer.hash());
    }
    EXPECT_EQ(trainer.hash(), hash_after(hashed_config(precision), 3));
  }
}

TEST(StateHash, ASettingChangesThePartsThatItReaches) {
  const Config config = hashed_config("fp16");
  const StateHash expected = hash_after(config, 0);
  Config other = config;
  other.train.seed = 1;
  EXPECT_EQ(differing_parts(hash_after(other, 0), expected), "weights");
  EXPECT_EQ(differing_parts(hash_after(other, 1), hash_after(config, 1)), "weights, moments, data");
  other = config;
  other.precision.scale_init = 256;
  EXPECT_EQ(differing_parts(hash_after(other, 0), expected), "scales");
  other = config;
  other.train.batch = 3;
  EXPECT_EQ(hash_after(other, 0), expected);
  EXPECT_EQ(differing_parts(hash_after(other, 1), hash_after(config, 1)), "weights, moments, data");
}

// One bit of the last element of each tensor of the model.
TEST(StateHash, SeesOneBitOfAnyWeight) {
  Trainer trainer(hashed_config("bf16"));
  trainer.step(small_tokens());
  const StateHash expected = trainer.hash();
  for (const auto& [name, parameter] : trainer.model().named_parameters()) {
    // As a fault does it: no version counts it.
    auto* const bits = static_cast<uint32_t*>(parameter.raw_data()) + parameter.numel() - 1;
    *bits ^= 1;
    EXPECT_EQ(differing_parts(trainer.hash(), expected), "weights") << name;
    *bits ^= 1;
  }
  EXPECT_EQ(trainer.hash(), expected);
}

// Both the parameters and the master weights behind them count.
TEST(StateHash, SeesMasterWeightsAndTheirCopies) {
  for (const ParameterStorage storage : {ParameterStorage::masters, ParameterStorage::split}) {
    Config config = hashed_config("bf16");
    config.precision.params = storage;
    Trainer trainer(config);
    trainer.step(small_tokens());
    const StateHash expected = trainer.hash();
    EXPECT_EQ(hash_after(config, 1), expected);
    StateDict state = trainer.state_dict();
    const Tensor master = state.at("optimizer.0.master");
    static_cast<uint32_t*>(master.raw_data())[1] ^= 1;
    trainer.load_state_dict(state);
    EXPECT_EQ(differing_parts(trainer.hash(), expected), "weights");
  }
}

TEST(StateHash, ContinuesFromACheckpoint) {
  for (const char* precision : {"fp32", "fp16", "fp8"}) {
    SCOPED_TRACE(precision);
    const testing::TemporaryFolder folder;
    const Config config = hashed_config(precision);
    Trainer first(config);
    for (int i = 0; i < 3; ++i) first.step(small_tokens());
    const std::filesystem::path saved = save_checkpoint(first, folder / "checkpoints", 1);
    EXPECT_EQ(read_hash(saved).state, first.hash());
    EXPECT_FALSE(read_hash(saved).link);
    Trainer resumed(config);
    load_checkpoint(resumed, saved);
    EXPECT_EQ(resumed.hash(), first.hash());
    resumed.step(small_tokens());
    EXPECT_EQ(resumed.hash(), hash_after(config, 4));
  }
}

// Batches count by their contents, their place in the run, and what of them is a target.
TEST(StateHash, OfABatch) {
  const data::Batch batch = data::training_batch(small_tokens(), {2, 8, 1}, 0, 5, 0);
  const uint64_t expected = hash_of(batch, 5, 0);
  EXPECT_EQ(hash_of(data::training_batch(small_tokens(), {2, 8, 1}, 0, 5, 0), 5, 0), expected);
  EXPECT_NE(hash_of(batch, 6, 0), expected);
  EXPECT_NE(hash_of(batch, 5, 1), expected);
  data::Batch other = batch;
  std::swap(other.tokens, other.targets);
  EXPECT_NE(hash_of(other, 5, 0), expected);
  other = batch;
  other.weight = Tensor::empty({}, DType::f32);
  *other.weight.mutable_data<float>() = 1;
  EXPECT_NE(hash_of(other, 5, 0), expected);
  other = batch;
  other.documents = {0, 8, 16};
  EXPECT_NE(hash_of(other, 5, 0), expected);
}

}  // namespace
}  // namespace binade::train
