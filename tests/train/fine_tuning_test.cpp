// Training a part of a model: adapters, and what patterns leave unfrozen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "binade/base/json.h"
#include "binade/base/text.h"
#include "binade/data/batches.h"
#include "binade/data/corpus.h"
#include "binade/data/documents.h"
#include "binade/io/huggingface.h"
#include "binade/io/lora.h"
#include "binade/io/safetensors.h"
#include "binade/ops/create/create.h"
#include "binade/ops/shape/shape.h"
#include "binade/train/checkpoint.h"
#include "binade/train/config/component_options.h"
#include "binade/train/config/epochs.h"
#include "binade/train/report/run_comparison.h"
#include "binade/train/report/run_summary.h"
#include "binade/train/run/loop.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::TestWithParam;

std::string refusal_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// lora_run.safetensors: 20 steps of the PEFT package in f64 (tests/golden/lora.py).
class PeftRun : public TestWithParam<const char*> {
 protected:
  PeftRun() : file_(testing::golden("lora_run.safetensors")) {
    io::save_safetensors(folder_ / "model.safetensors", tensors(name() + "/", name() + "/start/"));
    folder_.put("config.json", file_.metadata().at("config/" + name()));
    fs::create_directories(folder_ / "adapter");
    io::save_safetensors(folder_ / "adapter/adapter_model.safetensors",
                         tensors(name() + "/start/"));
  }

  static std::string name() { return GetParam(); }
  double number(const char* key) const { return std::stod(file_.metadata().at(key)); }

  // The tensors below `prefix` but not below `without`, under the rest of their names.
  StateDict tensors(const std::string& prefix, const std::string& without = "-") const {
    StateDict result;
    for (const io::TensorEntry& entry : file_.entries()) {
      if (entry.name.starts_with(prefix) && !entry.name.starts_with(without))
        result[entry.name.substr(prefix.size())] = file_.load(entry);
    }
    return result;
  }

  Config config() const {
    const std::string text = file_.metadata().at("lora/" + name());
    const json::Document lora = json::parse(text, {"test", "lora"});
    const Tensor tokens = file_.load("run/" + name() + "/tokens");
    std::string targets;
    for (const json::Value& one : lora.root().at("targets").array())
      targets += (targets.empty() ? "" : ",") + one.string();
    Config config =
        resolve({.file = {},
                 .options = {{"init-from", folder_.path().string()},
                             {"data", "tokens.bin"},
                             {"precision", "fp32"},
                             {"device", "cpu"},
                             {"steps", std::to_string(tokens.size(0))},
                             {"batch", std::to_string(tokens.size(1))},
                             {"warmup", "0"},
                             {"schedule", "constant"},
                             {"lr", file_.metadata().at("lr")},
                             {"lora-rank", std::to_string(lora.root().at("rank").integer(1, 99))},
                             {"lora-alpha", std::to_string(lora.root().at("alpha").integer(1, 99))},
                             {"lora-targets", targets}}});
    config.train.weight_decay = number("weight_decay");
    config.train.clip = number("clip");
    return config;
  }

  testing::TemporaryFolder folder_;
  io::SafetensorsFile file_;
};

TEST_P(PeftRun, LossesAndAdaptersAreThoseOfPeft) {
  Trainer trainer(config());
  trainer.init_from(folder_.path());
  trainer.load_adapter(folder_ / "adapter");
  const Tensor tokens = file_.load("run/" + name() + "/tokens");
  const std::vector<double> losses = to_vector(file_.load("run/" + name() + "/loss"));
  for (size_t step = 0; step < losses.size(); ++step) {
    const Tensor rows = select(tokens, 0, static_cast<int64_t>(step));
    const data::Batch batch{contiguous(slice(rows, 1, 0, rows.size(1) - 1)),
                            contiguous(slice(rows, 1, 1, rows.size(1)))};
    trainer.start_step(std::span(&batch, 1));
    // f32 against f64, after up to 20 updates at a high rate.
    EXPECT_NEAR(trainer.finish_all().back().loss, losses[step], 2e-5) << "step " << step;
  }
  const StateDict expected = tensors("run/" + name() + "/final/");
  const StateDict found = io::adapter_tensors(trainer.model());
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [key, tensor] : expected) {
    const std::vector<double> x = to_vector(found.at(key)), y = to_vector(tensor);
    for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-4) << key << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(FineTuning, PeftRun, ::testing::Values("llama", "gpt2", "gpt_neox"));

// A base in a folder, and a configuration of a run that adapts it.
class LoraRun : public ::testing::Test {
 protected:
  LoraRun() {
    io::save_pretrained(nn::LanguageModel(model_config(small_config())), folder_ / "base");
    data_ = folder_.put("text.txt", small_text()).string();
  }

