#include "binade/lab/replay/step_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "binade/autograd/grad_mode.h"
#include "binade/autograd/module_path.h"
#include "binade/autograd/node.h"
#include "binade/autograd/op_observer.h"
#include "binade/autograd/recompute.h"
#include "binade/base/error.h"
#include "binade/formats/weights/base_format.h"
#include "binade/io/safetensors.h"
#include "binade/lab/replay/recorded_run.h"
#include "binade/lab/replay/replayer.h"
#include "binade/ops/create/create.h"
#include "binade/train/run/loop.h"
#include "io/temporary_folder.h"
#include "lab/replay/recorded_config.h"

namespace binade::lab {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int64_t steps = 8, micros = 2;

train::Config viewed_config(const testing::TemporaryFolder& folder, const std::string& precision,
                            const std::string& recipe = "") {
  train::Config config = recorded_config(folder, recipe.empty() ? precision : "fp8");
  if (!recipe.empty()) config.precision.recipe = amp::parse_recipe(recipe);
  config.train.steps = steps;
  config.train.accumulate = micros;
  config.train.dropout = 0.1;
  return config;
}

// Everything that a run computes, by step: results of ops by micro-batch, place and number among
// those of the place; gradients by the parameter; and the state after each step. Written without
// the names and the bookkeeping of Capture.
class FullLog : public autograd::OpObserver {
 public:
  using Values = std::vector<double>;

  void begin_step() {
    ops_.emplace_back();
    micro_ = -1;
  }
  void forward(Op op, std::span<const Tensor>, std::span<const Tensor>,
               std::span<const Tensor> outputs) override {
    if (autograd::recomputing()) return;
    const NoGrad no_grad;
    const autograd::OpObserverScope unobserved(nullptr);
    const std::string& module = autograd::module_path();
    if (module == "embedding" && op == Op::embedding) {  // a micro-batch begins
      ++micro_;
      counts_.clear();
    }
    const std::string place = (module.empty() ? "" : module + "/") + std::string(name(op));
    const int count = ++counts_[place];
    const std::string full = count == 1 ? place : place + "#" + std::to_string(count);
    ops_.back()[{micro_, full}] = to_vector(outputs[0].detach());
  }
  void after_backward(const autograd::Node&, std::span<const Tensor>) override {}

  const std::map<std::pair<int, std::string>, Values>& ops(int64_t step) const {
    return ops_[static_cast<size_t>(step - 1)];
  }

 private:
  std::vector<std::map<std::pair<int, std::string>, Values>> ops_;
  std::map<std::string, int> counts_;
  int micro_ = -1;
};

struct LoggedRun {
  FullLog log;
  std::vector<std::map<std::string, FullLog::Values>> weights, gradients, state;  // after each step
};

LoggedRun logged(const RecordedRun& run) {
  LoggedRun result;
  train::Trainer trainer(run.config);
  for (int64_t step = 1; step <= steps; ++step) {
    result.log.begin_step();
    {
      const autograd::OpObserverScope observed(&result.log);
      trainer.step(run.split.train);
    }
    auto& weights = result.weights.emplace_back();
    auto& gradients = result.gradients.emplace_back();
    for (const auto& [name, parameter] : trainer.model().named_parameters()) {
      weights[name] = to_vector(parameter.detach());
      gradients[name] = to_vector(parameter.grad());
    }
    auto& state = result.state.emplace_back();
    for (const auto& [name, tensor] : trainer.state_dict()) state[name] = to_vector(tensor);
  }
  return result;
}

void expect_same_values(const FullLog::Values& found, const FullLog::Values& expected,
                        const std::string& name) {
  ASSERT_EQ(found.size(), expected.size()) << name;
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(found[i])) << name << " " << i;
    } else {
      ASSERT_EQ(found[i], expected[i]) << name << " " << i;
    }
  }
}

const ViewedTensor& find(const StepView& view, const std::string& name) {
  for (const ViewedTensor& one : view.tensors) {
    if (one.name == name) return one;
  }
  throw std::runtime_error("no tensor " + name);
}

