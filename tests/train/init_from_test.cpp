#include "binade/train/init_from.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/io/huggingface.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/train/run/loop.h"
#include "binade/train/trainer.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class InitFrom : public ::testing::Test {
 protected:
  InitFrom()
      : model_({.layers = 2,
                .width = 16,
                .heads = 4,
                .kv_heads = 2,
                .hidden = 40,
                .vocab = 256,
                .context = 16,
                .eps = 1e-6,
                .rope_theta = 5000,
                .tied_head = true,
                .seed = 3}) {
    io::save_pretrained(model_, folder_ / "model");
  }

  Config configured(std::vector<std::pair<std::string, std::string>> options) {
    options.emplace_back("device", "cpu");
    options.emplace_back("init-from", (folder_ / "model").string());
    return resolve({.file = {}, .options = std::move(options)});
  }

  testing::TemporaryFolder folder_;
  nn::Llama model_;
};

TEST_F(InitFrom, SetsFamilyAndSizes) {
  const Config config = configured({});
  EXPECT_EQ(config.model.family, ModelFamily::llama);
  EXPECT_EQ(config.model.layers, 2);
  EXPECT_EQ(config.model.kv_heads, 2);
  EXPECT_EQ(config.model.hidden, 40);
  EXPECT_EQ(config.model.context, 16);
  EXPECT_EQ(config.model.tied_head, true);
  EXPECT_EQ(config.model.norm_eps, 1e-6);
  EXPECT_EQ(config.model.rope_theta, 5000);
  EXPECT_EQ(configured({{"context", "8"}}).model.context, 8);
}

TEST_F(InitFrom, TakesTheStepsAndRateOfFineTuning) {
  const Config config = configured({});
  EXPECT_EQ(config.train.lr, 3e-5);
  EXPECT_EQ(config.train.steps, 500);
  EXPECT_EQ(config.train.warmup, 50);
  EXPECT_EQ(configured({{"lr", "1e-4"}}).train.lr, 1e-4);
  EXPECT_EQ(configured({{"lora-rank", "2"}}).train.lr, 2e-4);  // adapters take larger steps
  EXPECT_EQ(configured({{"lora-rank", "2"}}).train.steps, 500);
  EXPECT_EQ(configured({{"lora-rank", "2"}, {"lr", "1e-4"}}).train.lr, 1e-4);
}

TEST_F(InitFrom, ASavedConfigurationNeedsTheFolderNoMore) {
  const Config config = configured({});
  std::filesystem::remove_all(folder_ / "model");
  EXPECT_EQ(resolve_text(to_toml(config), "saved"), config);
  EXPECT_THAT(test::error_of([&] { configured({}); }), HasSubstr("nothing there"));
}

TEST_F(InitFrom, RefusesWeightsThatAreNotFinite) {
  {
    const NoGrad no_grad;
    fill_(model_.named_parameters()[2].second.strided({1}, {1}, 3), std::nan(""));
  }
  io::save_pretrained(model_, folder_ / "model");
  const Config config = configured({});
  EXPECT_THAT(test::error_of([&] { Trainer(config).init_from(config.model.init_from); }),
              AllOf(HasSubstr(model_.named_parameters()[2].first),
                    HasSubstr("weights that are finite in f32")));
}

TEST_F(InitFrom, TheFirstStepIsTakenFromThoseWeights) {
  for (const char* params : {"autocast", "masters", "split"}) {
    const Config config = configured({{"params", params}, {"lr", "0"}});
    Trainer trainer(config);
    trainer.init_from(config.model.init_from);
    const Tensor tokens = randint(0, 256, {1, 8}, {5, 0});
    if (std::string(params) == "autocast") {
      EXPECT_EQ(to_vector(trainer.model().logits(tokens)), to_vector(model_.logits(tokens)));
    }
    // With a learning rate of 0 a step changes no weight, if the master weights agree with them.
    const Tensor weight = trainer.model().parameters()[0];
    const std::vector<double> before = to_vector(weight);
    trainer.step(data::Tokens::of_bytes(small_text()));
    EXPECT_EQ(to_vector(weight), before) << params;
    // Master weights are the file's f32 weights, not the rounded ones of 16-bit parameters.
    EXPECT_EQ(to_vector(trainer.optimizer().master_of(weight)), to_vector(model_.parameters()[0]))
        << params;
  }
}

TEST_F(InitFrom, OtherSizesAreNamed) {
  const auto start = [this](std::vector<std::pair<std::string, std::string>> options) {
    const Config config = configured(std::move(options));
    nn::LanguageModel model(model_config(config));
    load_initial_weights(model, config.model.init_from);
  };
  EXPECT_NO_THROW(start({{"context", "8"}}));
  EXPECT_THAT(test::error_of([&] {
                start({{"layers", "3"}});
              }),
              AllOf(HasSubstr("layers 3"), HasSubstr("found 2")));
  EXPECT_THAT(test::error_of([&] {
                start({{"vocab", "300"}, {"data", "x.bin"}});
              }),
              HasSubstr("vocab 300"));
  EXPECT_THAT(test::error_of([&] {
                start({{"context", "32"}});
              }),
              HasSubstr("use --context 16 or less"));
  EXPECT_THAT(test::error_of([&] {
                start({{"model", "gpt2"}, {"kv-heads", "4"}});
              }),
              HasSubstr("kv_heads 4"));
}

TEST_F(InitFrom, TextByBytesNeedsAModelOfBytes) {
  io::save_pretrained(nn::GPT({.layers = 1, .width = 8, .heads = 2, .vocab = 300, .context = 8}),
                      folder_ / "model");
  EXPECT_THAT(test::error_of([&] { configured({}); }), HasSubstr("token file (.bin)"));
  EXPECT_NO_THROW(configured({{"data", "some.bin"}}));
}

TEST_F(InitFrom, ARunStartsWhereTheModelEnded) {
  Config config = configured({{"steps", "3"}, {"batch", "2"}, {"sample", "0"}});
  config.data.source = folder_.put("text.txt", small_text()).string();
  config.run.out = (folder_ / "run").string();
  const RunResult first = run(config, Progress::Mode::quiet);
  config.model.init_from = first.folder.string();
  config.run.out = (folder_ / "again").string();
  const RunResult second = run(config, Progress::Mode::quiet);
  EXPECT_EQ(second.first_validation_loss, first.last_validation_loss);
}

}  // namespace
}  // namespace binade::train