  Config config(const std::string& precision) const {
    Config config = small_config(precision);
    config.model.init_from = (folder_ / "base").string();
    config.data.source = data_;
    config.run.out = (folder_ / "run").string();
    config.lora.rank = 2;
    config.lora.dropout = 0.25;
    config.lora.targets = {"c_attn", "mlp.c_proj"};
    config.train.accumulate = 2;
    config.train.activations = nn::Activations::recompute();
    config.train.dropout = 0.1;
    config.precision.params = uses_autocast(config.precision.matmul) ? ParameterStorage::masters
                                                                     : ParameterStorage::autocast;
    return config;
  }

  static std::map<std::string, std::vector<double>> values(const StateDict& state) {
    std::map<std::string, std::vector<double>> result;
    for (const auto& [name, tensor] : state) result[name] = to_vector(tensor);
    return result;
  }

  testing::TemporaryFolder folder_;
  std::string data_;
};

class LoraPrecision : public LoraRun, public ::testing::WithParamInterface<const char*> {};

TEST_P(LoraPrecision, ResumesBitForBitAndLeavesTheBaseAlone) {
  const Config full = config(GetParam());
  Trainer straight(full);
  straight.init_from(full.model.init_from);
  const auto base = values(io::to_huggingface(straight.model()));
  for (int i = 0; i < 3; ++i) straight.step(small_tokens());
  const fs::path saved = save_checkpoint(straight, folder_ / "checkpoints", 1);
  for (int i = 0; i < 3; ++i) straight.step(small_tokens());

  Trainer resumed(full);
  resumed.init_from(full.model.init_from);
  load_checkpoint(resumed, saved);
  for (int i = 0; i < 3; ++i) resumed.step(small_tokens());
  EXPECT_EQ(values(io::adapter_tensors(resumed.model())),
            values(io::adapter_tensors(straight.model())));
  EXPECT_EQ(values(io::to_huggingface(straight.model())), base);
  EXPECT_FALSE(fs::exists(saved / "model.safetensors"));
}

TEST_P(LoraPrecision, RecomputeChangesNoBit) {
  Config with = config(GetParam()), without = with;
  without.train.activations = nn::Activations::recompute(false);
  std::map<std::string, std::vector<double>> results[2];
  for (int i = 0; i < 2; ++i) {
    Trainer trainer(i == 0 ? with : without);
    trainer.init_from(with.model.init_from);
    for (int step = 0; step < 3; ++step) trainer.step(small_tokens());
    results[i] = values(io::adapter_tensors(trainer.model()));
  }
  EXPECT_EQ(results[0], results[1]);
}

INSTANTIATE_TEST_SUITE_P(FineTuning, LoraPrecision,
                         ::testing::Values("fp32", "bf16", "fp16", "fp8"));

TEST_F(LoraRun, ARunAndItsContinuationHaveTheSameAdapters) {
  Config config = this->config("bf16");
  config.train.steps = 4;
  config.run.checkpoint_every = 2;
  config.run.keep = 9;
  const RunResult whole = run(config, Progress::Mode::quiet);
  const auto adapters = [](const fs::path& checkpoint) {
    return values(io::load_safetensors(checkpoint / "adapter_model.safetensors"));
  };
  const auto expected = adapters(whole.checkpoint);
  fs::remove_all(whole.checkpoint);
  config.run.resume = true;
  EXPECT_EQ(adapters(run(config, Progress::Mode::quiet).checkpoint), expected);
  // The folder is a model: the base with the adapter in it.
  EXPECT_EQ(io::load_pretrained(whole.checkpoint)->config().layers, 2);
}

TEST_F(LoraRun, DoesNotContinueOnOtherWeights) {
  Config config = this->config("bf16");
  config.train.steps = 2;
  run(config, Progress::Mode::quiet);
  Config other = small_config();
  other.train.seed = 9;
  io::save_pretrained(nn::LanguageModel(model_config(other)), folder_ / "base");
  config.train.steps = 4;
  config.run.resume = true;
  EXPECT_THAT(refusal_of([&] { run(config, Progress::Mode::quiet); }),
              HasSubstr("the weights that the run adapts"));
}

TEST_F(LoraRun, NeedsAModelToAdapt) {
  EXPECT_THAT(refusal_of([] {
                resolve({.file = {}, .options = {{"lora-rank", "4"}}});
              }),
              HasSubstr("--init-from with the model to adapt"));
}

TEST_F(LoraRun, FrozenWeightsAreBf16ByDefault) {
  const auto params = [&](const char* precision) {
    return resolve({.file = {},
                    .options = {{"init-from", (folder_ / "base").string()},
                                {"precision", precision},
                                {"lora-rank", "4"}}})
        .precision.params;
  };
  EXPECT_EQ(params("bf16"), ParameterStorage::masters);
  EXPECT_EQ(params("fp16"), ParameterStorage::autocast);
  EXPECT_EQ(params("fp32"), ParameterStorage::autocast);
}

