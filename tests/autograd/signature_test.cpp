#include "binade/autograd/signature.h"

#include <gtest/gtest.h>

#include <set>

namespace binade {
namespace {

const Signature& described(std::string_view name) {
  const Signature* found = find_signature(name);
  EXPECT_NE(found, nullptr) << name;
  return *found;
}

TEST(Signatures, AreSpelledInEachLanguage) {
  const Signature& elu = described("elu");
  EXPECT_EQ(declaration(elu), "Tensor elu(const Tensor& x, double alpha = 1);");
  EXPECT_EQ(c_signature(elu), "elu(x; alpha = 1)");
  EXPECT_EQ(python_signature(elu), "elu(input, alpha=1)");
  EXPECT_EQ(python_summary(elu), "alpha * (exp(input) - 1) below 0, input above.");
  const Signature& topk = described("topk");
  EXPECT_EQ(c_signature(topk), "topk(x; k, axis = -1, largest = 1)");
  EXPECT_EQ(python_signature(topk), "topk(input, k, dim=-1, largest=True)");
  EXPECT_EQ(c_signature(described("sort")), "sort(x; axis = -1, descending = 0)");
  EXPECT_EQ(c_signature(described("sum")), "sum(x; axes = all, keep = 0, dtype = none)");
  EXPECT_EQ(python_signature(described("sum")), "sum(input, dim=None, keepdim=False, dtype=None)");
  EXPECT_EQ(c_signature(described("gather")), "gather(x, index; axis)");
  EXPECT_EQ(c_signature(described("layer_norm")), "layer_norm(x, weight?, bias?; eps = 1e-5)");
  EXPECT_EQ(c_signature(described("mse_loss")), "mse_loss(x, target; reduce = mean)");
}

TEST(Signatures, PassByNameInPythonWhatPyTorchPassesByName) {
  EXPECT_EQ(python_signature(described("addmm")), "addmm(input, mat1, mat2, *, beta=1, alpha=1)");
  EXPECT_EQ(python_signature(described("huber_loss")),
            "huber_loss(input, target, *, reduction='mean', delta=1)");
  EXPECT_EQ(python_signature(described("rope")), "rope(input, cosine, sine, start=0, rotated=-1)");
  EXPECT_EQ(python_signature(described("flip")), "flip(input, dims)");
  EXPECT_EQ(python_summary(described("leaky_relu")),
            "max(input, 0) + negative_slope * min(input, 0).");
}

TEST(Signatures, OfOverloadsHaveNamesOfTheirOwnInC) {
  const Signature& one = described("quantile");
  const Signature& several = described("quantiles");
  EXPECT_EQ(several.name, "quantile");
  EXPECT_EQ(c_signature(one), "quantile(x; q, axis = none, keep = 0)");
  EXPECT_EQ(c_signature(several), "quantiles(x, q; axis = none, keep = 0)");
  EXPECT_EQ(python_signature(one), "quantile(input, q, dim=None, keepdim=False)");
  EXPECT_EQ(python_signature(several), python_signature(one));
  EXPECT_EQ(declaration(several),
            "Tensor quantile(const Tensor& x, const Tensor& q, std::optional<int64_t> axis = {}, "
            "bool keep = false);");
  EXPECT_EQ(c_signature(described("scatter_value")), "scatter_value(x, index; axis, value)");
  EXPECT_EQ(python_signature(described("nan_to_num")),
            "nan_to_num(input, nan=0, posinf=None, neginf=None)");
  EXPECT_FALSE(described("median_along").cast.has_value()) << "overloads are of composed ops";
}

TEST(Signatures, SayWhatAutocastAndAutogradDo) {
  EXPECT_EQ(described("linear").cast, CastClass::lower);
  EXPECT_EQ(described("transpose").cast, std::nullopt) << "composed";
  EXPECT_EQ(described("argmax").no_gradient_reason, "its result is an index");
  EXPECT_TRUE(described("exp").no_gradient_reason.empty());
  EXPECT_EQ(described("exp").form, OpForm::in_place);
  EXPECT_FALSE(described("conv2d").is_plain());
  EXPECT_EQ(find_signature("no_such_op"), nullptr);
}

TEST(Signatures, HaveNamesOfTheirOwnAndASummary) {
  std::set<std::string_view> names;
  for (const Signature& op : signatures()) {
    EXPECT_TRUE(names.insert(op.c_name).second) << op.c_name;
    EXPECT_EQ(find_signature(op.c_name), &op);
    EXPECT_EQ(op.summary.back(), '.') << op.name;
    EXPECT_FALSE(op.section.empty() || op.header.empty()) << op.name;
  }
  for (const OpInfo& op : all_ops()) EXPECT_EQ(name(op.op), op.name);
}

}  // namespace
}  // namespace binade
