#include "binade/amp/grad_scaler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "amp/golden.h"
#include "binade/binade.h"

namespace binade {
namespace {

using amp::GradScaler;
using amp::GradScalerOptions;

// Counts the updates that reach it, as PyTorch's recorder did.
class Recorder : public amp::Steppable {
 public:
  explicit Recorder(DType dtype) {
    for (int i = 0; i < 2; ++i) {
      parameters_.push_back(zeros({2}, dtype));
      parameters_.back().set_requires_grad();
      parameters_.back().set_grad_dtype(dtype);
    }
  }
  std::vector<Tensor> parameters() const override { return parameters_; }
  void step(const amp::StepControl& control) override {
    stepped = !control.skip.defined() || control.skip.item() == 0;
  }
  bool stepped = false;

 private:
  std::vector<Tensor> parameters_;
};

// The text in Binade's message for PyTorch's error of that name.
const std::map<std::string, std::string> error_texts = {
    {"f16_gradients", "unscaling in f16"},
    {"no_check_for_step", "call backward() before step()"},
    {"no_check_for_update", "call step(optimizer) before update()"},
    {"scale_not_called", "has scaled nothing yet"},
    {"stepped_twice", "one step() per update()"},
    {"unscale_after_step", "a call before step"},
    {"unscaled_twice", "one unscale() per update()"}};

void plant(Recorder& optimizer, const json::Value& gradients) {
  const auto parameters = optimizer.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const json::Value& given = gradients.array()[i];
    if (given.is_null()) {
      parameters[i].zero_grad();
      continue;
    }
    std::vector<double> values;
    for (const json::Value& value : given.array()) values.push_back(test::golden_number(value));
    parameters[i].set_grad(tensor(values, {2}, parameters[i].dtype()));
  }
}

void expect_gradients(const Recorder& optimizer, const json::Value& expected) {
  const auto parameters = optimizer.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (expected.array()[i].is_null()) continue;
    const auto found = to_vector(parameters[i].grad());
    for (size_t j = 0; j < found.size(); ++j) {
      const double reference = test::golden_number(expected.array()[i].array()[j]);
      if (std::isnan(reference)) {
        EXPECT_TRUE(std::isnan(found[j]));
      } else {
        EXPECT_EQ(found[j], reference);
      }
    }
  }
}

void play(const json::Value& call, GradScaler& scaler,
          std::vector<std::unique_ptr<Recorder>>& optimizers) {
  const std::string& name = call.at("call").string();
  Recorder* optimizer = call.find("opt") == nullptr
                            ? nullptr
                            : optimizers[static_cast<size_t>(call.at("opt").integer(0, 9))].get();
  if (name == "plant") plant(*optimizer, call.at("grads"));
  if (name == "scale") {
    const double loss = call.at("loss").number();
    EXPECT_EQ(scaler.scale(tensor({loss}, {})).item(), test::golden_number(call.at("out")));
  }
  if (name == "unscale") scaler.unscale(*optimizer);
  if (name == "step") {
    optimizer->stepped = false;
    const amp::StepReport report = scaler.step(*optimizer);
    EXPECT_EQ(optimizer->stepped, call.at("stepped").boolean());
    EXPECT_EQ(report.applied(), optimizer->stepped);
    EXPECT_EQ(report.reason().empty(), report.applied());
  }
  if (name == "update") {
    const json::Value* new_scale = call.find("new_scale");
    if (new_scale != nullptr) scaler.update(new_scale->number());
    if (new_scale == nullptr) scaler.update();
  }
  if (call.find("grads") != nullptr && name != "plant")
    expect_gradients(*optimizer, call.at("grads"));
}

