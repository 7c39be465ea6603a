#include "binade/amp/autocast.h"

#include <gtest/gtest.h>

#include <map>

#include "amp/golden.h"
#include "binade/binade.h"
#include "support/values.h"

namespace binade {
namespace {

using Inputs = std::span<const Tensor>;
using Program = Tensor (*)(Inputs);

template <Tensor (*function)(const Tensor&)>
Tensor call_unary(Inputs x) {
  return function(x[0]);
}

// How to call an op of the recorded lists: the shapes of its floating inputs, and the call.
struct OpCall {
  std::vector<Shape> shapes;
  Program call;
};

CellWeights cell_weights(Inputs x) { return {x[2], x[3], {}, {}}; }

Tensor index() { return tensor(std::vector<int64_t>{0, 1}, {2}); }

const std::map<std::string, OpCall>& calls() {
  static const std::map<std::string, OpCall> table = [] {
    std::map<std::string, OpCall> t;
    const Shape m{2, 2}, v{2};
    t["matmul"] = {{m, m}, [](Inputs x) { return matmul(x[0], x[1]); }};
    t["mm"] = {{m, m}, [](Inputs x) { return mm(x[0], x[1]); }};
    t["bmm"] = {{{1, 2, 2}, {1, 2, 2}}, [](Inputs x) { return bmm(x[0], x[1]); }};
    t["addmm"] = {{m, m, m}, [](Inputs x) { return addmm(x[0], x[1], x[2]); }};
    t["baddbmm"] = {{{1, 2, 2}, {1, 2, 2}, {1, 2, 2}},
                    [](Inputs x) { return baddbmm(x[0], x[1], x[2]); }};
    t["mv"] = {{m, v}, [](Inputs x) { return mv(x[0], x[1]); }};
    t["linear"] = {{m, m}, [](Inputs x) { return linear(x[0], x[1]); }};
    t["conv1d"] = {{{1, 2, 4}, {2, 2, 3}}, [](Inputs x) { return conv1d(x[0], x[1]); }};
    t["conv2d"] = {{{1, 2, 4, 4}, {2, 2, 3, 3}}, [](Inputs x) { return conv2d(x[0], x[1]); }};
    t["conv3d"] = {{{1, 2, 4, 4, 4}, {2, 2, 3, 3, 3}}, [](Inputs x) { return conv3d(x[0], x[1]); }};
    t["conv_transpose1d"] = {{{1, 2, 4}, {2, 2, 3}},
                             [](Inputs x) { return conv_transpose1d(x[0], x[1]); }};
    t["conv_transpose2d"] = {{{1, 2, 4, 4}, {2, 2, 3, 3}},
                             [](Inputs x) { return conv_transpose2d(x[0], x[1]); }};
    t["conv_transpose3d"] = {{{1, 2, 4, 4, 4}, {2, 2, 3, 3, 3}},
                             [](Inputs x) { return conv_transpose3d(x[0], x[1]); }};
    t["prelu"] = {{m, {1}}, [](Inputs x) { return prelu(x[0], x[1]); }};
    t["scaled_dot_product_attention"] = {{{1, 1, 2, 4}, {1, 1, 2, 4}, {1, 1, 2, 4}}, [](Inputs x) {
                                           return scaled_dot_product_attention(x[0], x[1], x[2]);
                                         }};
    t["einsum"] = {{m, m}, [](Inputs x) { return einsum("ij,jk->ik", x); }};
    t["exp"] = {{m}, call_unary<exp>};
    t["expm1"] = {{m}, call_unary<expm1>};
    t["log"] = {{m}, call_unary<log>};
    t["log2"] = {{m}, call_unary<log2>};
    t["log10"] = {{m}, call_unary<log10>};
    t["log1p"] = {{m}, call_unary<log1p>};
    t["reciprocal"] = {{m}, call_unary<reciprocal>};
    t["rsqrt"] = {{m}, call_unary<rsqrt>};
    t["tan"] = {{m}, call_unary<tan>};
    t["sinh"] = {{m}, call_unary<sinh>};
    t["cosh"] = {{m}, call_unary<cosh>};
    t["acos"] = {{m}, call_unary<acos>};
    t["asin"] = {{m}, call_unary<asin>};
    t["erfinv"] = {{m}, call_unary<erfinv>};
    t["softplus"] = {{m}, call_unary<softplus>};
    t["abs"] = {{m}, call_unary<abs>};
    t["sqrt"] = {{m}, call_unary<sqrt>};
    t["tanh"] = {{m}, call_unary<tanh>};
    t["sigmoid"] = {{m}, call_unary<sigmoid>};
    t["relu"] = {{m}, call_unary<relu>};
    t["silu"] = {{m}, call_unary<silu>};
    t["pow"] = {{m}, [](Inputs x) { return pow(x[0], 2.0); }};
    t["gelu"] = {{m}, [](Inputs x) { return gelu(x[0]); }};
    t["layer_norm"] = {{m}, [](Inputs x) { return layer_norm(x[0]); }};
    t["rms_norm"] = {{m}, [](Inputs x) { return rms_norm(x[0]); }};
    t["group_norm"] = {{{2, 2, 3}}, [](Inputs x) { return group_norm(x[0], 1); }};
    t["cosine_similarity"] = {{m, m}, [](Inputs x) { return cosine_similarity(x[0], x[1]); }};
    t["cdist"] = {{m, m}, [](Inputs x) { return cdist(x[0], x[1]); }};
    t["logsumexp"] = {{m}, [](Inputs x) { return logsumexp(x[0]); }};
    t["nll_loss"] = {{m}, [](Inputs x) { return nll_loss(x[0], index()); }};
    t["cross_entropy"] = {{m}, [](Inputs x) { return cross_entropy(x[0], index()); }};
    t["kl_div"] = {{m, m}, [](Inputs x) { return kl_div(x[0], x[1]); }};
    t["mse_loss"] = {{m, m}, [](Inputs x) { return mse_loss(x[0], x[1]); }};
    t["l1_loss"] = {{m, m}, [](Inputs x) { return l1_loss(x[0], x[1]); }};
    t["smooth_l1_loss"] = {{m, m}, [](Inputs x) { return smooth_l1_loss(x[0], x[1]); }};
    t["huber_loss"] = {{m, m}, [](Inputs x) { return huber_loss(x[0], x[1]); }};
    t["bce_with_logits"] = {{m, m}, [](Inputs x) { return bce_with_logits(x[0], x[1]); }};
    t["binary_cross_entropy"] = {{m, m}, [](Inputs x) { return binary_cross_entropy(x[0], x[1]); }};
    t["softmax"] = {{m}, [](Inputs x) { return softmax(x[0]); }};
    t["log_softmax"] = {{m}, [](Inputs x) { return log_softmax(x[0]); }};
    t["sum"] = {{m}, [](Inputs x) { return sum(x[0]); }};
    t["prod"] = {{m}, [](Inputs x) { return prod(x[0]); }};
    t["cumsum"] = {{m}, [](Inputs x) { return cumsum(x[0], 0); }};
    t["cumprod"] = {{m}, [](Inputs x) { return cumprod(x[0], 0); }};
    t["vector_norm"] = {{m}, [](Inputs x) { return norm(x[0]); }};
    t["addcdiv"] = {{m, m, m}, [](Inputs x) { return addcdiv(x[0], x[1], x[2]); }};
    t["addcmul"] = {{m, m, m}, [](Inputs x) { return addcmul(x[0], x[1], x[2]); }};
    t["atan2"] = {{m, m}, [](Inputs x) { return atan2(x[0], x[1]); }};
    t["bilinear"] = {{m, m, {2, 2, 2}}, [](Inputs x) { return bilinear(x[0], x[1], x[2]); }};
    t["cross"] = {{{2, 3}, {2, 3}}, [](Inputs x) { return cross(x[0], x[1]); }};
    t["dot"] = {{v, v}, [](Inputs x) { return dot(x[0], x[1]); }};
    t["index_put"] = {{m, m}, [](Inputs x) { return index_put(x[0], index(), x[1]); }};
    t["scatter_add"] = {{v, v}, [](Inputs x) { return scatter_add(x[0], 0, index(), x[1]); }};
    t["cat"] = {{m, m}, [](Inputs x) { return cat(x, 0); }};
    t["stack"] = {{m, m}, [](Inputs x) { return stack(x, 0); }};
    t["tensordot"] = {{m, m}, [](Inputs x) { return tensordot(x[0], x[1], {1}, {0}); }};
    t["rnn_tanh_cell"] = {{m, m, m, m},
                          [](Inputs x) { return rnn_tanh_cell(x[0], x[1], cell_weights(x)); }};
    t["rnn_relu_cell"] = {{m, m, m, m},
                          [](Inputs x) { return rnn_relu_cell(x[0], x[1], cell_weights(x)); }};
    t["lstm_cell"] = {{m, m, {8, 2}, {8, 2}, m},
                      [](Inputs x) { return lstm_cell(x[0], x[1], x[4], cell_weights(x)).first; }};
    t["gru_cell"] = {{m, m, {6, 2}, {6, 2}},
                     [](Inputs x) { return gru_cell(x[0], x[1], cell_weights(x)); }};
    t["upsample_nearest2d"] = {{{1, 1, 2, 2}},
                               [](Inputs x) { return upsample_nearest2d(x[0], 4, 4); }};
    t["upsample_bilinear2d"] = {{{1, 1, 2, 2}},
                                [](Inputs x) { return upsample_bilinear2d(x[0], 4, 4); }};
    t["grid_sampler"] = {{{1, 1, 2, 2}, {1, 2, 2, 2}},
                         [](Inputs x) { return grid_sampler(x[0], x[1]); }};
    t["soft_margin_loss"] = {{m, m}, [](Inputs x) { return soft_margin_loss(x[0], x[1]); }};
    t["margin_ranking_loss"] = {{v, v, v},
                                [](Inputs x) { return margin_ranking_loss(x[0], x[1], x[2]); }};
    t["triplet_margin_loss"] = {{m, m, m},
                                [](Inputs x) { return triplet_margin_loss(x[0], x[1], x[2]); }};
    t["multi_margin_loss"] = {{m}, [](Inputs x) { return multi_margin_loss(x[0], index()); }};
    t["hinge_embedding_loss"] = {{m, m}, [](Inputs x) { return hinge_embedding_loss(x[0], x[1]); }};
    t["add"] = {{m, m}, [](Inputs x) { return x[0] + x[1]; }};
    t["mul"] = {{m, m}, [](Inputs x) { return x[0] * x[1]; }};
    t["maximum"] = {{m, m}, [](Inputs x) { return maximum(x[0], x[1]); }};
    t["where"] = {{m, m}, [](Inputs x) { return where(less(x[0], x[1]), x[0], x[1]); }};
    t["mean"] = {{m}, [](Inputs x) { return mean(x[0]); }};
    t["var"] = {{m}, [](Inputs x) { return var(x[0]); }};
    t["max"] = {{m}, [](Inputs x) { return max(x[0]); }};
    t["embedding"] = {{m}, [](Inputs x) { return embedding(x[0], index()); }};
    t["gather"] = {{v}, [](Inputs x) { return gather(x[0], 0, index()); }};
    t["index_select"] = {{v}, [](Inputs x) { return index_select(x[0], 0, index()); }};
    t["max_pool2d"] = {{{1, 1, 4, 4}}, [](Inputs x) { return max_pool(x[0]); }};
    t["avg_pool2d"] = {{{1, 1, 4, 4}}, [](Inputs x) { return avg_pool(x[0]); }};
    t["adaptive_avg_pool2d"] = {{{1, 1, 4, 4}}, [](Inputs x) { return global_avg_pool(x[0]); }};
    t["adaptive_max_pool2d"] = {{{1, 1, 4, 4}},
                                [](Inputs x) { return adaptive_max_pool(x[0], {2}); }};
    t["remainder"] = {{m, m}, [](Inputs x) { return remainder(x[0], x[1]); }};
    t["elu"] = {{m}, [](Inputs x) { return elu(x[0]); }};
    t["mish"] = {{m}, [](Inputs x) { return mish(x[0]); }};
    t["hardsigmoid"] = {{m}, [](Inputs x) { return hardsigmoid(x[0]); }};
    t["hardswish"] = {{m}, [](Inputs x) { return hardswish(x[0]); }};
    t["std"] = {{m}, [](Inputs x) { return binade::std(x[0]); }};
    t["flip"] = {{m}, [](Inputs x) { return flip(x[0], {0}); }};
    t["roll"] = {{m}, [](Inputs x) { return roll(x[0], {1}); }};
    t["tril"] = {{m}, [](Inputs x) { return tril(x[0]); }};
    t["pad"] = {{m}, [](Inputs x) { return pad(x[0], {1, 1}); }};
    t["masked_fill"] = {{m}, [](Inputs x) { return masked_fill(x[0], greater(x[0], 0), 1); }};
    t["sort"] = {{m}, [](Inputs x) { return sort(x[0]).values; }};
    t["topk"] = {{m}, [](Inputs x) { return topk(x[0], 1).values; }};
    t["unfold"] = {{{1, 2, 4, 4}}, [](Inputs x) { return unfold(x[0], {.kernel = {2}}); }};
    t["fold"] = {{{1, 4, 9}}, [](Inputs x) { return fold(x[0], 4, 4, {.kernel = {2}}); }};
    t["instance_norm"] = {{{2, 3, 4}}, [](Inputs x) { return instance_norm(x[0]); }};
    t["dropout"] = {{m}, [](Inputs x) { return dropout(x[0], 0.5); }};
    t["batch_norm"] = {
        {{2, 2, 3}}, [](Inputs x) { return batch_norm(x[0], {}, {}, {}, {}, {.training = true}); }};
    return t;
  }();
  return table;
}

// Expects PyTorch's types on a device, whose recorded rows `leaves_out` may exclude. Returns how
// many were compared.
int compare_types(const char* device, const amp::AutocastOptions& options,
                  bool (*leaves_out)(const json::Value& entry, const json::Value& row)) {
  const json::Document document = test::golden_json("autocast_dtypes.json");
  int compared = 0;
  std::string absent;
  for (const json::Value& entry : document.root().at(device).array()) {
    const std::string& name = entry.at("op").string();
    const auto found = calls().find(name);
    if (found == calls().end()) {
      absent += " " + name;
      continue;
    }
    for (const json::Value& row : entry.at("rows").array()) {
      const DType autocast = parse_dtype(row.array()[0].string());
      const std::string& expected = row.array()[2].string();
      std::vector<Tensor> inputs;
      std::string types;
      for (size_t i = 0; i < found->second.shapes.size(); ++i) {
        const auto& given = row.array()[1].array();
        const DType dtype = parse_dtype(given[std::min(i, given.size() - 1)].string());
        types += " " + std::string(binade::name(dtype));
        inputs.push_back(full(found->second.shapes[i], 0.5, dtype));
      }
      SCOPED_TRACE(name + " under " + std::string(binade::name(autocast)) + " with" + types);
      if (leaves_out(entry, row)) continue;
      const amp::Autocast guard(autocast, options);
      ++compared;
      if (expected == "error") {
        EXPECT_THROW(found->second.call(inputs), Error);
        continue;
      }
      try {
        EXPECT_EQ(binade::name(found->second.call(inputs).dtype()), expected);
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
  EXPECT_EQ(absent, "") << "recorded ops that Binade has no call for";
  return compared;
}

// Where PyTorch raises although its rule has an answer (promoting two 16-bit types to f32), the row
// is left out.
TEST(AutocastGolden, OutputTypesAgreeWithPyTorchForEveryRecordedOp) {
  const int compared =
      compare_types("cuda", {}, [](const json::Value& entry, const json::Value& row) {
        return entry.at("class").string() == "promote" && row.array()[2].string() == "error";
      });
  EXPECT_GT(compared, 800);
}

// PyTorch raises for mixed types that Binade promotes. Its LSTM and GRU cells are composites on the
// CPU, whose type follows the state's; here they are one op.
TEST(AutocastGolden, TheCpuPolicyAgreesWithPyTorchOnTheCpu) {
  const int compared = compare_types(
      "cpu", {.policy = amp::Policy::torch_cpu()},
      [](const json::Value& entry, const json::Value& row) {
        const std::string& op = entry.at("op").string();
        const auto& inputs = row.array()[1].array();
        const bool uniform = inputs.size() == 1 && (inputs[0].string() == "f32" ||
                                                    inputs[0].string() == row.array()[0].string());
        const bool is_cell = op == "lstm_cell" || op == "gru_cell";
        return row.array()[2].string() == "error" || (is_cell && !uniform);
      });
  EXPECT_GT(compared, 700);
}

TEST(AutocastGolden, ANamedTypeIsKept) {
  const json::Document document = test::golden_json("autocast_dtypes.json");
  for (const json::Value& entry : document.root().at("cuda").array()) {
    const std::string& name = entry.at("op").string();
    if (name != "softmax" && name != "log_softmax" && name != "sum") continue;
    for (const json::Value& row : entry.at("named").array()) {
      const amp::Autocast guard(parse_dtype(row.array()[0].string()));
      const Tensor x = full({2, 2}, 0.5, parse_dtype(row.array()[1].string()));
      const DType named = parse_dtype(row.array()[2].string());
      const Tensor y = name == "sum"       ? sum(x, {}, false, named)
                       : name == "softmax" ? softmax(x, -1, named)
                                           : log_softmax(x, -1, named);
      EXPECT_EQ(binade::name(y.dtype()), row.array()[3].string()) << name;
    }
  }
}

TEST(Autocast, GuardsNestRestoreAndSwitchOff) {
  const Tensor a = ones({2, 2});
  EXPECT_EQ(matmul(a, a).dtype(), DType::f32);
  {
    const amp::Autocast outer(DType::bf16);
    EXPECT_EQ(matmul(a, a).dtype(), DType::bf16);
    {
      const amp::Autocast inner(DType::f16);
      EXPECT_EQ(matmul(a, a).dtype(), DType::f16);
      const amp::Autocast off(DType::f16, {.enabled = false});
      EXPECT_EQ(matmul(a, a).dtype(), DType::f32);
    }
    EXPECT_EQ(matmul(a, a).dtype(), DType::bf16);
  }
  EXPECT_EQ(matmul(a, a).dtype(), DType::f32);
  EXPECT_THROW(amp::Autocast{DType::f32}, Error);
  const amp::Autocast by_device(Device::cpu());
  EXPECT_EQ(matmul(a, a).dtype(), DType::bf16);
  const Tensor wide = ones({2, 2}, DType::f64);
  EXPECT_EQ(matmul(wide, wide).dtype(), DType::f64);  // f64 is not eligible
}

TEST(Autocast, TheCastCacheFollowsTheDataAndEndsWithTheGuard) {
  Tensor w = ones({2, 2});
  w.set_requires_grad();
  const Tensor x = ones({2, 2});
  {
    const amp::Autocast guard(DType::bf16);
    {
      const NoGrad no_grad;  // a cast cached here must not lose the gradient later
      matmul(x, w);
    }
    EXPECT_EQ(amp::cast_cache_bytes(), 8);
    sum(matmul(x, w)).backward();
    EXPECT_EQ(amp::cast_cache_bytes(), 8);
    EXPECT_EQ(to_vector(w.grad()), (std::vector<double>{2, 2, 2, 2}));
    {
      const NoGrad no_grad;
      fill_(w, 3);
    }
    EXPECT_EQ(to_vector(matmul(x, w)), (std::vector<double>{6, 6, 6, 6}));
  }
  EXPECT_EQ(amp::cast_cache_bytes(), 0);
}

TEST(Autocast, AnF32WeightGetsItsGradientInF32Unrounded) {
  Tensor w = zeros({1, 1});
  w.set_requires_grad();
  const Tensor x = tensor({1, 1 + 0x1p-7}, {2, 1});  // their sum needs more bits than bf16 has
  const amp::Autocast guard(DType::bf16);
  sum(matmul(x, w)).backward();
  EXPECT_EQ(w.grad().dtype(), DType::f32);
  EXPECT_EQ(w.grad().item(), 2 + 0x1p-7);
}

TEST(Autocast, PoliciesOverrideByOpAndByModulePath) {
  auto policy = std::make_shared<amp::Policy>();
  policy->set(Op::exp, CastClass::lower)
      .set(Op::matmul, CastClass::f32, "head")
      .set_module("head.inner", CastClass::lower);
  const amp::Autocast guard(DType::bf16, {.policy = policy});
  const Tensor a = ones({2, 2});
  EXPECT_EQ(exp(a).dtype(), DType::bf16);
  EXPECT_EQ(matmul(a, a).dtype(), DType::bf16);
  const autograd::ModuleScope head("head");
  EXPECT_EQ(matmul(a, a).dtype(), DType::f32);
  const autograd::ModuleScope inner("inner");
  EXPECT_EQ(matmul(a, a).dtype(), DType::bf16);
}

// At one path an op's own class wins over the module's; a deeper module wins over both.
TEST(Autocast, AnOpsOverrideWinsOverItsModules) {
  for (const bool op_first : {true, false}) {
    amp::Policy policy;
    if (op_first) policy.set(Op::matmul, CastClass::f32, "head");
    policy.set_module("head", CastClass::lower).set_module("head.inner", CastClass::promote);
    if (!op_first) policy.set(Op::matmul, CastClass::f32, "head");
    EXPECT_EQ(policy.class_of(Op::matmul, "head"), CastClass::f32);
    EXPECT_EQ(policy.class_of(Op::matmul, "head.other"), CastClass::f32);
    EXPECT_EQ(policy.class_of(Op::exp, "head"), CastClass::lower);
    EXPECT_EQ(policy.class_of(Op::matmul, "head.inner.last"), CastClass::promote);
    EXPECT_EQ(policy.class_of(Op::exp, ""), info(Op::exp).cast);
  }
}

TEST(Autocast, AnInnerGuardInheritsThePolicyUnlessItNamesOne) {
  auto policy = std::make_shared<amp::Policy>();
  policy->set(Op::exp, CastClass::lower);
  const amp::Autocast outer(DType::bf16, {.policy = policy});
  const amp::Autocast inner(DType::f16);
  EXPECT_EQ(exp(ones({2})).dtype(), DType::f16);
  const amp::Autocast own(DType::f16, {.policy = std::make_shared<amp::Policy>()});
  EXPECT_EQ(exp(ones({2})).dtype(), DType::f32);
}

TEST(Autocast, CustomOpsTakePartAndSeeTheirForwardsState) {
  DType seen_forward{}, seen_backward{};
  CustomOp twice{.name = "twice", .cast = CastClass::lower, .forward = {}, .backward = {}};
  twice.forward = [&](Inputs x) {
    seen_forward = x[0].dtype();
    EXPECT_FALSE(amp::autocast_state().enabled);
    return mul(x[0], 2);
  };
  twice.backward = [&](const Tensor& dy, Inputs x, const Tensor&, autograd::GradSlots dx) {
    seen_backward = x[0].dtype();
    dx[0].add(mul(dy, 2));
  };
  Tensor x = ones({3});
  x.set_requires_grad();
  Tensor y;
  {
    const amp::Autocast guard(DType::f16);
    y = sum(custom(twice, {x}));
  }
  y.backward();
  EXPECT_EQ(seen_forward, DType::f16);
  EXPECT_EQ(seen_backward, DType::f16);
  EXPECT_EQ(to_vector(x.grad()), (std::vector<double>{2, 2, 2}));
}

TEST(Autocast, ExplainListsEveryOpItsTypesAndWhatItsCastsCost) {
  Tensor w = ones({4, 4});
  w.set_requires_grad();
  const auto trace = amp::explain([&] {
    const amp::Autocast guard(DType::bf16);
    softmax(linear(ones({2, 4}), w));
  });
  ASSERT_EQ(trace.size(), 2u);
  EXPECT_EQ(trace[0].op, Op::linear);
  EXPECT_EQ(trace[0].compute[0], DType::bf16);
  EXPECT_EQ(trace[0].casts.size(), 2u);
  EXPECT_EQ(trace[0].casts[1].bytes, 16 * (4 + 2));
  EXPECT_EQ(trace[1].op, Op::softmax);
  EXPECT_EQ(trace[1].outputs[0], DType::f32);
  EXPECT_NE(amp::trace_text(trace).find("3 casts"), std::string::npos);
}

// The sum of a bf16 result and an f32 residual has an f32 gradient, which the linear gets in bf16.
TEST(Autocast, ExplainCountsCastsOfBackwards) {
  Tensor w = ones({4, 4}), residual = ones({2, 4});
  w.set_requires_grad();
  residual.set_requires_grad();
  const auto trace = amp::explain([&] {
    Tensor loss;
    {
      const amp::Autocast guard(DType::bf16);
      loss = sum(residual + linear(ones({2, 4}), w));
    }
    loss.backward();
  });
  size_t backward = 0;
  for (const amp::TracedOp& op : trace) {
    if (!op.backward) continue;
    backward += op.casts.size();
    if (op.op != Op::add) continue;
    ASSERT_EQ(op.casts.size(), 1u);
    EXPECT_EQ(op.casts[0].from, DType::f32);
    EXPECT_EQ(op.casts[0].to, DType::bf16);
    EXPECT_EQ(op.casts[0].bytes, 8 * (4 + 2));
  }
  EXPECT_EQ(backward, 1u);
  EXPECT_NE(amp::trace_text(trace).find("3 casts (2 forward, 1 backward)"), std::string::npos)
      << amp::trace_text(trace);
}

TEST(Autocast, ExplainListsBackwardsToo) {
  Tensor w = ones({4, 4});
  w.set_requires_grad();
  const auto trace = amp::explain([&] {
    Tensor loss;
    {
      const amp::Autocast guard(DType::bf16);
      loss = sum(linear(ones({2, 4}), w));
    }
    loss.backward();
  });
  ASSERT_EQ(trace.size(), 4u);
  EXPECT_FALSE(trace[1].backward);
  EXPECT_EQ(trace[2].op, Op::sum);
  EXPECT_TRUE(trace[2].backward);
  EXPECT_EQ(trace[3].op, Op::linear);
  EXPECT_TRUE(trace[3].backward);
  EXPECT_EQ(trace[3].inputs, std::vector<DType>{DType::bf16});
  EXPECT_EQ(trace[3].outputs, std::vector<DType>{DType::f32});
  EXPECT_NE(amp::trace_text(trace).find("linear (backward)"), std::string::npos);
}

TEST(Autocast, OnlyBinaryCrossEntropyIsSentToItsLogits) {
  const auto policy = std::make_shared<amp::Policy>();
  policy->set(Op::exp, CastClass::refuse);
  const amp::Autocast guard(DType::bf16, {.policy = policy});
  const Tensor p = full({2}, 0.5);
  EXPECT_NE(test::error_of([&] { binary_cross_entropy(p, p); }).find("bce_with_logits"),
            std::string::npos);
  const std::string refused = test::error_of([&] { exp(p); });
  EXPECT_EQ(refused.find("bce_with_logits"), std::string::npos) << refused;
  EXPECT_NE(refused.find("the policy refuses this op"), std::string::npos) << refused;
}

}  // namespace
}  // namespace binade
