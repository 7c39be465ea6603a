// Quantization-aware training as a run has it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/autograd/grad_mode.h"
#include "binade/io/huggingface.h"
#include "binade/io/weight_formats.h"
#include "binade/ops/create/create.h"
#include "binade/ops/quantized/round_weight.h"
#include "binade/train/checkpoint.h"
#include "binade/train/config/component_options.h"
#include "binade/train/evaluate.h"
#include "binade/train/trainer.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"
#include "support/values.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

using ::testing::HasSubstr;

// Rows of whole groups of every format but those of 256.
Config qat_config(const std::string& format, const std::string& precision = "bf16") {
  Config config = small_config(precision);
  config.model.family = ModelFamily::llama;
  config.model.width = 128;
  config.model.hidden = 256;
  config.model.heads = 4;
  config.model.kv_heads = 2;  // q, k and v of different sizes
  config.train.accumulate = 2;
  config.qat.format = formats::find_weight_format(format);
  return config;
}

std::vector<double> losses_of(Trainer& trainer, int64_t steps) {
  std::vector<double> losses;
  for (int64_t i = 0; i < steps; ++i) losses.push_back(trainer.step(small_tokens()).loss);
  return losses;
}

TEST(QatRun, ResumesBitForBitInEveryFormatAndPrecision) {
  std::vector<std::pair<std::string, std::string>> cases;
  for (const formats::WeightFormat& format : formats::weight_formats()) {
    if (format.group_columns <= 128) cases.emplace_back(format.name, "bf16");
  }
  ASSERT_EQ(cases.size(), 6U);
  cases.emplace_back("nvfp4", "fp32");
  cases.emplace_back("q4_0", "fp16");
  for (const auto& [format, precision] : cases) {
    SCOPED_TRACE(format + " " + precision);
    const Config config = qat_config(format, precision);
    Trainer straight(config), stopped(config), resumed(config), plain([&] {
      Config without = config;
      without.qat = {};
      return without;
    }());
    losses_of(straight, 3);
    losses_of(stopped, 3);
    losses_of(plain, 3);
    resumed.model().load_state_dict(stopped.model().state_dict());
    resumed.load_state_dict(stopped.state_dict());
    const std::vector<double> expected = losses_of(straight, 3);
    EXPECT_EQ(losses_of(resumed, 3), expected);
    EXPECT_NE(losses_of(plain, 3), expected);
    EXPECT_EQ(straight.evaluate(small_tokens()).loss, resumed.evaluate(small_tokens()).loss);
  }
}

TEST(QatRun, HasTheSameBitsRecomputed) {
  Config kept = qat_config("nvfp4"), again = kept;
  kept.train.activations = nn::parse_activations("keep");
  again.train.activations = nn::parse_activations("recompute");
  Trainer first(kept), second(again);
  EXPECT_EQ(losses_of(first, 4), losses_of(second, 4));
}

// A step on rounded weights is one of a model that has these weights, whose gradients the
// unrounded ones then get.
TEST(QatRun, AStepHasTheGradientsOfTheRoundedModel) {
  const Config config = qat_config("int4-g128", "fp32");
  const auto model = make_model(config, placement(config));
  Config plain = config;
  plain.qat = {};
  const auto rounded = make_model(plain, placement(plain));
  rounded->load_state_dict(model->state_dict());
  {
    const NoGrad no_grad;
    for (auto& [name, parameter] : rounded->named_parameters()) {
      const bool is_linear = name.find("blocks.") == 0 && parameter.rank() == 2;
      if (is_linear) parameter.detach().copy_(round_weight(parameter, *config.qat.format));
    }
  }
  const data::Batch batch =
      data::training_batch(small_tokens(), {2, config.model.context, 1}, 0, 0, 0);
  const Tensor a = model->loss(batch.tokens, batch.targets),
               b = rounded->loss(batch.tokens, batch.targets);
  EXPECT_EQ(to_vector(a), to_vector(b));
  a.backward();
  b.backward();
  const auto of_rounded = rounded->named_parameters();
  size_t compared = 0;
  for (const auto& [name, parameter] : model->named_parameters()) {
    for (const auto& [other, same] : of_rounded) {
      if (name != other) continue;
      EXPECT_EQ(to_vector(parameter.grad()), to_vector(same.grad())) << name;
      ++compared;
    }
  }
  EXPECT_EQ(compared, of_rounded.size());
}