TEST(GradScalerGolden, FiftyRecordedSequencesAgreeWithPyTorch) {
  const json::Document document = test::golden_json("scaler_traces.json");
  int errors = 0, steps = 0;
  for (const json::Value& sequence : document.root().at("sequences").array()) {
    GradScaler scaler({.init_scale = sequence.at("init_scale").number(),
                       .growth_factor = sequence.at("growth_factor").number(),
                       .backoff_factor = sequence.at("backoff_factor").number(),
                       .growth_interval = sequence.at("growth_interval").integer(1, 1 << 20)});
    std::vector<std::unique_ptr<Recorder>> optimizers;
    for (const json::Value& dtype : sequence.at("optimizers").array()) {
      optimizers.push_back(std::make_unique<Recorder>(parse_dtype(dtype.string())));
    }
    for (const json::Value& call : sequence.at("calls").array()) {
      SCOPED_TRACE(call.at("call").string() + " at byte " + std::to_string(call.offset()));
      const json::Value* expected = call.find("error");
      ++steps;
      try {
        play(call, scaler, optimizers);
        EXPECT_EQ(expected, nullptr);
      } catch (const Error& error) {
        ++errors;
        ASSERT_NE(expected, nullptr) << error.what();
        EXPECT_NE(std::string(error.what()).find(error_texts.at(expected->string())),
                  std::string::npos)
            << error.what();
      }
      EXPECT_EQ(scaler.get_scale(), call.at("scale").number());
      EXPECT_EQ(scaler.growth_tracker(), call.at("tracker").integer(0, 1 << 20));
      if (::testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(steps, 2000);
  EXPECT_GT(errors, 50);
}

TEST(GradScaler, RefusesImpossibleNumbers) {
  EXPECT_THROW(GradScaler({.growth_factor = 1}), Error);
  EXPECT_THROW(GradScaler({.backoff_factor = 1}), Error);
  EXPECT_THROW(GradScaler({.init_scale = 0}), Error);
  EXPECT_THROW(GradScaler({.growth_interval = 0}), Error);
}

TEST(GradScaler, DisabledPassesEverythingThrough) {
  GradScaler scaler({.enabled = false});
  Tensor w = ones({2});
  w.set_requires_grad();
  optim::SGD sgd({w}, {.lr = 1});
  sum(w).backward();
  EXPECT_EQ(scaler.scale(tensor({3}, {})).item(), 3);
  scaler.unscale(sgd);
  EXPECT_TRUE(scaler.step(sgd).applied());
  scaler.update();
  EXPECT_EQ(to_vector(w), (std::vector<double>{0, 0}));
  EXPECT_TRUE(scaler.state().empty());
  GradScaler enabled;
  EXPECT_THROW(enabled.load_state(scaler.state()), Error);
}

// One step of f(w) = factor * w at the given scale.
amp::StepReport train_once(GradScaler& scaler, optim::Optimizer& optimizer, const Tensor& w,
                           double factor) {
  optimizer.zero_grad();
  scaler.scale(sum(w * factor)).backward();
  const amp::StepReport report = scaler.step(optimizer);
  scaler.update();
  return report;
}

TEST(GradScaler, SavedStateContinuesAsIfNothingHappened) {
  Tensor w = ones({1});
  w.set_requires_grad();
  optim::SGD sgd({w}, {.lr = 0});
  GradScaler one({.init_scale = 4, .growth_interval = 3});
  for (int i = 0; i < 2; ++i) train_once(one, sgd, w, 1);
  GradScaler two({.init_scale = 1});
  two.load_state(one.state());
  train_once(one, sgd, w, 1);
  train_once(two, sgd, w, 1);
  EXPECT_EQ(one.get_scale(), 8);
  EXPECT_EQ(two.get_scale(), 8);
  EXPECT_EQ(one.state(), two.state());
}

TEST(GradScaler, LoadingWithinAnIterationKeepsItsStages) {
  Tensor w = ones({1});
  w.set_requires_grad();
  optim::SGD sgd({w}, {.lr = 0});
  GradScaler scaler({.init_scale = 4});
  scaler.scale(sum(w)).backward();
  scaler.unscale(sgd);
  EXPECT_EQ(w.grad().item(), 1);
  scaler.load_state(scaler.state());
  EXPECT_THROW(scaler.unscale(sgd), Error);
  scaler.step(sgd);
  EXPECT_EQ(w.grad().item(), 1) << "unscaled once";
  scaler.load_state(scaler.state());
  EXPECT_THROW(scaler.step(sgd), Error);
  scaler.update();
  scaler.load_state(scaler.state());
  EXPECT_TRUE(train_once(scaler, sgd, w, 1).applied());
}

// The entries of torch.amp.GradScaler.state_dict(), as PyTorch 2.15.0 names them.
TEST(GradScaler, LoadsPyTorchsState) {
  GradScaler scaler({.hysteresis = 2});
  scaler.load_state({{"scale", 1024},
                     {"growth_factor", 4},
                     {"backoff_factor", 0.25},
                     {"growth_interval", 7},
                     {"_growth_tracker", 5}});
  EXPECT_EQ(scaler.get_scale(), 1024);
  EXPECT_EQ(scaler.growth_tracker(), 5);
  Tensor w = ones({1});
  w.set_requires_grad();
  optim::SGD sgd({w}, {.lr = 0});
  for (int i = 0; i < 2; ++i) train_once(scaler, sgd, w, 1);
  EXPECT_EQ(scaler.get_scale(), 4096) << "seven clean steps";
  GradScaler untouched({.init_scale = 8});
  EXPECT_THROW(untouched.load_state({{"scale", 1024},
                                     {"growth_factor", 4},
                                     {"backoff_factor", 2},
                                     {"growth_interval", 7},
                                     {"_growth_tracker", 5}}),
               Error);
  EXPECT_EQ(untouched.get_scale(), 8);
  EXPECT_EQ(untouched.state().at("growth_factor"), 2);
}

TEST(GradScaler, Scales16BitLossesInF32) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    Tensor w = ones({1}, dtype);
    w.set_requires_grad();
    GradScaler scaler;
    const Tensor scaled = scaler.scale(sum(w, {}, false, dtype) * 2.0);
    EXPECT_EQ(scaled.dtype(), DType::f32);
    EXPECT_EQ(scaled.item(), 131072);
  }
  GradScaler scaler;
  EXPECT_EQ(scaler.scale(ones({}, DType::f64)).dtype(), DType::f64);
}

TEST(GradScaler, RefusesWhatIsNoLoss) {
  for (const bool enabled : {true, false}) {
    GradScaler scaler({.enabled = enabled});
    for (const Tensor& loss : {Tensor(), ones({}, DType::i64)}) {
      try {
        scaler.scale(loss);
        ADD_FAILURE() << describe(loss);
      } catch (const Error& error) {
        EXPECT_EQ(
            std::string(error.what()),
            "scale: loss: expected a tensor of f64, f32, f16 or bf16, found " + describe(loss));
      }
    }
  }
}

TEST(GradScaler, HysteresisToleratesOneOverflow) {
  Tensor w = ones({1});
  w.set_requires_grad();
  optim::SGD sgd({w}, {.lr = 0});
  GradScaler scaler({.init_scale = 8, .hysteresis = 2});
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(train_once(scaler, sgd, w, inf).applied());
  EXPECT_EQ(scaler.get_scale(), 8);
  train_once(scaler, sgd, w, inf);
  EXPECT_EQ(scaler.get_scale(), 4);
}

TEST(GradScaler, AnOverflowAtTheMinimumIsAnErrorWithADiagnosis) {
  Tensor w = ones({1});
  w.set_requires_grad();
  optim::SGD sgd({w}, {.lr = 0});
  GradScaler scaler({.init_scale = 2, .minimum_scale = 1});
  const double inf = std::numeric_limits<double>::infinity();
  train_once(scaler, sgd, w, inf);
  EXPECT_EQ(scaler.get_scale(), 1);
  try {
    train_once(scaler, sgd, w, inf);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("scaling is not the problem"), std::string::npos);
  }
}

