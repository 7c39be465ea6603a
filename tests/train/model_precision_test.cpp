#include "binade/train/model_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/amp/recipe/text.h"
#include "binade/autograd/grad_mode.h"
#include "binade/io/huggingface.h"
#include "binade/ops/create/create.h"
#include "binade/train/checkpoint.h"
#include "binade/train/config/component_options.h"
#include "io/temporary_folder.h"
#include "support/values.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

InferencePrecision by_recipe(const char* text) {
  return {.matmul = Precision::quantized, .recipe = amp::parse_recipe(text)};
}

// A model trained for three steps by a recipe, and its checkpoint.
class TrainedModel {
 public:
  explicit TrainedModel(const InferencePrecision& precision) : trainer_(config(precision)) {
    for (int i = 0; i < 3; ++i) trainer_.step(small_tokens());
    folder_ = save_checkpoint(trainer_, files_.path(), 1);
  }

  const std::filesystem::path& folder() const { return folder_; }
  // The logits of a training step's forward, which records a graph.
  Tensor training_logits(const Tensor& tokens) {
    const amp::Autocast cast(autocast_state(trainer_.config()));
    const amp::QuantizedAutocast quantized(recipe_state(trainer_.config()));
    return trainer_.model().logits(tokens);
  }

 private:
  static Config config(const InferencePrecision& precision) {
    Config config = small_config();
    config.precision.matmul = precision.matmul;
    config.precision.recipe = precision.recipe;
    return config;
  }

  testing::TemporaryFolder files_;
  Trainer trainer_;
  std::filesystem::path folder_;
};

TEST(ModelPrecision, IsThatOfTraining) {
  const Tensor tokens = randint(0, 200, {2, 8}, {.seed = 3});
  for (const char* recipe : {"delayed, history = 4", "row", "block", "mxfp8", "nvfp4-plain"}) {
    SCOPED_TRACE(recipe);
    const InferencePrecision precision = by_recipe(recipe);
    TrainedModel trained(precision);
    const auto model = io::load_pretrained(trained.folder());
    load_scales(*model, trained.folder(), precision, "eval");
    const Tensor expected = trained.training_logits(tokens);
    const NoGrad no_grad;
    const InferenceScope scope(precision, Device::cpu());
    EXPECT_TRUE(test::same_bits(model->logits(tokens), expected));
    // The forward records no amax, so that the next one has the same scales.
    EXPECT_TRUE(test::same_bits(model->logits(tokens), expected));
  }
}

TEST(ModelPrecision, OthersRunByAutocast) {
  const TrainedModel trained({});
  const auto model = io::load_pretrained(trained.folder());
  const Tensor tokens = randint(0, 200, {1, 8}, {.seed = 3});
  const NoGrad no_grad;
  const Tensor exact = model->logits(tokens);
  for (const auto& [precision, dtype] :
       {std::pair(Precision::bf16, DType::bf16), {Precision::fp16, DType::f16}}) {
    const Tensor cast = [&] {
      const amp::Autocast scope(dtype);
      return model->logits(tokens);
    }();
    const InferenceScope scope({.matmul = precision}, Device::cpu());
    EXPECT_TRUE(test::same_bits(model->logits(tokens), cast));
    EXPECT_FALSE(test::same_bits(cast, exact));
  }
  const InferenceScope scope({}, Device::cpu());
  EXPECT_TRUE(test::same_bits(model->logits(tokens), exact));
}

TEST(ModelPrecision, DelayedScalesMustBeThere) {
  const InferencePrecision delayed = by_recipe("delayed");
  const TrainedModel plain({});
  const auto model = io::load_pretrained(plain.folder());
  EXPECT_THAT(
      test::error_of([&] { load_scales(*model, plain.folder(), delayed, "eval"); }),
      AllOf(HasSubstr("eval: --precision fp8 by recipe delayed: expected a checkpoint with its "
                      "delayed scales"),
            HasSubstr("--recipe row")));
  EXPECT_NO_THROW(load_scales(*model, plain.folder(), by_recipe("row"), "eval"));
  EXPECT_NO_THROW(load_scales(*model, plain.folder(), {}, "eval"));
}

TEST(ModelPrecision, KnowsWhatDependsOnTheBatch) {
  for (const char* recipe : {"current", "nvfp4", "row, head = true"})
    EXPECT_TRUE(by_recipe(recipe).depends_on_batch()) << recipe;
  for (const char* recipe :
       {"delayed", "row", "block", "mx", "mxfp4", "current, matmuls = [\"wgrad\"]"})
    EXPECT_FALSE(by_recipe(recipe).depends_on_batch()) << recipe;
  EXPECT_FALSE(InferencePrecision{}.depends_on_batch());
}

}  // namespace
}  // namespace binade::train
