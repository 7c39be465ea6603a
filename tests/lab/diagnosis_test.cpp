#include "binade/lab/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "binade/train/config/config.h"
#include "lab/faults/table.h"

namespace binade::lab {
namespace {

using autograd::ModuleScope;
using faults::constant, faults::Fault, faults::infinity, faults::nan, faults::spiked,
    faults::UpdateFault;
using ::testing::HasSubstr;

std::vector<Fault> all_faults() {
  std::vector<Fault> all;
  for (const auto& group :
       {faults::forward_faults(), faults::backward_faults(), faults::mask_faults(),
        faults::divergence_faults(), faults::underflow_faults(), faults::state_faults(),
        faults::graph_faults(), faults::everyday_faults(), faults::swallowed_faults()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

DiagnosisInput input_of(const Fault& fault, const Tensor& weight) {
  NamedTensors parameters = fault.parameters;
  parameters.emplace_back("layer.weight", weight);
  const auto loss = [fault, weight](const Replay& replay) {
    const ModuleScope scope("layer");
    const amp::Autocast cast(replay.autocast({.enabled = fault.autocast, .dtype = DType::f16}));
    return fault.run(weight);
  };
  return {.loss = loss,
          .parameters = [parameters](const Replay&) { return parameters; },
          .scale = fault.scale,
          .buffers = [fault](const Replay&) { return fault.buffers; },
          .history = fault.history};
}

Tensor weight_of(const Fault& fault) { return constant(fault.weight).set_requires_grad(); }

// The first thing that a diagnosis has wrong; empty if it is right.
std::string mistake(const Fault& fault, const std::optional<Diagnosis>& found) {
  if (!found) return "nothing found";
  const Finding& f = found->finding;
  if (f.op != fault.op) return "op " + f.op;
  if (f.module != fault.module) return "module " + f.module;
  if (f.direction != fault.direction) return "direction " + std::string(name(f.direction));
  if (f.origin != fault.origin) return "origin " + std::to_string(static_cast<int>(f.origin));
  if (found->verdict != fault.verdict) return "verdict " + std::string(name(found->verdict));
  if (f.tensor.find(fault.tensor) == std::string::npos) return "tensor " + f.tensor;
  if (f.scale != fault.scale) return "scale";
  if ((found->evidence + found->advice).find(fault.says) == std::string::npos)
    return "words: " + found->evidence + "; " + found->advice;
  return "";
}

std::string mistake(const UpdateFault& fault) {
  Tensor weight = constant(fault.weight, {4, 8}, fault.dtype);
  weight.set_requires_grad();
  const auto optimizer = fault.optimizer(weight);
  weight.set_grad(constant(1));
  const NamedTensors names{{"layer.weight", weight}};
  if (fault.prepare) {
    optimizer->step();
    fault.prepare(*optimizer);
  } else {
    weight.set_grad(constant(fault.gradient));
    optimizer->step();
  }
  const auto found = examine_update(*optimizer, names);
  if (!found) return "nothing found";
  if (found->op != fault.op) return "op " + found->op;
  if (found->module != "layer") return "module " + found->module;
  if (found->direction != fault.direction) return "direction";
  return found->tensor == fault.tensor ? "" : "tensor " + found->tensor;
}

// The score: at least 98 of 100, in op, module, direction, origin and verdict.
TEST(PlantedFaults, AreFoundWhereTheyWerePlanted) {
  int right = 0, count = 0;
  const auto note = [&](const std::string& name, const std::string& wrong) {
    ++count;
    right += wrong.empty();
    if (!wrong.empty()) std::printf("  %-44s wrong: %s\n", name.c_str(), wrong.c_str());
  };
  for (const Fault& fault : all_faults()) {
    const Tensor weight = weight_of(fault);
    const auto found = diagnose(input_of(fault, weight));
    note(fault.name, mistake(fault, found));
    EXPECT_FALSE(weight.grad().defined()) << fault.name;  // diagnose() clears gradients
    if (found) {
      EXPECT_FALSE(found->advice.empty() && !found->cure) << fault.name;
      EXPECT_EQ(to_text(*found).find("set_module(\"\""), std::string::npos) << fault.name;
    }
  }
  for (const UpdateFault& fault : faults::update_faults()) note(fault.name, mistake(fault));
  std::printf("planted faults: %d of %d right\n", right, count);
  EXPECT_GE(count, 100);
  EXPECT_GE(right, 0.98 * count);
}

// A cure as a user follows it: its TOML goes into a configuration, and the step runs with that.
bool cures(const Fault& fault, const Cure& cure) {
  const train::Config config =
      train::resolve_text("[train]\ndevice = \"cpu\"\n" + cure.toml(), "cure.toml");
  const bool in_bf16 = config.precision.matmul == train::Precision::bf16 && cure.autocast_type;
  const double scale = cure.scale ? config.precision.scale_init : in_bf16 ? 1 : fault.scale;
  amp::AutocastState state{
      .enabled = fault.autocast,
      .dtype = in_bf16 ? DType::bf16 : DType::f16,
      .policy = std::make_shared<amp::Policy>(train::policy_of(config.precision.overrides))};
  const Tensor weight = weight_of(fault);
  const Tensor loss = [&] {
    const ModuleScope scope("layer");
    const amp::Autocast cast(state);
    return fault.run(weight);
  }();
  const Tensor scaled = loss * scale;
  scaled.backward();
  const std::vector<double> gradient = to_vector(weight.grad());
  const bool finite =
      std::isfinite(scaled.item()) &&
      std::all_of(gradient.begin(), gradient.end(), [](double x) { return std::isfinite(x); });
  const bool nonzero =
      std::any_of(gradient.begin(), gradient.end(), [](double x) { return x != 0; });
  return finite && (nonzero || fault.verdict != Verdict::underflow);
}

TEST(Cures, SayWhatTheyChangeAndNothingElse) {
  const Cure type{.autocast_type = DType::bf16}, scale{.scale = 1024};
  EXPECT_EQ(type.cpp(), "amp::Autocast cast(DType::bf16);\n");
  EXPECT_EQ(type.toml(), "[precision]\nprecision = \"bf16\"\n");
  EXPECT_EQ(scale.cpp(), "amp::GradScaler scaler({.init_scale = 1024});\n");
  EXPECT_EQ(scale.toml(), "[precision]\nscale_init = 1024\n");
}

TEST(PlantedFaults, AreCuredByTheAdviceThatClaimsTo) {
  int cured = 0, claimed = 0, curable = 0;
  for (const Fault& fault : all_faults()) {
    const auto found = diagnose(input_of(fault, weight_of(fault)));
    const bool is_own = fault.says == "the program itself";  // which no setting reaches
    curable += !is_own && (fault.verdict == Verdict::range || fault.verdict == Verdict::underflow ||
                           fault.verdict == Verdict::loss_scale);
    if (!found || !found->cure) continue;
    ++claimed;
    const bool works = cures(fault, *found->cure);
    cured += works;
    if (!works)
      std::printf("  %s is not cured by\n%s", fault.name.c_str(), found->cure->toml().c_str());
  }
  std::printf("cures: %d of %d that were claimed work; %d faults have one\n", cured, claimed,
              curable);
  EXPECT_GE(cured, 0.95 * claimed);
  EXPECT_GE(claimed, 0.9 * curable);
}

TEST(Diagnosis, NamesTheElement) {
  Tensor weight = constant(1);
  weight.set_requires_grad();
  const auto found = diagnose({[&](const Replay&) { return sum(linear(spiked(nan), weight)); },
                               [&](const Replay&) {
                                 return NamedTensors{{"w", weight}};
                               }});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->finding.first.index, Shape({2, 5}));
  EXPECT_TRUE(std::isnan(found->finding.first.value));
  EXPECT_EQ(found->finding.first.count, 1);
  EXPECT_THAT(to_text(*found), HasSubstr("nan at [2, 5] of input 0 [4, 8] f32"));
}

TEST(Diagnosis, SaysWhichScaleFits) {
  Tensor weight = constant(1, {1});
  weight.set_requires_grad();
  // An f16 gradient of 100 * scale: 65504 / 100 = 655.04, so 512 is the largest power of two.
  const auto found = diagnose(
      {[&](const Replay&) { return sum(cast(cast(weight, DType::f16), DType::f32)) * 100; },
       [&](const Replay&) {
         return NamedTensors{{"w", weight}};
       },
       65536});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->verdict, Verdict::loss_scale);
  EXPECT_EQ(found->largest_scale, 512);
}

TEST(Diagnosis, FindsNothingInAHealthyComputation) {
  Tensor weight = constant(1);
  weight.set_requires_grad();
  // A mask of -inf does not propagate through softmax: not a fault.
  const auto masked = [&](const Replay&) {
    return sum(square(softmax(weight + spiked(-infinity))));
  };
  EXPECT_FALSE(diagnose({masked, [&](const Replay&) { return NamedTensors{{"w", weight}}; }}));
}

}  // namespace
}  // namespace binade::lab
