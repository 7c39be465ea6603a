#include "binade/train/preferences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/base/json.h"
#include "binade/data/corpus.h"
#include "binade/data/documents.h"
#include "binade/io/huggingface.h"
#include "binade/io/lora.h"
#include "binade/io/safetensors.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/loss/log_probs.h"
#include "binade/ops/norm/softmax.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "binade/optim/adam.h"
#include "binade/optim/clip.h"
#include "binade/train/checkpoint.h"
#include "binade/train/config/component_options.h"
#include "binade/train/report/run_summary.h"
#include "binade/train/run/loop.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Pairs of different lengths. The better answer to a letter is in capitals.
std::string small_pairs(int count = 24) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    const std::string prompt(static_cast<size_t>(i % 3 + 1), static_cast<char>('a' + i % 7));
    const std::string answer(static_cast<size_t>(i % 4 + 1), static_cast<char>('A' + i % 7));
    lines += R"({"prompt": ")" + prompt + R"(", "chosen": ")" + answer + R"(", "rejected": ")" +
             std::to_string(i * i) + "\"}\n";
  }
  return lines;
}

class PreferenceRun : public ::testing::Test {
 protected:
  PreferenceRun() {
    Config base = small_config();
    base.model.context = 16;
    base.train.seed = 3;
    io::save_pretrained(nn::LanguageModel(model_config(base)), folder_ / "base");
    data_ = folder_.put("pairs.jsonl", small_pairs()).string();
  }

  Config config(const std::string& precision = "fp32") const {
    Config config = small_config(precision);
    config.model.context = 16;
    config.model.init_from = (folder_ / "base").string();
    config.objective.kind = Objective::dpo;
    config.data.source = data_;
    config.train.accumulate = 2;
    config.train.batch = 3;
    config.run.out = (folder_ / "run").string();
    return config;
  }
  static data::Split split_of(const Config& config) {
    return data::read_split(data_source(config, nullptr));
  }
  // A trainer at the start of a run, and its data.
  static std::unique_ptr<Trainer> started(const Config& config, data::Split& split) {
    auto trainer = std::make_unique<Trainer>(config);
    trainer->init_from(config.model.init_from);
    split = split_of(config);
    trainer->prepare_reference(split);
    return trainer;
  }

  testing::TemporaryFolder folder_;
  std::string data_;
};

std::map<std::string, std::vector<double>> weights_of(Trainer& trainer) {
  std::map<std::string, std::vector<double>> result;
  for (const auto& [name, parameter] : trainer.model().named_parameters())
    if (parameter.requires_grad())
      result[name] = to_vector(trainer.optimizer().master_of(parameter));
  return result;
}

// --- The log-probabilities of a batch ---

TEST(PairLogProbs, AreThoseOfLogitsWithTheirGradients) {
  nn::Llama model({.layers = 2,
                   .width = 16,
                   .heads = 4,
                   .kv_heads = 2,
                   .hidden = 24,
                   .vocab = 11,
                   .context = 8});
  const Tensor tokens = randint(0, 11, {4, 7}, {7, 0});
  Tensor targets = randint(0, 11, {4, 7}, {7, 1});
  for (const int64_t ignored : {0, 9, 10, 27}) targets.mutable_data<int64_t>()[ignored] = -100;
  const Tensor factors = randn({2, 2}, {7, 2});
  const auto gradients_of = [&](const Tensor& log_probs) {
    for (const Tensor& parameter : model.parameters()) parameter.zero_grad();
    sum(log_probs * factors).backward();
    std::vector<std::vector<double>> result;
    for (const Tensor& parameter : model.parameters())
      result.push_back(to_vector(parameter.grad()));
    return result;
  };
  const Tensor expected = reshape(sum(token_log_probs(model.logits(tokens), targets), {1}), {2, 2});
  const auto expected_gradients = gradients_of(expected);
  for (const int64_t chunk : {0, 5, 28, 100}) {
    model.set_loss_chunk(chunk);
    const Tensor found = pair_log_probs(model, {.tokens = tokens, .targets = targets});
    EXPECT_EQ(to_vector(found), to_vector(expected)) << chunk;
    const auto gradients = gradients_of(found);
    for (size_t i = 0; i < gradients.size(); ++i) {
      for (size_t k = 0; k < gradients[i].size(); ++k)
        ASSERT_NEAR(gradients[i][k], expected_gradients[i][k], 1e-5) << chunk << " " << i;
    }
  }
}

// --- The trainer against a loop by hand ---

// The loss of a batch of pairs by logits, softmax and sigmoid alone.
struct HandLoss {
  Tensor loss;
  double right = 0, margin = 0;
};
Tensor log_probs_by_hand(nn::LanguageModel& model, const data::Batch& batch) {
  const Tensor log_softmaxed = log_softmax(model.logits(batch.tokens), -1);
  const auto* targets = batch.targets.data<int64_t>();
  std::vector<Tensor> answers;
  for (int64_t line = 0; line < batch.tokens.size(0); ++line) {
    Tensor total = zeros({});
    for (int64_t i = 0; i < batch.tokens.size(1); ++i) {
      const int64_t target = targets[line * batch.tokens.size(1) + i];
      if (target >= 0)
        total = total + select(select(select(log_softmaxed, 0, line), 0, i), 0, target);
    }
    answers.push_back(total);
  }
  return stack(answers, 0);
}

