#include "binade/autograd/op.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace binade {
namespace {

TEST(OpInfo, TableIsInTheOrderOfTheEnum) {
  size_t i = 0;
  for (const OpInfo& entry : all_ops()) {
    EXPECT_EQ(static_cast<size_t>(entry.op), i++);
    EXPECT_EQ(info(entry.op).name, entry.name);
    EXPECT_EQ(name(entry.op), entry.name);
  }
  EXPECT_GT(i, 130u);
}

TEST(OpInfo, NamesAreUniqueAndFound) {
  std::set<std::string_view> names;
  for (const OpInfo& entry : all_ops()) {
    names.insert(entry.name);
    EXPECT_EQ(find_op(entry.name), entry.op);
  }
  EXPECT_EQ(names.size(), all_ops().size());
  EXPECT_FALSE(find_op("no_such_op").has_value());
  EXPECT_FALSE(find_op("").has_value());
}

TEST(OpInfo, EveryOpHasAGradientOrAReason) {
  for (const OpInfo& entry : all_ops())
    EXPECT_EQ(entry.differentiable, entry.no_gradient_reason.empty()) << entry.name;
  EXPECT_FALSE(info(Op::argmax).differentiable);
  EXPECT_EQ(info(Op::argmax).no_gradient_reason, "its result is an index");
}

TEST(OpInfo, CastClassesAreReadBack) {
  for (const CastClass cast : {CastClass::lower, CastClass::f32, CastClass::f32_unless_named,
                               CastClass::promote, CastClass::refuse, CastClass::as_is}) {
    EXPECT_EQ(find_cast_class(name(cast)), cast);
  }
  EXPECT_FALSE(find_cast_class("f16").has_value());
}

TEST(OpInfo, ClassesFollowTheListsOfPyTorch) {
  for (const char* lower :
       {"matmul", "mm", "bmm", "addmm", "baddbmm", "mv", "linear", "conv1d", "conv_transpose3d",
        "prelu", "einsum", "scaled_dot_product_attention", "lstm_cell", "gru_cell"}) {
    EXPECT_EQ(info(*find_op(lower)).cast, CastClass::lower) << lower;
  }
  for (const char* wide : {"exp", "log", "pow", "reciprocal", "rsqrt", "softplus", "layer_norm",
                           "rms_norm", "cross_entropy", "mse_loss", "logsumexp"}) {
    EXPECT_EQ(info(*find_op(wide)).cast, CastClass::f32) << wide;
  }
  for (const char* named : {"softmax", "log_softmax", "sum", "prod", "cumsum", "cumprod", "norm"}) {
    EXPECT_EQ(info(*find_op(named)).cast, CastClass::f32_unless_named) << named;
  }
  for (const char* widest : {"addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "index_put",
                             "scatter_add", "cat", "stack", "tensordot"}) {
    EXPECT_EQ(info(*find_op(widest)).cast, CastClass::promote) << widest;
  }
  EXPECT_EQ(info(Op::binary_cross_entropy).cast, CastClass::refuse);
  EXPECT_EQ(info(Op::add).cast, CastClass::as_is);
}

}  // namespace
}  // namespace binade
