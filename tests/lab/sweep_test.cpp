#include "binade/lab/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/base/random.h"
#include "binade/data/corpus.h"
#include "binade/data/tokenizer.h"
#include "binade/ops/create/copy.h"
#include "binade/train/config/component_options.h"
#include "binade/train/config/presets.h"
#include "io/temporary_folder.h"
#include "train/small_run.h"

namespace binade::lab {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Text in which a symbol is mostly determined by the one before it, by a rule that a narrow model
// can learn only with its MLP.
std::string text_with_a_rule() {
  std::string text = "a";
  for (uint64_t i = 0; i < 20000; ++i) {
    const auto last = static_cast<unsigned char>(text.back());
    const uint32_t rule = random::bits(1, last, 0) % 64, any = random::bits(2, 0, i) % 64;
    text += static_cast<char>(' ' + (random::bits(3, 0, i) % 4 != 0 ? rule : any));
  }
  return text;
}

train::Config sweep_config(const std::filesystem::path& text) {
  train::Config config = train::small_config("fp8");
  config.data.source = text.string();
  config.model.layers = 1;
  config.model.context = 16;
  config.train.batch = 16;
  config.train.steps = 120;
  config.train.warmup = 10;
  config.train.lr = 8e-3;
  config.precision.recipe = amp::recipes::delayed();
  return config;
}

// A giant weight on a hidden unit that is always off: FP8 flushes all other weights of the layer.
void plant_sensitive_layer(train::Trainer& trainer) {
  const NoGrad no_grad;
  for (const auto& [name, tensor] : trainer.model().named_parameters()) {
    if (name == "blocks.0.mlp.up.weight") fill_(tensor.strided({1}, {1}, 0), 1e5);
    if (name == "blocks.0.mlp.up.bias") fill_(tensor.strided({1}, {1}, 0), -1e9);
  }
}

TEST(Sweep, RanksAPlantedLayerFirstAndPlansForIt) {
  const testing::TemporaryFolder folder;
  folder.put("text.txt", text_with_a_rule());
  train::Config config = sweep_config(folder / "text.txt");
  const Sweep result = sweep(config, {.prepare = plant_sensitive_layer});
  ASSERT_EQ(result.ranked.size(), 4u);
  EXPECT_EQ(result.ranked[0].module, "blocks.0.mlp.up") << sweep_text(result);
  EXPECT_GT(result.ranked[0].excess, 0.02) << sweep_text(result);
  EXPECT_LT(result.ranked[1].excess, result.ranked[0].excess / 2) << sweep_text(result);
  const train::PrecisionPlan plan = result.plan();
  ASSERT_FALSE(plan.layers.empty()) << sweep_text(result);
  EXPECT_EQ(plan.layers[0].module, "blocks.0.mlp.up");
  EXPECT_LT(result.planned_loss(), result.fp8);
  EXPECT_LT(result.planned_loss() / result.bf16 - 1, result.ranked[0].excess / 2);

  // A run takes the plan.
  const auto file = folder / "plan.json";
  train::write_precision_plan(plan, file);
  EXPECT_EQ(train::read_precision_plan(file), plan);
  config.precision.plan = file.string();
  EXPECT_TRUE(train::Trainer(config).recipes().overrides.contains("blocks.0.mlp.up"));
}

// The mean of the second half of a run's losses: of three steps the last two.
TEST(Sweep, ComparesTheSecondHalvesOfItsRuns) {
  const testing::TemporaryFolder folder;
  folder.put("text.txt", text_with_a_rule());
  train::Config config = sweep_config(folder / "text.txt");
  config.train.steps = 3;
  config.train.warmup = 0;
  std::vector<std::string> lines;
  const Sweep result = sweep(config, {.on_run = [&](auto& line) {
                               lines.push_back(line);
                               return lines.size() < 3;
                             }});
  EXPECT_TRUE(result.interrupted);
  const auto expected = [&](train::Precision precision) {
    train::Trainer trainer(train::with_precision(config, precision));
    const auto tokenizer = data::open_tokenizer(config.data.tokenizer);
    const data::Split split = data::read_split(train::data_source(config, tokenizer.get()));
    double losses[3];
    for (double& loss : losses) loss = trainer.step(split.train).loss;
    return (losses[1] + losses[2]) / 2;
  };
  EXPECT_DOUBLE_EQ(result.bf16, expected(train::Precision::bf16));
  EXPECT_DOUBLE_EQ(result.fp8, expected(train::Precision::quantized));
  const double fp32 = expected(train::Precision::fp32);
  EXPECT_DOUBLE_EQ(result.noise, std::abs(fp32 - result.bf16) / result.bf16);
}

TEST(Sweep, TakesMatmulsOneByOneAndCanBeStopped) {
  const testing::TemporaryFolder folder;
  folder.put("text.txt", text_with_a_rule());
  train::Config config = sweep_config(folder / "text.txt");
  config.train.steps = 2;
  config.train.warmup = 0;
  std::vector<std::string> lines;
  const Sweep result = sweep(config, {.by = SweepOptions::By::matmul, .on_run = [&](auto& line) {
                                        lines.push_back(line);
                                        return lines.size() < 6;
                                      }});
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.ranked.size(), 3u);  // after bf16, fp32 and fp8
  EXPECT_THAT(lines[3], HasSubstr("blocks.0.attention.qkv, forward in FP8: loss "));
  EXPECT_THAT(lines[4], HasSubstr("blocks.0.attention.qkv, dgrad"));
  EXPECT_THAT(lines[5], HasSubstr("blocks.0.attention.qkv, wgrad"));
  EXPECT_THAT(result.moves, IsEmpty());
}

TEST(Sweep, PlansSingleMatmuls) {
  Sweep result{.bf16 = 2, .fp8 = 3, .noise = 0.01};
  const auto unit = [](const char* module, bool forward, bool dgrad, double excess) {
    return Sweep::Unit{.module = module,
                       .forward = forward,
                       .dgrad = dgrad,
                       .wgrad = !forward && !dgrad,
                       .loss = 2 * (1 + excess),
                       .excess = excess};
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  result.moves = {{unit("a", true, false, nan), 2.5, true},
                  {unit("b", false, true, 0.2), 2.6, false},
                  {unit("a", false, true, 0.1), 2.1, true}};
  const train::PrecisionPlan plan = result.plan();
  ASSERT_EQ(plan.layers.size(), 1u);
  EXPECT_EQ(plan.layers[0].module, "a");
  EXPECT_TRUE(plan.layers[0].forward && plan.layers[0].dgrad && !plan.layers[0].wgrad);
  EXPECT_EQ(plan.layers[0].harm, 1);  // a run that diverged
  EXPECT_EQ(result.planned_loss(), 2.1);
  const std::string text = sweep_text(result), page = sweep_html(result);
  EXPECT_THAT(text, HasSubstr("b, dgrad"));
  EXPECT_THAT(text, HasSubstr("undone"));
  EXPECT_THAT(page, HasSubstr("a, forward"));
  EXPECT_EQ(page.find("http:"), std::string::npos);
}

TEST(Sweep, RefusesOtherPrecisions) {
  train::Config config = train::small_config("bf16");
  EXPECT_THROW(sweep(config), Error);
}

}  // namespace
}  // namespace binade::lab