// Conversations of different lengths, whose answers are the targets.
std::string small_examples() {
  std::string lines;
  for (int i = 0; i < 12; ++i)
    lines += "{\"prompt\": \"" + std::string(static_cast<size_t>(i % 3 + 1), 'q') +
             "\", \"completion\": \"" + std::to_string(i * i * i) + "\"}\n";
  return lines;
}

class ExampleRun : public ::testing::Test {
 protected:
  Config config(const std::string& name, bool pack) const {
    Config config = small_config();
    config.data.source = folder_.put("data.jsonl", small_examples()).string();
    config.run.out = (folder_ / name).string();
    config.model.context = 16;
    config.train.steps = 4;
    config.run.checkpoint_every = 2;
    config.run.keep = 9;
    config.data.pack = pack;
    return config;
  }

  // Runs it, then resumes it without its last checkpoint.
  static void expect_the_same_resumed(Config config) {
    const auto weights_of = [](const RunResult& result) {
      return testing::content_of(result.checkpoint / "model.safetensors");
    };
    const RunResult whole = run(config, Progress::Mode::quiet);
    const std::string expected = weights_of(whole);
    fs::remove_all(whole.checkpoint);
    config.run.resume = true;
    EXPECT_EQ(weights_of(run(config, Progress::Mode::quiet)), expected);
  }

  testing::TemporaryFolder folder_;
};

TEST_F(ExampleRun, ResumesBitForBit) {
  for (const bool pack : {false, true})
    expect_the_same_resumed(config(pack ? "packed" : "padded", pack));
}

TEST_F(ExampleRun, MixedWithTextResumesBitForBit) {
  Config config = this->config("mixed", true);
  config.data.source =
      "2*" + config.data.source + ",1*" + folder_.put("text.txt", small_text()).string();
  expect_the_same_resumed(config);
  // Other answers of the same text are other data.
  config.run.resume = true;
  std::string lines = small_examples();
  const std::string from = R"(", "completion": "27")", to = R"(2", "completion": "7")";
  lines.replace(lines.find(from), from.size(), to);
  folder_.put("data.jsonl", lines);
  config.train.steps = 6;
  EXPECT_THAT(test::error_of([&] { run(config, Progress::Mode::quiet); }),
              HasSubstr("--allow-changes"));
}

// One long example makes every other row mostly padding, which no figure counts.
TEST_F(ExampleRun, PaddingIsNotInAnyCountOfTokens) {
  Config config = this->config("padded", false);
  config.model.context = 256;
  config.train.accumulate = 2;
  config.train.steps = 8;
  std::string lines = small_examples();
  lines += "{\"prompt\": \"long\", \"completion\": \"" + std::string(400, 'x') + "\"}\n";
  config.data.source = folder_.put("long.jsonl", lines).string();
  const fs::path folder = run(config, Progress::Mode::quiet).folder;
  fs::remove_all(folder / "checkpoints/step-8");
  config.run.resume = true;
  run(config, Progress::Mode::quiet);
  const RunSummary summary = read_run(folder);
  const data::Split split = data::read_split(data_source(config, nullptr));
  int64_t expected = 0;
  for (int64_t i = 0; i < config.train.steps * config.train.accumulate; ++i) {
    const Tensor tokens =
        data::training_batch(split.train,
                             {config.train.batch, config.model.context, config.train.accumulate},
                             static_cast<uint64_t>(config.train.seed), i / 2, i % 2)
            .tokens;
    expected += tokens.numel() -
                std::count(tokens.data<int64_t>(), tokens.data<int64_t>() + tokens.numel(), 0);
  }
  const Record& last = summary.records.back();
  EXPECT_EQ(last.tokens, expected);
  EXPECT_LT(4 * expected, config.train.steps * config.train.accumulate * config.train.batch *
                              config.model.context);
  const double mean = static_cast<double>(expected) / last.seconds;
  EXPECT_THAT(report_html(summary),
              HasSubstr("Tokens per second</dt><dd>" + grouped(std::llround(mean))));
  EXPECT_THAT(comparison_html({summary, summary}), HasSubstr(">" + grouped(std::llround(mean))));
  // As on the terminal. Times are rounded to milliseconds.
  const Record& first = summary.records[1];
  EXPECT_NEAR(first.tokens_per_second * first.seconds, static_cast<double>(*first.tokens),
              0.001 * first.tokens_per_second);
}