TEST(QatRun, LeavesOutWhatIsExcludedAndTakesTheHeadInIfAsked) {
  const auto format_at = [](nn::LanguageModel& model, const std::string& path) {
    for (const auto& [name, module] : model.named_modules()) {
      if (name == path) return dynamic_cast<nn::Linear&>(*module).weight_format();
    }
    throw std::runtime_error(path);
  };
  Config config = qat_config("q4_0");
  config.qat.exclude = {"v_proj", "model.layers.1.mlp.*"};
  config.qat.head = true;
  const auto model = make_model(config, placement(config));
  EXPECT_NE(format_at(*model, "blocks.0.mlp.up"), nullptr);
  EXPECT_EQ(format_at(*model, "blocks.1.mlp.up"), nullptr);
  EXPECT_EQ(format_at(*model, "blocks.1.mlp.down"), nullptr);
  EXPECT_NE(format_at(*model, "blocks.1.attention.qkv"), nullptr);
  ASSERT_NE(model->head_format(), nullptr);
  EXPECT_EQ(model->head_format()->name, "q4_0");
  config.qat = {.format = config.qat.format};
  EXPECT_EQ(make_model(config, placement(config))->head_format(), nullptr);
}

TEST(QatRun, RefusesWhatItCannotRound) {
  const auto refusal = [](const Config& config) {
    return test::error_of([&] { make_model(config, placement(config)); });
  };
  Config config = qat_config("int4-g128");
  config.model.hidden = 320;
  EXPECT_THAT(refusal(config), HasSubstr("down_proj"));
  EXPECT_THAT(refusal(config), HasSubstr("multiple of 128 elements for int4-g128, found 320"));
  config.qat.exclude = {"down_proj"};
  EXPECT_EQ(refusal(config), "");
  config.qat.exclude = {"down_proj", "dwon_proj"};
  EXPECT_THAT(refusal(config), HasSubstr("\"dwon_proj\""));
  config = qat_config("q6_k");
  EXPECT_THAT(refusal(config), HasSubstr("multiple of 256"));
}

// The checkpoint of a run, evaluated as its format, has the loss that the run's validation has.
TEST(QatRun, TheModelOfItsWeightsEvaluatesAlike) {
  const testing::TemporaryFolder folder;
  Config config = qat_config("nvfp4", "fp32");
  config.train.accumulate = 1;
  Trainer trainer(config);
  losses_of(trainer, 2);
  io::save_pretrained(trainer.model(), folder.path());
  const auto loaded = io::load_pretrained(folder.path());
  const double plain = evaluate(*loaded, small_tokens(), 4).loss;
  io::set_weight_format(*loaded, weight_format_options(config));
  const double as_trained = evaluate(*loaded, small_tokens(), 4).loss;
  EXPECT_EQ(as_trained, evaluate(trainer.model(), small_tokens(), 4).loss);
  EXPECT_NE(as_trained, plain);
  io::set_weight_format(*loaded, {});
  EXPECT_EQ(evaluate(*loaded, small_tokens(), 4).loss, plain);
}

// The adapters of a run with LoRA are merged into what is rounded: the merged model, rounded, has
// the losses of the run.
TEST(QatRun, AdaptersAreMergedBeforeRounding) {
  const testing::TemporaryFolder base, run;
  Config config = qat_config("q4_0", "fp32");
  {
    Config plain = config;
    plain.qat = {};
    io::save_pretrained(*make_model(plain, placement(plain)), base.path());
  }
  config.lora = {.rank = 4, .alpha = 8};
  config.model.init_from = base.path().string();
  config.train.lr = 1e-2;
  Trainer trainer(config);
  trainer.init_from(base.path());
  losses_of(trainer, 3);
  const auto merged = io::load_pretrained(save_checkpoint(trainer, run.path(), 1));
  io::set_weight_format(*merged, weight_format_options(config));
  EXPECT_EQ(evaluate(*merged, small_tokens(), 4).loss,
            evaluate(trainer.model(), small_tokens(), 4).loss);
  const auto untrained = io::load_pretrained(base.path());
  io::set_weight_format(*untrained, weight_format_options(config));
  EXPECT_NE(evaluate(*untrained, small_tokens(), 4).loss,
            evaluate(*merged, small_tokens(), 4).loss);
}

}  // namespace
}  // namespace binade::train