HandLoss loss_by_hand(nn::LanguageModel& model, nn::LanguageModel& reference,
                      const data::Batch& batch, const ObjectiveSettings& objective) {
  Tensor before;
  {
    const NoGrad no_grad;
    before = log_probs_by_hand(reference, batch);
  }
  const Tensor rewards = (log_probs_by_hand(model, batch) - before) * objective.beta;
  HandLoss result{.loss = zeros({})};
  const int64_t pairs = rewards.size(0) / 2;
  for (int64_t i = 0; i < pairs; ++i) {
    const Tensor margin = select(rewards, 0, 2 * i) - select(rewards, 0, 2 * i + 1);
    const Tensor right = sigmoid(margin), s = full({}, objective.label_smoothing);
    result.loss = result.loss - log(right) * (1 - s) - log(1 - right) * s;
    result.right += margin.item() > 0 ? 1.0 / static_cast<double>(pairs) : 0;
    result.margin += margin.item() / static_cast<double>(pairs);
  }
  result.loss = result.loss * (1.0 / static_cast<double>(pairs));
  return result;
}

TEST_F(PreferenceRun, HasLearningRatesOfItsOwn) {
  const Sources::Options options = {{"objective", "dpo"},
                                    {"init-from", (folder_ / "base").string()},
                                    {"data", data_},
                                    {"device", "cpu"}};
  EXPECT_EQ(resolve({{}, options}).train.lr, 1e-6);
  Sources::Options with_adapters = options;
  with_adapters.emplace_back("lora-rank", "4");
  EXPECT_EQ(resolve({{}, with_adapters}).train.lr, 1e-5);
}

TEST_F(PreferenceRun, IsTheLoopWrittenByHand) {
  Config config = this->config();
  config.objective.beta = 0.7;
  config.objective.label_smoothing = 0.1;
  config.train.weight_decay = 0;
  config.train.clip = 0;
  config.train.warmup = 0;
  config.train.schedule = optim::ScheduleKind::constant;
  data::Split split;
  const auto trainer = started(config, split);
  const auto model = io::load_pretrained(folder_ / "base"),
             reference = io::load_pretrained(folder_ / "base");
  optim::AdamW optimizer(model->parameters(), {.lr = config.train.lr,
                                               .beta1 = config.train.beta1,
                                               .beta2 = config.train.beta2,
                                               .weight_decay = 0});
  for (int64_t step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    double loss = 0, right = 0, margin = 0;
    for (int64_t micro = 0; micro < 2; ++micro) {
      const data::Batch batch = data::training_batch(
          split.train, {config.train.batch, config.model.context, 2}, 0, step, micro);
      const HandLoss one = loss_by_hand(*model, *reference, batch, config.objective);
      (one.loss * 0.5).backward();
      loss += one.loss.item() / 2;
      right += one.right / 2;
      margin += one.margin / 2;
    }
    optimizer.step();
    const StepResult found = trainer->step(split.train);
    // Adam divides gradients by their size, so that roundings of f32 grow a little each step.
    EXPECT_NEAR(found.loss, loss, 2e-5) << step;
    ASSERT_TRUE(found.preferences);
    EXPECT_NEAR(found.preferences->margin(), margin, 1e-4) << step;
    // Roundings decide the order of equal models.
    const double tolerance = step > 0 ? 1e-6 : 1;
    EXPECT_NEAR(found.preferences->accuracy, right, tolerance) << step;
  }
  EXPECT_EQ(trainer->finish_all().size(), 0u);
}

// --- What holds in every precision ---

class PreferencePrecision : public PreferenceRun,
                            public ::testing::WithParamInterface<const char*> {
 protected:
  // FP8 validates and has its reference without a recipe.
  static bool is_exact() { return GetParam() != std::string("fp8"); }
};

TEST_P(PreferencePrecision, BeginsWithTheLogarithmOfTwo) {
  for (const int64_t rank : {0, 2}) {
    Config config = this->config(GetParam());
    config.lora.rank = rank;
    data::Split split;
    const auto trainer = started(config, split);
    const Validation validation = trainer->evaluate(split.validation);
    EXPECT_EQ(validation.loss, static_cast<double>(std::log(2.0F)));
    EXPECT_EQ(validation.preferences->margin(), 0);
    EXPECT_EQ(validation.preferences->accuracy, 0);
    EXPECT_LT(validation.preferences->chosen_log_prob, -1);
    const StepResult first = trainer->step(split.train);
    EXPECT_NEAR(first.loss, std::log(2.0), is_exact() ? 1e-7 : 0.05);
    EXPECT_NEAR(first.preferences->margin(), 0, is_exact() ? 0 : 0.1);
    EXPECT_TRUE(first.applied || GetParam() == std::string("fp16"));
  }
}