void expect_random_jumps(const train::Config& config, int jumps) {
  train::run(config, train::Progress::Mode::quiet);
  const RecordedRun run = open_run(config.run.out, "at");
  ASSERT_EQ(run.checkpoints.size(), 2u);  // of steps 6 and 8
  const LoggedRun expected = logged(run);
  std::mt19937 random(7);
  const auto drawn = [&random](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int i = 0; i < jumps; ++i) {
    const int64_t step = drawn(1, steps), micro = drawn(0, micros - 1);
    std::vector<std::string> places;
    for (const auto& [key, values] : expected.log.ops(step)) {
      if (key.first == micro) places.push_back(key.second);
    }
    const std::string place = places[static_cast<size_t>(drawn(0, std::ssize(places) - 1))];
    const auto& weights = expected.weights[static_cast<size_t>(step - 1)];
    auto parameter = weights.begin();
    std::advance(parameter, drawn(0, std::ssize(weights) - 1));
    const std::string& name = parameter->first;
    SCOPED_TRACE("step " + std::to_string(step) + ", " + place + ", " + name);
    const StepView view = view_step(
        run, {.step = step,
              .micro = micro,
              .tensors = {"activation/" + place, "weight/" + name, "gradient/" + name, "first/*"},
              .shadow = false});
    EXPECT_TRUE(view.equal()) << view.observed_difference;
    EXPECT_EQ(view.origin, step <= 6 ? 0 : 6);
    expect_same_values(to_vector(find(view, "activation/" + place).value),
                       expected.log.ops(step).at({static_cast<int>(micro), place}), place);
    expect_same_values(to_vector(find(view, "weight/" + name).value), parameter->second, name);
    expect_same_values(to_vector(find(view, "gradient/" + name).value),
                       expected.gradients[static_cast<size_t>(step - 1)].at(name), name);
    // The optimizer numbers its parameters as its state does.
    size_t firsts = 0;
    for (const ViewedTensor& one : view.tensors) firsts += one.name.starts_with("first/") ? 1 : 0;
    EXPECT_EQ(firsts, weights.size());
  }
}

TEST(StepView, JumpsToAnyTensorInFp32) {
  const testing::TemporaryFolder folder;
  expect_random_jumps(viewed_config(folder, "fp32"), 12);
}

TEST(StepView, JumpsToAnyTensorInBf16WithMasters) {
  const testing::TemporaryFolder folder;
  train::Config config = viewed_config(folder, "bf16");
  config.precision.params = train::ParameterStorage::masters;
  expect_random_jumps(config, 12);
}

TEST(StepView, JumpsToAnyTensorInFp16) {
  const testing::TemporaryFolder folder;
  train::Config config = viewed_config(folder, "fp16");
  config.precision.scale_init = 0x1p30;  // the first steps overflow
  expect_random_jumps(config, 12);
}

TEST(StepView, JumpsToAnyTensorWithDelayedScales) {
  const testing::TemporaryFolder folder;
  expect_random_jumps(viewed_config(folder, "", "delayed, history = 3"), 12);
}

TEST(StepView, JumpsToAnyTensorWithRowScalesAndRecompute) {
  const testing::TemporaryFolder folder;
  train::Config config = viewed_config(folder, "", "row");
  config.train.activations = nn::parse_activations("recompute");
  expect_random_jumps(config, 12);
}

// The shadow is the same computation in f32: of an f32 run, the same bits.
TEST(StepView, ShowsTheDistanceFromF32) {
  const testing::TemporaryFolder folder;
  for (const char* precision : {"fp32", "bf16"}) {
    SCOPED_TRACE(precision);
    train::Config config = viewed_config(folder, precision);
    config.run.out = (folder / precision).string();
    train::run(config, train::Progress::Mode::quiet);
    const StepView view = view_step(open_run(config.run.out, "at"), {.step = 7, .micro = 1});
    size_t with_shadow = 0, far = 0;
    for (const ViewedTensor& one : view.tensors) {
      const bool is_of_run =
          one.name.starts_with("activation/") || one.name.starts_with("gradient/b");
      if (!one.summary.shadow) {
        EXPECT_FALSE(one.name.starts_with("activation/blocks.")) << one.name;
        continue;
      }
      ++with_shadow;
      if (is_of_run) far += one.summary.shadow->relative > 0.05 ? 1 : 0;
      if (std::string(precision) == "fp32") {
        EXPECT_EQ(one.summary.shadow->relative, 0) << one.name;
      }
    }
    EXPECT_GT(with_shadow, 30u);
    EXPECT_LT(far, with_shadow / 4);
    const ViewedTensor& logits = find(view, "logits");
    ASSERT_TRUE(logits.summary.shadow);
    EXPECT_EQ(logits.value.shape(), Shape({2, 8, 256}));
    if (std::string(precision) == "bf16") {
      EXPECT_GT(logits.summary.shadow->relative, 1e-5);
      EXPECT_LT(logits.summary.shadow->relative, 0.05);
    }
  }
}

