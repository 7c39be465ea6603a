#include "binade/amp/warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "binade/binade.h"

namespace binade::amp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A weight, its optimizer and a scaler, and the warnings about their use.
class Misuse : public ::testing::Test {
 protected:
  ~Misuse() override { set_warning_function(std::move(before_)); }

  Tensor loss() const { return sum(weight_ * 3.0); }
  StepReport end() {
    const StepReport report = scaler_.step(optimizer_);
    scaler_.update();
    optimizer_.zero_grad();
    return report;
  }

  std::vector<std::string> warnings_;
  WarningFunction before_ =
      set_warning_function([this](const std::string& text) { warnings_.push_back(text); });
  Tensor weight_ = [] {
    Tensor weight = full({4}, 2.0);
    weight.set_requires_grad();
    return weight;
  }();
  optim::SGD optimizer_{{weight_}, {.lr = 0.1}};
  GradScaler scaler_;
};

TEST_F(Misuse, IsNotFoundInProperLoops) {
  for (int i = 0; i < 3; ++i) {
    scaler_.scale(loss()).backward();
    EXPECT_THAT(end().warnings(), IsEmpty());
  }
  // Accumulation, and a loss that no backward uses beside one that does.
  for (int i = 0; i < 3; ++i) scaler_.scale(loss() * (1.0 / 3)).backward();
  scaler_.scale(loss());
  EXPECT_THAT(end().warnings(), IsEmpty());
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(Misuse, ScaledLossThatBackwardDoesNotUse) {
  for (int i = 0; i < 3; ++i) {
    scaler_.scale(loss());
    loss().backward();
    EXPECT_THAT(end().warnings(), ElementsAre(HasSubstr("not loss.backward()")));
  }
  EXPECT_EQ(warnings_.size(), 1u);  // once
  scaler_.scale(loss()).backward();
  EXPECT_THAT(end().warnings(), IsEmpty());
}

TEST_F(Misuse, StepWithoutScaledLoss) {
  scaler_.scale(loss()).backward();
  end();
  loss().backward();
  EXPECT_THAT(end().warnings(), ElementsAre(HasSubstr("without scale(loss)")));
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(Misuse, LossScaledTwice) {
  scaler_.scale(scaler_.scale(loss())).backward();
  EXPECT_THAT(end().warnings(), ElementsAre(HasSubstr("scaled already")));
  scaler_.scale(loss()).backward();
  EXPECT_THAT(end().warnings(), IsEmpty());
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(Misuse, ClippingBeforeUnscaling) {
  for (int i = 0; i < 2; ++i) {
    scaler_.scale(loss()).backward();
    optim::clip_grad_norm({weight_}, 1);
    EXPECT_THAT(end().warnings(), ElementsAre(HasSubstr("before they were unscaled")));
    scaler_.scale(loss()).backward();
    optim::clip_grad_value({weight_}, 1);
    scaler_.unscale(optimizer_);
    EXPECT_THAT(end().warnings(), ElementsAre(HasSubstr("before they were unscaled")));
  }
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(Misuse, ClippingInTimeIsNone) {
  Tensor other = full({4}, 1.0);
  other.set_requires_grad();
  for (int i = 0; i < 3; ++i) {
    optim::clip_grad_norm({weight_, other}, 1);
    scaler_.scale(loss()).backward();
    sum(other * other).backward();
    optim::clip_grad_norm({other}, 1);  // of a model without a scaler
    scaler_.unscale(optimizer_);
    optim::clip_grad_norm({weight_}, 1);
    EXPECT_THAT(end().warnings(), IsEmpty());
  }
}

TEST_F(Misuse, ForgottenZeroGrad) {
  const auto step = [this] {
    scaler_.scale(loss()).backward();
    scaler_.scale(loss()).backward();  // accumulates
    const StepReport report = scaler_.step(optimizer_);
    scaler_.update();
    return report;
  };
  EXPECT_THAT(step().warnings(), IsEmpty());
  EXPECT_THAT(step().warnings(), ElementsAre(HasSubstr("optimizer.zero_grad()")));
  fill_(weight_.grad(), 0);
  EXPECT_THAT(step().warnings(), IsEmpty());
  weight_.set_grad(full({4}, 0.0));
  EXPECT_THAT(step().warnings(), IsEmpty());
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(Misuse, ScaleThatFallsToZero) {
  for (int i = 0; i < 56; ++i) {
    weight_.set_grad(full({4}, std::numeric_limits<double>::infinity()));
    scaler_.scale(loss()).backward();
    end();
  }
  EXPECT_THAT(warnings_, IsEmpty());
  weight_.set_grad(full({4}, std::numeric_limits<double>::infinity()));
  scaler_.scale(loss()).backward();
  end();
  EXPECT_LT(scaler_.get_scale(), 0x1p-40);
  scaler_.scale(loss() * std::numeric_limits<double>::infinity()).backward();
  end();
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("approaches 0")));
}

TEST_F(Misuse, DisabledScalersAreNotChecked) {
  scaler_ = GradScaler({.enabled = false});
  loss().backward();
  EXPECT_THAT(end().warnings(), IsEmpty());
  EXPECT_THAT(warnings_, IsEmpty());
}

}  // namespace
}  // namespace binade::amp