TEST(GradScaler, ASkipBudgetEndsARunThatOnlySkips) {
  Tensor w = ones({1});
  w.set_requires_grad();
  optim::SGD sgd({w}, {.lr = 0});
  GradScaler scaler({.skip_budget = 3});
  const double inf = std::numeric_limits<double>::infinity();
  train_once(scaler, sgd, w, inf);
  train_once(scaler, sgd, w, inf);
  EXPECT_THROW(train_once(scaler, sgd, w, inf), Error);
}

TEST(GradScaler, ARetestAtScaleOneTellsOverflowFromTrueInfinity) {
  Tensor w = ones({1});
  w.set_requires_grad();
  optim::SGD sgd({w}, {.lr = 0});
  GradScaler scaler({.retest_after = 2});
  const double inf = std::numeric_limits<double>::infinity();
  train_once(scaler, sgd, w, inf);
  train_once(scaler, sgd, w, inf);
  EXPECT_EQ(scaler.get_scale(), 1);  // the retest
  const amp::StepReport report = train_once(scaler, sgd, w, inf);
  EXPECT_FALSE(report.applied());
  EXPECT_NE(report.reason().find("scaling is not the problem"), std::string::npos);
  EXPECT_TRUE(report.bad_parameter().same_as(w));
  EXPECT_EQ(scaler.get_scale(), 65536.0 / 4);  // restored
}

TEST(GradScaler, ASkippedStepChangesNothingAndNoScheduleMoves) {
  Tensor w = ones({3});
  w.set_requires_grad();
  optim::AdamW adam({w}, {.lr = 0.1});
  GradScaler scaler;
  train_once(scaler, adam, w, 1);
  const auto before = adam.state_dict();
  std::map<std::string, std::vector<double>> values;
  for (const auto& [name, tensor] : before) values[name] = to_vector(tensor);
  const auto weights = to_vector(w);
  EXPECT_FALSE(train_once(scaler, adam, w, std::numeric_limits<double>::quiet_NaN()).applied());
  EXPECT_EQ(to_vector(w), weights);
  EXPECT_EQ(adam.steps(), 1);  // what a schedule counts
  for (const auto& [name, tensor] : adam.state_dict())
    EXPECT_EQ(to_vector(tensor), values[name]) << name;
}

}  // namespace
}  // namespace binade