TEST(StepView, TextJsonPageAndFileHaveTheTensors) {
  const testing::TemporaryFolder folder;
  const train::Config config = viewed_config(folder, "fp16");
  train::run(config, train::Progress::Mode::quiet);
  const RecordedRun run = open_run(config.run.out, "at");
  const StepView view =
      view_step(run, {.step = 7, .tensors = {"blocks.1", "scale/loss"}, .shadow = true});
  const std::string text = view_text(view, false);
  EXPECT_THAT(text, HasSubstr("step 7, micro-batch 0, replayed from step 6"));
  EXPECT_THAT(text, HasSubstr("the observed step is the unobserved one, bit for bit"));
  EXPECT_THAT(text, HasSubstr("scale/loss"));
  EXPECT_EQ(text.find("blocks.0"), text.npos);
  EXPECT_THAT(view_text(view, true), HasSubstr("largest: "));
  EXPECT_THAT(view_json(view), HasSubstr("\"equal\": true"));
  EXPECT_THAT(view_html(view, "Step 7"), HasSubstr("<h1>Step 7</h1>"));
  save_view(view, folder / "view.safetensors");
  const StateDict saved = io::load_safetensors(folder / "view.safetensors");
  EXPECT_EQ(saved.size(), view.tensors.size());
  for (const ViewedTensor& one : view.tensors)
    EXPECT_EQ(to_vector(saved.at(one.name)), to_vector(one.value)) << one.name;
}

std::string refusal_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(StepView, RefusesWhatTheRunDoesNotHave) {
  const testing::TemporaryFolder folder;
  const train::Config config = viewed_config(folder, "fp32");
  train::run(config, train::Progress::Mode::quiet);
  const RecordedRun run = open_run(config.run.out, "at");
  const auto refusal = [&run](const ViewOptions& options) {
    return refusal_of([&] { view_step(run, options); });
  };
  EXPECT_THAT(refusal({.step = 0}), HasSubstr("--step: expected 1 to 8"));
  EXPECT_THAT(refusal({.step = 9}), HasSubstr("found 9"));
  EXPECT_THAT(refusal({.step = 1, .micro = 2}), HasSubstr("--micro: expected 0 to 1, found 2"));
  EXPECT_THAT(refusal({.step = 1, .tensors = {"blocks.7"}}), HasSubstr("found 'blocks.7'"));
  EXPECT_THAT(refusal_of([&] { open_run((folder / "none").string(), "at"); }),
              HasSubstr("config.toml"));
}

TEST(StepView, SaysWhatCannotBeSaid) {
  const testing::TemporaryFolder folder;
  const train::Config config = viewed_config(folder, "fp32");
  train::run(config, train::Progress::Mode::quiet);
  // Other data: the run's steps cannot be repeated.
  folder.put("text.txt", train::small_text() + "more");
  EXPECT_THAT(refusal_of([&] { open_run(config.run.out, "at"); }),
              HasSubstr("restore the data: without them no step can be repeated"));
  folder.put("text.txt", train::small_text());
  // Without checkpoints: from the start, and the hashes tell.
  fs::remove_all(folder / "run/checkpoints");
  const RecordedRun run = open_run(config.run.out, "at");
  EXPECT_THAT(run.notes, ::testing::Contains(HasSubstr("there is no checkpoint")));
  const StepView view = view_step(run, {.step = 7, .tensors = {"logits"}});
  EXPECT_EQ(view.origin, 0);
  EXPECT_TRUE(view.equal());
  EXPECT_EQ(view.compared, 4);  // steps 0, 2, 4, 6
  // Without hashes nothing tells.
  fs::remove(folder / "run/metrics.jsonl");
  folder.put("run/metrics.jsonl", "");
  EXPECT_THAT(view_text(view_step(open_run(config.run.out, "at"), {.step = 2}), false),
              HasSubstr("nothing tells whether the run did the same"));
}

