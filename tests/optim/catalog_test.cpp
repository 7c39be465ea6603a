#include "binade/optim/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/optim/optimizer.h"
#include "support/error_of.h"

namespace binade::optim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Tensor catalog_matrix(DType dtype = DType::f32) {
  Tensor matrix = cast(randn({64, 80}, {8, 0}), dtype);
  return matrix.set_requires_grad();
}

std::unique_ptr<Optimizer> made(const Description& one, const NamedOptions& options = {}) {
  return one.make({{{catalog_matrix()}, options}});
}

// What forecasts add up is what a step keeps.
TEST(Catalog, DescribesTheStateOfEveryOptimizer) {
  std::set<std::string_view> names;
  for (const Description& one : catalog()) {
    SCOPED_TRACE(one.name);
    EXPECT_TRUE(names.insert(one.name).second);
    EXPECT_EQ(&describe(one.kind), &one);
    EXPECT_EQ(&find_optimizer(one.name), &one);
    for (const DType moments : {DType::f32, DType::bf16}) {
      NamedOptions options;
      if (one.takes("moments")) options["moments"] = moments;
      const auto optimizer = made(one, options);
      EXPECT_EQ(optimizer->name(), one.name);
      optimizer->parameters()[0].set_grad(ones({64, 80}));
      optimizer->step();
      std::set<std::string> described, found;
      int64_t bytes = 0;
      for (const StateTensor& state : one.state)
        if (!state.is_optional) described.insert("0." + std::string(state.name));
      for (const auto& [name, tensor] : optimizer->state_dict()) {
        if (name.ends_with("steps")) continue;
        found.insert(name);
        if (tensor.numel() == 64 * 80) bytes += tensor.bytes();
      }
      EXPECT_EQ(found, described);
      EXPECT_EQ(static_cast<double>(bytes) / (64 * 80), state_bytes(one.kind, moments));
    }
  }
  EXPECT_EQ(state_bytes(Kind::adamw, DType::u8), 2);
  EXPECT_EQ(state_bytes(Kind::muon, DType::bf16), 4);
}

TEST(Catalog, KnowsWhoHasMomentum) {
  for (const Description& one : catalog()) {
    SCOPED_TRACE(one.name);
    const auto optimizer = made(one);
    const std::string error = test::error_of([&] { optimizer->set_momentum(0.5); });
    EXPECT_EQ(error.empty(), one.has_momentum) << error;
  }
}

TEST(Catalog, KnowsWhatRanksMayShare) {
  for (const Description& one : catalog()) {
    SCOPED_TRACE(one.name);
    const auto with_part = [&](Part part) {
      return test::error_of([&] { one.make({{{catalog_matrix()}, {}, {.parts = {part}}}}); });
    };
    EXPECT_EQ(with_part({1024, 2048}).empty(), one.sharing == Sharing::elements);
    EXPECT_EQ(with_part({0, 64 * 80}).empty(), one.sharing != Sharing::none);
  }
}

TEST(Catalog, TakesOptionsByName) {
  const auto optimizer = made(find_optimizer("Lion"), {{"lr", 0.25}, {"weight_decay", 1.0}});
  EXPECT_EQ(optimizer->lr(), 0.25);
  EXPECT_EQ(describe(Kind::lion).options(),
            (std::vector<std::string>{"lr", "betas", "weight_decay", "moments"}));
  EXPECT_TRUE(describe(Kind::nadam).takes("momentum_decay"));
  EXPECT_FALSE(describe(Kind::adafactor).takes("moments"));
  struct Bad {
    const char *optimizer, *option;
    OptionValue value;
    const char* error;
  };
  const Bad bad[] = {
      {"Lion", "eps", 1e-8,
       "Lion: options: expected lr, betas, weight_decay and moments, found 'eps'"},
      {"Lion", "betas", 0.9, "betas: expected a tuple of numbers, found 0.9"},
      {"Lion", "betas", std::vector{0.9, 0.8, 0.7},
       "betas: expected 2 numbers, found (0.9, 0.8, 0.7)"},
      {"Adam", "amsgrad", std::string("yes"), "amsgrad: expected true or false, found 'yes'"},
      {"Adam", "moments", 8.0, "moments: expected a dtype, found 8"},
      {"Muon", "ns_steps", 2.5, "ns_steps: expected an integer, found 2.5"},
      {"Muon", "adjust_lr_fn", std::string("none"),
       "expected original or match_rms_adamw, found 'none'"},
      {"SGD", "momentum", OtherValue{"None"}, "momentum: expected a number, found None"},
  };
  for (const Bad& one : bad)
    EXPECT_THAT(test::error_of([&] {
                  made(find_optimizer(one.optimizer), {{one.option, one.value}});
                }),
                HasSubstr(one.error));
}

// Numbers alone, as C gives them.
TEST(Catalog, TakesZeroAndOneForFlags) {
  const auto amsgrad = made(find_optimizer("Adam"), {{"amsgrad", 1.0}});
  EXPECT_TRUE(amsgrad->state_dict().contains("0.third"));
  EXPECT_FALSE(made(find_optimizer("Adam"), {{"amsgrad", 0.0}})->state_dict().contains("0.third"));
  EXPECT_THAT(test::error_of([] {
                made(find_optimizer("Adam"), {{"amsgrad", 2.0}});
              }),
              HasSubstr("amsgrad: expected true or false, found 2"));
}

TEST(Catalog, ListsNames) {
  EXPECT_EQ(names_of([](const Description& one) { return one.runs_on_gpu; }),
            "SGD, Adam, AdamW and Muon");
  EXPECT_EQ(choices_of([](const Description& one) { return one.runs_on_gpu; }), "adamw or muon");
  EXPECT_THAT(test::error_of([] { find_optimizer("Adamm"); }),
              AllOf(HasSubstr("SGD, Adam, AdamW"), HasSubstr("or Muon, found 'Adamm'")));
}

}  // namespace
}  // namespace binade::optim