// The sample answers the first validation example: its prompt, something, and its own answer.
TEST_F(ExampleRun, SampleAnswersAnExample) {
  Config config = this->config("sampled", false);
  config.data.source =
      folder_
          .put("own.jsonl", small_examples() + R"({"prompt": "seven ", "completion": "sieben"})"
                                               "\n")
          .string();
  config.data.validation = 0.01;
  config.run.sample = 5;
  const RunResult result = run(config, Progress::Mode::quiet);
  EXPECT_THAT(result.sample, ::testing::StartsWith("prompt:\nseven \n\nanswer of the model:\n"));
  EXPECT_THAT(result.sample, ::testing::EndsWith("\n\nanswer in the data:\nsieben"));
  const size_t begin = result.sample.find("model:\n") + 7;
  EXPECT_LE(result.sample.find("\n\nanswer in") - begin, 5u);
  EXPECT_THAT(report_html(read_run(result.folder)), HasSubstr("<pre>prompt:\nseven "));
}

TEST_F(ExampleRun, EpochsAreInTheReport) {
  const Config config = this->config("epochs", false);
  const RunSummary summary = read_run(run(config, Progress::Mode::quiet).folder);
  const data::Split split = data::read_split(data_source(config, nullptr));
  const auto rows = static_cast<double>(split.train.documents()->rows());
  EXPECT_DOUBLE_EQ(summary.epoch_steps, rows / 2);  // two rows a batch
  EXPECT_THAT(report_html(summary),
              HasSubstr("Epochs</dt><dd>" + epochs_text(4 / summary.epoch_steps)));
}

// The validation loss counts each answer token once, packed or not.
TEST_F(ExampleRun, PackingChangesNoValidationLoss) {
  double losses[2];
  for (const bool pack : {false, true}) {
    Config config = this->config(pack ? "packed" : "padded", pack);
    config.train.lr = 0;
    config.train.batch = 1;
    config.data.validation = 0.4;
    const data::Split split = data::read_split(data_source(config, nullptr));
    config.run.eval_batches = split.validation.documents()->rows();
    losses[pack ? 1 : 0] = Trainer(config).evaluate(split.validation).loss;
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-5);
}

TEST(Freeze, PatternsAndModulesAreLeftOutOfTheOptimizer) {
  Config config = small_config();
  config.train.freeze = {"embed*", "blocks.0"};
  Trainer trainer(config);
  std::map<std::string, std::vector<double>> before;
  for (const auto& [name, parameter] : trainer.model().named_parameters())
    before[name] = to_vector(parameter);
  trainer.step(small_tokens());
  for (const auto& [name, parameter] : trainer.model().named_parameters()) {
    const bool frozen = name.starts_with("embedding.") || name.starts_with("blocks.0.");
    EXPECT_EQ(to_vector(parameter) == before[name], frozen) << name;
  }
}

TEST(Freeze, RefusesPatternsOfNothingAndOfEverything) {
  Config config = small_config();
  config.train.freeze = {"model.embed_tokens"};
  EXPECT_THAT(refusal_of([&] { Trainer{config}; }),
              HasSubstr("names of parameters, such as embedding.weight"));
  config.train.freeze = {"*"};
  EXPECT_THAT(refusal_of([&] { Trainer{config}; }), HasSubstr("parameters left to train"));
}

// At a rate of 0 no validation is better than the first.
TEST(Patience, EndsARunAndKeepsTheBestModel) {
  const testing::TemporaryFolder folder;
  Config config = small_config();
  config.data.source = folder.put("text.txt", small_text()).string();
  config.run.out = (folder / "run").string();
  config.train.lr = 0;
  config.train.steps = 40;
  config.run.patience = 3;
  config.run.keep_best = true;
  const RunResult result = run(config, Progress::Mode::quiet);
  EXPECT_EQ(result.steps, 8);  // validations after steps 2, 4, 6 and 8
  EXPECT_TRUE(result.stopped_early);
  EXPECT_FALSE(result.interrupted);
  EXPECT_EQ(result.best_step, 2);
  EXPECT_EQ(result.best, folder / "run/best");
  EXPECT_EQ(io::load_pretrained(result.best)->config().layers, 2);
  EXPECT_FALSE(fs::exists(result.best / "trainer.safetensors"));
  config.run.resume = true;
  EXPECT_EQ(run(config, Progress::Mode::quiet).steps, 8);
}

TEST(Patience, TheBestModelIsThatOfItsStep) {
  const testing::TemporaryFolder folder;
  Config config = small_config();
  config.data.source = folder.put("text.txt", small_text()).string();
  config.run.out = (folder / "run").string();
  config.train.steps = 6;
  config.run.checkpoint_every = 2;
  config.run.keep = 9;
  config.run.keep_best = true;
  const RunResult result = run(config, Progress::Mode::quiet);
  const fs::path same = folder / "run/checkpoints" / ("step-" + std::to_string(result.best_step));
  EXPECT_EQ(testing::content_of(result.best / "model.safetensors"),
            testing::content_of(same / "model.safetensors"));
}

}  // namespace
}  // namespace binade::train