// A checkpoint whose weights were changed, with its manifest.
TEST(StepView, FindsAStateThatIsNotTheRuns) {
  const testing::TemporaryFolder folder;
  const train::Config config = viewed_config(folder, "fp32");
  train::run(config, train::Progress::Mode::quiet);
  const RecordedRun whole = open_run(config.run.out, "at");
  RecordedRun other = open_run(config.run.out, "at");
  other.config.train.seed = 3;  // as if config.toml had been edited
  other.checkpoints.clear();
  const StepView view = view_step(other, {.step = 3, .tensors = {"logits"}});
  EXPECT_FALSE(view.equal());
  ASSERT_TRUE(view.difference);
  EXPECT_EQ(view.difference->step, 0);
  EXPECT_EQ(view.difference->parts, "weights");
  EXPECT_THAT(view_text(view, false), HasSubstr("this is not what the run did"));
}

// A base in blocks is no parameter, and is read again wherever a state is put back.
TEST(StepView, RepeatsStepsOfAdaptersOverBlocks) {
  const testing::TemporaryFolder folder;
  train::Config config = viewed_config(folder, "bf16");
  config.model.width = 32;
  config.model.hidden = 64;
  train::run(config, train::Progress::Mode::quiet);
  config.model.init_from = config.run.out;
  config.run.out = (folder / "adapter").string();
  config.lora.rank = 2;
  config.lora.base = {train::BaseFormat::Kind::blocks, formats::find_base_format("q8_0")};
  config.precision.params = train::ParameterStorage::masters;
  train::run(config, train::Progress::Mode::quiet);
  const RecordedRun run = open_run(config.run.out, "at");
  for (const int64_t micro : {-1, 1}) {
    const StepView view = view_step(run, {.step = 5, .micro = micro, .tensors = {"blocks.*"}});
    EXPECT_TRUE(view.equal()) << view.observed_difference;
    for (const ViewedTensor& one : view.tensors) {
      if (one.summary.shadow && one.name.starts_with("activation/")) {
        EXPECT_LT(one.summary.shadow->relative, 0.05) << one.name;
      }
    }
  }
  // Other weights below the adapters: no step can be repeated.
  fs::remove_all(folder / "run");
  train::Config other = viewed_config(folder, "bf16");
  other.model.width = 32;
  other.model.hidden = 64;
  other.train.seed = 9;
  train::run(other, train::Progress::Mode::quiet);
  EXPECT_THAT(refusal_of([&] { open_run(config.run.out, "at"); }), HasSubstr("restore them"));
}

// Steps before a resume are repeated with the settings that the run had then.
TEST(StepView, RepeatsStepsFromBeforeOtherSettings) {
  const testing::TemporaryFolder folder;
  train::Config config = viewed_config(folder, "fp16");
  config.run.keep = 1;
  train::run(config, train::Progress::Mode::quiet);
  config.train.steps = 16;  // so the schedule's learning rates differ
  config.run.resume = true;
  train::run(config, train::Progress::Mode::quiet);
  const RecordedRun run = open_run(config.run.out, "at");
  EXPECT_EQ(run.settings_of(8).train.steps, 8);
  EXPECT_EQ(run.settings_of(9).train.steps, 16);
  for (const int64_t step : {5, 8, 9, 14}) {
    const StepView view = view_step(run, {.step = step, .tensors = {"norm"}});
    EXPECT_TRUE(view.equal()) << step << ": " << view.difference->parts;
    EXPECT_EQ(view.origin, 0);
  }
}

}  // namespace
}  // namespace binade::lab
