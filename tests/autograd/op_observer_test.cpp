#include "binade/autograd/op_observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/autograd/node.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/reduce/reduce.h"
#include "support/tensors.h"

namespace binade::autograd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Logs the calls it gets.
class Notes : public OpObserver {
 public:
  void forward(Op op, std::span<const Tensor>, std::span<const Tensor>,
               std::span<const Tensor> outputs) override {
    const auto& meta = outputs[0].autograd_meta();
    seen.push_back(std::string(name(op)) + (meta != nullptr && meta->node ? "" : " unrecorded"));
  }
  void before_backward(const Node& node) override {
    seen.push_back("before " + std::string(name(node.op)));
  }
  void after_backward(const Node& node, std::span<const Tensor> dy) override {
    seen.push_back("after " + std::string(name(node.op)) + (dy[0].defined() ? "" : " nothing"));
  }
  std::vector<std::string> seen;
};

TEST(OpObserver, SeesEveryOpAndItsBackwardInOrder) {
  const Tensor x = test::leaf({1, 2}, {2});
  Notes notes;
  {
    const OpObserverScope scope(&notes);
    sum(square(x)).backward();
  }
  EXPECT_THAT(notes.seen, ElementsAre("square", "sum", "before sum", "after sum", "before square",
                                      "after square"));
  square(x);
  EXPECT_EQ(notes.seen.size(), 6u);
  EXPECT_EQ(op_observer(), nullptr);
}

TEST(OpObserver, ScopesNestAndMayBeEmpty) {
  Notes outer;
  const OpObserverScope scope(&outer);
  {
    const OpObserverScope none(nullptr);
    square(test::leaf({1}, {1}));
  }
  EXPECT_THAT(outer.seen, IsEmpty());
  EXPECT_EQ(op_observer(), &outer);
  square(tensor({1.0}, {1}));
  EXPECT_THAT(outer.seen, ElementsAre("square unrecorded"));
}

// A composite op is observed as one op, forward and backward.
TEST(OpObserver, NamesACompositeAsTheUserCalledIt) {
  const Tensor x = test::leaf({1, 2}, {2});
  Notes notes;
  const OpObserverScope scope(&notes);
  const Tensor loss = bce_with_logits(x, tensor({0.0, 1.0}, {2}));
  EXPECT_THAT(notes.seen, ElementsAre("bce_with_logits"));
  notes.seen.clear();
  loss.backward();
  EXPECT_FALSE(notes.seen.empty());
  for (const std::string& one : notes.seen)
    EXPECT_THAT(one, ::testing::AnyOf("before bce_with_logits", "after bce_with_logits"));
}

}  // namespace
}  // namespace binade::autograd