TEST_P(PreferencePrecision, ResumesBitForBit) {
  for (const int64_t rank : {0, 2}) {
    Config config = this->config(GetParam());
    config.lora.rank = rank;
    config.train.activations = nn::Activations::recompute();
    data::Split split;
    const auto straight = started(config, split);
    for (int i = 0; i < 3; ++i) straight->step(split.train);
    const fs::path saved =
        save_checkpoint(*straight, folder_ / ("checkpoints" + std::to_string(rank)), 1);
    StepResult last;
    for (int i = 0; i < 3; ++i) last = straight->step(split.train);

    Trainer resumed(config);
    resumed.init_from(config.model.init_from);
    load_checkpoint(resumed, saved);
    // The reference is the checkpoint's, not the model of now.
    data::Split again = split_of(config);
    resumed.prepare_reference(again);
    StepResult other;
    for (int i = 0; i < 3; ++i) other = resumed.step(again.train);
    EXPECT_EQ(other.loss, last.loss);
    EXPECT_EQ(other.preferences, last.preferences);
    EXPECT_NE(other.preferences->margin(), 0);
    EXPECT_EQ(weights_of(resumed), weights_of(*straight));
  }
}

INSTANTIATE_TEST_SUITE_P(Preferences, PreferencePrecision,
                         ::testing::Values("fp32", "bf16", "fp16", "fp8"));

TEST_F(PreferenceRun, TheReferenceDoesNotDependOnTheBatch) {
  std::vector<std::vector<double>> found;
  for (const int64_t batch : {1, 3, 5, 40}) {
    Config config = this->config();
    config.train.batch = batch;
    data::Split split;
    started(config, split);
    const data::Batch all = split.train.documents()->consecutive_batch(
        {split.train.documents()->rows(), config.model.context}, 0);
    found.push_back(to_vector(all.reference));
    ASSERT_EQ(found.back().size(), found[0].size());
    for (size_t i = 0; i < found[0].size(); ++i)
      EXPECT_NEAR(found.back()[i], found[0][i], 1e-5 * std::abs(found[0][i]));
  }
}

TEST_F(PreferenceRun, RefusesStepsWithoutAReference) {
  const Config config = this->config();
  Trainer trainer(config);
  trainer.init_from(config.model.init_from);
  EXPECT_THAT(test::error_of([&] { trainer.step(split_of(config).train); }),
              HasSubstr("reference: expected f32 [pairs, 2], found none"));
}

// --- Whole runs ---

TEST_F(PreferenceRun, LearnsWhichAnswerIsBetter) {
  Config config = this->config();
  config.train.steps = 40;
  config.run.eval_every = 20;
  config.run.eval_batches = 2;
  const RunResult result = run(config, Progress::Mode::quiet);
  ASSERT_TRUE(result.last_validation_preferences);
  EXPECT_GT(result.last_validation_preferences->accuracy, 0.9);
  EXPECT_GT(result.last_validation_preferences->margin(), 0.5);
  EXPECT_LT(*result.last_validation_loss, 0.5);
  EXPECT_EQ(*result.first_validation_loss, static_cast<double>(std::log(2.0F)));
  const RunSummary summary = read_run(result.folder);
  ASSERT_EQ(summary.records.size(), 41u);
  EXPECT_FALSE(summary.records[0].preferences);
  EXPECT_TRUE(summary.records[0].validation_preferences);
  EXPECT_EQ(summary.records[40].validation_preferences, result.last_validation_preferences);
  EXPECT_GT(summary.records[40].preferences->accuracy, 0.9);
  const std::string report = testing::content_of(result.folder / "report.html");
  for (const char* text : {"Rewards, smoothed", "Accuracy: pairs", "Validation accuracy",
                           "Log-probabilities of the answers", "nats per pair"})
    EXPECT_THAT(report, HasSubstr(text));
  EXPECT_THAT(report, ::testing::Not(HasSubstr("Bits per byte")));
}

TEST_F(PreferenceRun, ResumesAsARunAndRefusesOtherPairs) {
  Config config = this->config("bf16");
  config.train.steps = 4;
  config.run.checkpoint_every = 2;
  config.run.keep = 9;
  const auto weights_in = [](const RunResult& result) {
    return testing::content_of(result.checkpoint / "model.safetensors");
  };
  const RunResult whole = run(config, Progress::Mode::quiet);
  const std::string expected = weights_in(whole);
  fs::remove_all(whole.checkpoint);
  // The initial model is not needed any more.
  fs::remove_all(folder_ / "base");
  config.run.resume = true;
  EXPECT_EQ(weights_in(run(config, Progress::Mode::quiet)), expected);

  folder_.put("pairs.jsonl", small_pairs(23));
  config.train.steps = 6;
  config.run.allow_changes = {"data", "steps"};
  EXPECT_THAT(test::error_of([&] { run(config, Progress::Mode::quiet); }),
              HasSubstr("restore the data, or train on the other with --init-from"));
}

}  // namespace
}  // namespace binade::train
