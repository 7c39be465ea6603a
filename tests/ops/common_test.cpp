#include "binade/ops/common.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/ops/arithmetic.h"
#include "binade/ops/shape.h"
#include "binade/ops/unary.h"
#include "support/tensors.h"

namespace binade::ops {
namespace {

using testing::ElementsAre;

TEST(Require, SaysWhatWasExpectedAndFound) {
  const Tensor x = zeros({2, 3}), whole = zeros({2}, DType::i64),
               meta = Tensor::empty({2}, DType::f32, Device::meta());
  EXPECT_EQ(test::error_of([] { require_defined("op", "x", Tensor()); }),
            "op: x: expected a tensor, found none");
  EXPECT_EQ(test::error_of([&] { require_compute("op", "x", whole); }),
            "op: x: expected f64, f32, f16 or bf16, found [2] i64 cpu; cast() it");
  EXPECT_EQ(test::error_of([&] { require_index("op", "index", x); }),
            "op: index: expected i64 or i32, found [2, 3] f32 cpu");
  EXPECT_EQ(test::error_of([&] { require_rank("op", "x", x, 3); }),
            "op: x: expected 3 dimensions, found [2, 3] f32 cpu");
  EXPECT_EQ(test::error_of([&] { require_shape("op", "x", x, {3}); }),
            "op: x: expected [3], found [2, 3] f32 cpu");
  EXPECT_EQ(test::error_of([&] { require_same_dtype("op", x, whole); }),
            "op: inputs: expected one dtype, found f32 and i64; cast() one of them");
  EXPECT_EQ(test::error_of([] { require_finite("op", "p", 1 / 0.0); }),
            "op: p: expected a finite number, found inf");
  EXPECT_EQ(test::error_of([] { require_between("op", "p", 1.5, 0, 1); }),
            "op: p: expected 0 to 1, found 1.5");
  EXPECT_EQ(test::error_of([&] { require_device("op", "index", meta, x); }),
            "op: index: expected a tensor on cpu, found [2] f32 meta; move it with to(x, device)");
  EXPECT_EQ(test::error_of([&] { require_classes("op", whole, 0, -100); }),
            "op: target: expected classes from 0 to -1 or -100, found 0 at element 0");
  require_between("op", "p", 1, 0, 1);
  require_classes("op", whole, 1, -100);
  require_classes("op", Tensor::empty({2}, DType::i64, Device::meta()), 1, -100);
}

TEST(Layout, DenseCopiesOnlyWhatIsNot) {
  const Tensor x = tensor({1, 2, 3, 4}, {2, 2});
  EXPECT_TRUE(dense(x).same_as(x));
  const Tensor transposed = dense(x.strided({2, 2}, {1, 2}, 0));
  EXPECT_TRUE(transposed.is_dense());
  EXPECT_THAT(test::read(transposed), ElementsAre(1, 3, 2, 4));
  EXPECT_FALSE(dense(Tensor()).defined());
  EXPECT_TRUE(converted(x, DType::f32).same_as(x));
  EXPECT_EQ(converted(x, DType::f16).dtype(), DType::f16);
  EXPECT_EQ(viewed(x, {4}).raw_data(), x.raw_data());
}

TEST(Layout, RowsTimesWidth) {
  const auto whole = rows_of({2, 3, 5});
  EXPECT_EQ(whole.rows, 6);
  EXPECT_EQ(whole.width, 5);
  const auto two = rows_of({2, 3, 5}, 2);
  EXPECT_EQ(two.rows, 2);
  EXPECT_EQ(two.width, 15);
  EXPECT_EQ(rows_of({0, 5}).rows, 0);
  EXPECT_EQ(batch_of(zeros({2, 3, 4, 5})), (Shape{2, 3}));
}

TEST(Composite, SwitchesAutocastOffAndIsListedOnce) {
  const auto trace = amp::explain([] {
    const amp::Autocast cast(DType::bf16);
    Composite call(Op::einsum, {ones({2}), Tensor()});
    EXPECT_EQ(call[0].dtype(), DType::bf16) << "cast by the policy of the whole";
    EXPECT_FALSE(call[1].defined());
    EXPECT_FALSE(amp::autocast_state().enabled);
    call.result(exp(call[0]));
  });
  ASSERT_EQ(trace.size(), 2u) << "what the op is made of is not listed";
  EXPECT_EQ(trace[0].op, Op::cast);
  EXPECT_EQ(trace[1].op, Op::einsum);
  EXPECT_FALSE(amp::autocast_state().enabled);
}

}  // namespace
}  // namespace binade::ops
