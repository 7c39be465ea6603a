#include "binade/c/op_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "binade/c.h"
#include "binade/c/handles.h"
#include "binade/ops/attention/attention.h"
#include "binade/ops/attention/rope.h"
#include "binade/ops/composed.h"
#include "binade/ops/conv/conv.h"
#include "binade/ops/conv/pool.h"
#include "binade/ops/conv/sample.h"
#include "binade/ops/conv/unfold.h"
#include "binade/ops/create/categorical.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/index/count.h"
#include "binade/ops/index/index.h"
#include "binade/ops/index/mask.h"
#include "binade/ops/index/sort.h"
#include "binade/ops/loss/ctc_loss.h"
#include "binade/ops/loss/distance.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/loss/margin_loss.h"
#include "binade/ops/matmul/einsum.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/matmul/recurrent.h"
#include "binade/ops/norm/norm.h"
#include "binade/ops/norm/softmax.h"
#include "binade/ops/reduce/quantile.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/pad.h"
#include "binade/ops/shape/rearrange.h"
#include "binade/ops/shape/shape.h"
#include "support/values.h"

// Every op of the C interface gives what the C++ function gives, with each input and option in its
// place: with their defaults and with values that differ from them and from one another.
namespace binade::c {
namespace {

// An option of any kind; the texts and lists of a call outlive it.
struct Given : bnd_option {
  Given(const char* name, int64_t value) : bnd_option{.name = name, .kind = BND_INT} {
    integer = value;
  }
  Given(const char* name, int value) : Given(name, int64_t{value}) {}
  Given(const char* name, double value) : bnd_option{.name = name, .kind = BND_FLOAT} {
    number = value;
  }
  Given(const char* name, const char* value) : bnd_option{.name = name, .kind = BND_TEXT} {
    text = value;
  }
  Given(const char* name, std::vector<int64_t> values)
      : bnd_option{.name = name, .kind = BND_INTS}, kept(std::move(values)) {}

  std::vector<int64_t> kept;
};

struct OpCall {
  std::string op;
  std::vector<Tensor> inputs;
  std::vector<Given> options;
  Tensor expected;
};

Tensor through_c(const OpCall& call) {
  std::vector<bnd_tensor> wrapped;
  for (const Tensor& input : call.inputs) wrapped.push_back({input});
  std::vector<const bnd_tensor*> inputs;
  for (size_t i = 0; i < wrapped.size(); ++i)
    inputs.push_back(call.inputs[i].defined() ? &wrapped[i] : nullptr);
  std::vector<bnd_option> options;
  for (const Given& one : call.options) {
    options.push_back(one);
    if (one.kind == BND_INTS) {
      options.back().list = one.kept.data();
      options.back().count = one.kept.size();
    }
  }
  bnd_tensor* result = nullptr;
  EXPECT_EQ(bnd_op(call.op.c_str(), inputs.data(), inputs.size(), options.data(), options.size(),
                   &result),
            BND_OK)
      << bnd_last_error();
  const std::unique_ptr<bnd_tensor, void (*)(bnd_tensor*)> owned(result, bnd_tensor_free);
  return result == nullptr ? Tensor() : result->value;
}

// Normal numbers, other ones for each key.
Tensor some(const Shape& shape, uint64_t key) { return randn(shape, {7, key}); }
// Between 0.1 and 0.9.
Tensor fractions(const Shape& shape, uint64_t key) { return sigmoid(some(shape, key)) * 0.8 + 0.1; }
Tensor indices(std::vector<double> values, const Shape& shape) {
  return tensor(std::move(values), shape, DType::i64);
}
Tensor signs() { return tensor({1, -1, -1, 1, 1, -1}, {2, 3}); }

using List = std::vector<int64_t>;

std::vector<OpCall> elementwise_calls() {
  const Tensor x = some({2, 3}, 1), y = some({2, 3}, 2), z = some({2, 3}, 3),
               p = fractions({2, 3}, 4), q = fractions({2, 3}, 5) * 3.0,
               m = greater(some({2, 3}, 6), zeros({2, 3})), n = less(x, y),
               i = indices({12, -5, 7}, {3}), j = indices({10, 3, -6}, {3}),
               k = indices({1, 3, 2}, {3});
  return {{"add", {x, y}, {}, add(x, y)},
          {"sub", {x, y}, {}, sub(x, y)},
          {"mul", {x, y}, {}, mul(x, y)},
          {"div", {x, y}, {}, div(x, y)},
          {"pow", {p, y}, {}, pow(p, y)},
          {"atan2", {x, y}, {}, atan2(x, y)},
          {"maximum", {x, y}, {}, maximum(x, y)},
          {"minimum", {x, y}, {}, minimum(x, y)},
          {"remainder", {x, q}, {}, remainder(x, q)},
          {"add_scalar", {x}, {{"value", 2.5}}, add(x, 2.5)},
          {"mul_scalar", {x}, {{"value", 2.5}}, mul(x, 2.5)},
          {"pow_scalar", {p}, {{"exponent", 2.5}}, pow(p, 2.5)},
          {"where", {m, x, y}, {}, where(m, x, y)},
          {"addcmul", {x, y, z}, {}, addcmul(x, y, z)},
          {"addcmul", {x, y, z}, {{"value", 2.5}}, addcmul(x, y, z, 2.5)},
          {"addcdiv", {x, y, q}, {}, addcdiv(x, y, q)},
          {"addcdiv", {x, y, q}, {{"value", 2.5}}, addcdiv(x, y, q, 2.5)},
          {"floor_divide", {i, j}, {}, floor_divide(i, j)},
          {"bitwise_left_shift", {i, k}, {}, bitwise_left_shift(i, k)},
          {"bitwise_right_shift", {i, k}, {}, bitwise_right_shift(i, k)},
          {"ne", {m, n}, {}, not_equal(m, n)},
          {"lt", {x, y}, {}, less(x, y)},
          {"le", {m, n}, {}, less_equal(m, n)},
          {"gt", {x, y}, {}, greater(x, y)},
          {"ge", {m, n}, {}, greater_equal(m, n)},
          {"clamp_min", {x}, {{"low", 0.25}}, clamp(x, 0.25, INFINITY)},
          {"clamp_max", {x}, {{"high", 0.25}}, clamp(x, -INFINITY, 0.25)},
          {"eq", {m, n}, {}, eq(m, n)},
          {"not_equal", {m, n}, {}, not_equal(m, n)},
          {"less", {x, y}, {}, less(x, y)},
          {"less_equal", {m, n}, {}, less_equal(m, n)},
          {"greater", {x, y}, {}, greater(x, y)},
          {"greater_equal", {m, n}, {}, greater_equal(m, n)},
          {"logical_and", {m, n}, {}, logical_and(m, n)},
          {"logical_or", {m, n}, {}, logical_or(m, n)},
          {"logical_not", {m}, {}, logical_not(m)},
          {"bitwise_and", {i, j}, {}, bitwise_and(i, j)},
          {"bitwise_or", {i, j}, {}, bitwise_or(i, j)},
          {"bitwise_xor", {i, j}, {}, bitwise_xor(i, j)},
          {"bitwise_not", {i}, {}, bitwise_not(i)},
          {"gelu", {x}, {}, gelu(x, Gelu::erf)},
          {"gelu", {x}, {{"form", "tanh"}}, gelu(x, Gelu::tanh)},
          {"leaky_relu", {x}, {}, leaky_relu(x, 0.01)},
          {"leaky_relu", {x}, {{"slope", 0.5}}, leaky_relu(x, 0.5)},
          {"elu", {x}, {}, elu(x, 1)},
          {"elu", {x}, {{"alpha", 0.5}}, elu(x, 0.5)},
          {"prelu", {x, some({3}, 7)}, {}, prelu(x, some({3}, 7))},
          {"clamp", {x}, {{"low", -0.25}, {"high", 0.5}}, clamp(x, -0.25, 0.5)},
          {"cast", {x}, {{"dtype", "bf16"}}, cast(x, DType::bf16)},
          {"swiglu", {some({2, 4}, 8)}, {}, swiglu(some({2, 4}, 8))}};
}

std::vector<OpCall> unary_calls() {
  using Function = Tensor (*)(const Tensor&);
  const std::pair<const char*, Function> functions[] = {{"neg", neg},
                                                        {"abs", abs},
                                                        {"sign", sign},
                                                        {"square", square},
                                                        {"sqrt", sqrt},
                                                        {"rsqrt", rsqrt},
                                                        {"reciprocal", reciprocal},
                                                        {"exp", exp},
                                                        {"expm1", expm1},
                                                        {"log", log},
                                                        {"log2", log2},
                                                        {"log10", log10},
                                                        {"log1p", log1p},
                                                        {"sin", sin},
                                                        {"cos", cos},
                                                        {"tan", tan},
                                                        {"asin", asin},
                                                        {"acos", acos},
                                                        {"atan", atan},
                                                        {"sinh", sinh},
                                                        {"cosh", cosh},
                                                        {"tanh", tanh},
                                                        {"erf", erf},
                                                        {"erfinv", erfinv},
                                                        {"sigmoid", sigmoid},
                                                        {"relu", relu},
                                                        {"silu", silu},
                                                        {"softplus", softplus},
                                                        {"mish", mish},
                                                        {"hardsigmoid", hardsigmoid},
                                                        {"hardswish", hardswish},
                                                        {"floor", floor},
                                                        {"ceil", ceil},
                                                        {"round", round},
                                                        {"trunc", trunc},
                                                        {"is_finite", is_finite},
                                                        {"is_nan", is_nan},
                                                        {"is_inf", is_inf},
                                                        {"isfinite", is_finite},
                                                        {"isnan", is_nan},
                                                        {"isinf", is_inf},
                                                        {"contiguous", contiguous},
                                                        {"clone", clone},
                                                        {"nonzero", nonzero}};
  const Tensor numbers = tensor({-1.75, -0.625, 0.25, 0.5, 0.75, 1.5, INFINITY, NAN}, {4, 2});
  std::vector<OpCall> calls;
  for (const auto& [name, function] : functions)
    calls.push_back({name, {numbers}, {}, function(numbers)});
  return calls;
}

std::vector<OpCall> matmul_and_reduce_calls() {
  const Tensor a = some({2, 3}, 11), b = some({3, 4}, 12), c = some({2, 4}, 13),
               batch = some({2, 3, 4}, 14), other = some({2, 4, 5}, 15), sums = some({2, 3, 5}, 16),
               x = some({2, 3, 4}, 17), u = some({3}, 18), v = some({3}, 19),
               y = some({2, 3, 4}, 20);
  std::vector<OpCall> calls = {
      {"matmul", {batch, other}, {}, matmul(batch, other)},
      {"mm", {a, b}, {}, mm(a, b)},
      {"bmm", {batch, other}, {}, bmm(batch, other)},
      {"mv", {a, u}, {}, mv(a, u)},
      {"dot", {u, v}, {}, dot(u, v)},
      {"addmm", {c, a, b}, {}, addmm(c, a, b)},
      {"addmm", {c, a, b}, {{"beta", 0.5}, {"alpha", 3.0}}, addmm(c, a, b, 0.5, 3)},
      {"baddbmm", {sums, batch, other}, {}, baddbmm(sums, batch, other)},
      {"baddbmm",
       {sums, batch, other},
       {{"beta", 0.5}, {"alpha", 3.0}},
       baddbmm(sums, batch, other, 0.5, 3)},
      {"tensordot",
       {batch, other},
       {{"axes_a", List{0, 2}}, {"axes_b", List{0, 1}}},
       tensordot(batch, other, List{0, 2}, List{0, 1})},
      {"einsum", {a, b}, {{"equation", "ij,jk->ki"}}, einsum("ij,jk->ki", {a, b})},
      {"sum", {x}, {{"dtype", "f64"}}, sum(x, {}, false, DType::f64)},
      {"var", {x}, {{"axes", List{0, 2}}}, var(x, List{0, 2}, false, 1)},
      {"var", {x}, {{"axes", List{1}}, {"keep", 1}, {"correction", 0.0}}, var(x, List{1}, true, 0)},
      {"std", {x}, {}, binade::std(x, {}, false, 1)},
      {"std",
       {x},
       {{"axes", List{1}}, {"keep", 1}, {"correction", 0.0}},
       binade::std(x, List{1}, true, 0)},
      {"argmax", {x}, {}, argmax(x, -1)},
      {"argmax", {x}, {{"axis", 1}, {"keep", 1}}, argmax(x, 1, true)},
      {"argmin", {x}, {}, argmin(x, -1)},
      {"argmin", {x}, {{"axis", 1}, {"keep", 1}}, argmin(x, 1, true)},
      {"norm", {x}, {}, norm(x)},
      {"norm", {x}, {{"p", 3.0}, {"axes", List{1}}, {"keep", 1}}, norm(x, 3, List{1}, true)},
      {"cumsum", {x}, {{"axis", 1}}, cumsum(x, 1)},
      {"cumprod", {x}, {{"axis", 1}}, cumprod(x, 1)},
      {"cosine_similarity", {x, y}, {}, cosine_similarity(x, y, -1, 1e-8)},
      {"cosine_similarity", {x, y}, {{"axis", 1}, {"eps", 8.0}}, cosine_similarity(x, y, 1, 8.0)},
      {"cdist", {a, some({4, 3}, 21)}, {}, cdist(a, some({4, 3}, 21))},
      {"cross",
       {some({4, 3}, 22), some({4, 3}, 23)},
       {},
       cross(some({4, 3}, 22), some({4, 3}, 23))},
      {"cross", {x, y}, {{"axis", 1}}, cross(x, y, 1)},
      {"softmax", {x}, {}, softmax(x, -1)},
      {"softmax", {x}, {{"axis", 1}}, softmax(x, 1)},
      {"log_softmax", {x}, {}, log_softmax(x, -1)},
      {"log_softmax", {x}, {{"axis", 1}}, log_softmax(x, 1)},
      {"logsumexp", {x}, {}, logsumexp(x, -1)},
      {"logsumexp", {x}, {{"axis", 1}, {"keep", 1}}, logsumexp(x, 1, true)}};
  using Reduced = Tensor (*)(const Tensor&, const Axes&, bool);
  const Reduced sum_of = [](const Tensor& t, const Axes& axes, bool keep) {
    return sum(t, axes, keep);
  };
  const Reduced mean_of = [](const Tensor& t, const Axes& axes, bool keep) {
    return mean(t, axes, keep);
  };
  const std::pair<const char*, Reduced> reductions[] = {
      {"sum", sum_of}, {"mean", mean_of}, {"prod", prod}, {"any", any}, {"all", all},
      {"max", max},    {"min", min},      {"amax", max},  {"amin", min}};
  const Tensor some_zeros = relu(x);
  for (const auto& [name, reduced] : reductions) {
    calls.push_back({name, {some_zeros}, {}, reduced(some_zeros, {}, false)});
    calls.push_back({name,
                     {some_zeros},
                     {{"axes", List{0, 2}}, {"keep", 1}},
                     reduced(some_zeros, List{0, 2}, true)});
  }
  return calls;
}

std::vector<OpCall> shape_calls() {
  const Tensor x = some({2, 3, 4}, 31), y = some({2, 3, 4}, 32), flat = some({5}, 33),
               mask = greater(x, y), one = some({2, 1, 3}, 34);
  const Tensor at = indices({2, 0, 1, 1}, {2, 2}), rows = indices({1, 0, 1}, {3}),
               source = some({2, 2}, 35), into = some({2, 3}, 36);
  return {
      {"reshape", {x}, {{"shape", List{4, 6}}}, reshape(x, {4, 6})},
      {"view", {x}, {{"shape", List{4, 6}}}, reshape(x, {4, 6})},
      {"reshape_as", {x, some({4, 6}, 38)}, {}, reshape(x, {4, 6})},
      {"view_as", {x, some({4, 6}, 38)}, {}, reshape(x, {4, 6})},
      {"expand_as", {one, some({2, 5, 3}, 38)}, {}, expand(one, {2, 5, 3})},
      {"flatten", {x}, {}, reshape(x, {24})},
      {"flatten", {x}, {{"first", 1}, {"last", 2}}, reshape(x, {2, 12})},
      {"t", {into}, {}, transpose(into, 0, 1)},
      {"narrow", {x}, {{"axis", 2}, {"begin", 1}, {"count", 2}}, slice(x, 2, 1, 3)},
      {"channels_last", {some({2, 3, 2, 2}, 38)}, {}, some({2, 3, 2, 2}, 38)},
      {"expand", {one}, {{"shape", List{2, 5, 3}}}, expand(one, {2, 5, 3})},
      {"permute", {x}, {{"axes", List{1, 2, 0}}}, permute(x, List{1, 2, 0})},
      {"transpose", {x}, {{"a", 0}, {"b", 2}}, transpose(x, 0, 2)},
      {"slice", {x}, {{"axis", 2}, {"begin", 1}, {"end", 3}}, slice(x, 2, 1, 3)},
      {"slice", {x}, {{"axis", 2}, {"begin", 0}, {"end", 4}, {"step", 2}}, slice(x, 2, 0, 4, 2)},
      {"select", {x}, {{"axis", 1}, {"index", 2}}, select(x, 1, 2)},
      {"squeeze", {one}, {{"axis", 1}}, squeeze(one, 1)},
      {"unsqueeze", {x}, {{"axis", 1}}, unsqueeze(x, 1)},
      {"cat", {x, y, x}, {{"axis", 1}}, cat({x, y, x}, 1)},
      {"stack", {x, y}, {{"axis", 1}}, stack({x, y}, 1)},
      {"flip", {x}, {{"axes", List{0, 2}}}, flip(x, List{0, 2})},
      {"roll", {x}, {{"shifts", List{5}}}, roll(x, List{5}, List{})},
      {"roll",
       {x},
       {{"shifts", List{1, 2}}, {"axes", List{1, 2}}},
       roll(x, List{1, 2}, List{1, 2})},
      {"repeat", {flat}, {{"times", List{3, 2}}}, repeat(flat, List{3, 2})},
      {"tril", {x}, {}, tril(x, 0)},
      {"tril", {x}, {{"diagonal", 1}}, tril(x, 1)},
      {"triu", {x}, {}, triu(x, 0)},
      {"triu", {x}, {{"diagonal", 1}}, triu(x, 1)},
      {"pad", {x}, {{"padding", List{1, 2}}}, pad(x, List{1, 2}, {PadMode::constant, 0})},
      {"pad",
       {x},
       {{"padding", List{1, 2}}, {"mode", "constant"}, {"value", 2.5}},
       pad(x, List{1, 2}, {PadMode::constant, 2.5})},
      {"pad",
       {x},
       {{"padding", List{1, 2}}, {"mode", "reflect"}},
       pad(x, List{1, 2}, {PadMode::reflect, 0})},
      {"pad",
       {x},
       {{"padding", List{1, 2}}, {"mode", "replicate"}},
       pad(x, List{1, 2}, {PadMode::replicate, 0})},
      {"masked_fill", {x, mask}, {{"value", 2.5}}, masked_fill(x, mask, 2.5)},
      {"masked_select", {x, mask}, {}, masked_select(x, mask)},
      {"sort", {x}, {}, sort(x, -1, Order::ascending).values},
      {"sort", {x}, {{"axis", 1}, {"descending", 1}}, sort(x, 1, Order::descending).values},
      {"argsort", {x}, {}, argsort(x, -1, Order::ascending)},
      {"argsort", {x}, {{"axis", 1}, {"descending", 1}}, argsort(x, 1, Order::descending)},
      {"topk", {x}, {{"k", 2}}, topk(x, 2, -1, Order::descending).values},
      {"topk",
       {x},
       {{"k", 2}, {"axis", 1}, {"largest", 0}},
       topk(x, 2, 1, Order::ascending).values},
      {"topk_index", {x}, {{"k", 2}}, topk(x, 2, -1, Order::descending).index},
      {"topk_index",
       {x},
       {{"k", 2}, {"axis", 1}, {"largest", 0}},
       topk(x, 2, 1, Order::ascending).index},
      {"one_hot", {at}, {{"classes", 4}}, one_hot(at, 4)},
      {"one_hot", {at}, {}, one_hot(at, 3)},
      {"gather", {into, at}, {{"axis", 1}}, gather(into, 1, at)},
      {"index_select", {into, rows}, {{"axis", 0}}, index_select(into, 0, rows)},
      {"scatter_add", {into, at, source}, {{"axis", 1}}, scatter_add(into, 1, at, source)},
      {"index_put",
       {into, rows, some({3, 3}, 37)},
       {{"accumulate", 1}},
       index_put(into, rows, some({3, 3}, 37), true)},
      {"index_put",
       {into, indices({1, 0}, {2}), some({2, 3}, 37)},
       {},
       index_put(into, indices({1, 0}, {2}), some({2, 3}, 37), false)},
      {"embedding", {into, rows}, {}, embedding(into, rows)}};
}

std::vector<OpCall> layer_calls() {
  const Tensor none;
  const Tensor x = some({2, 3}, 41), w = some({4, 3}, 42), b = some({4}, 43),
               q = some({1, 2, 3, 4}, 44), k = some({1, 2, 3, 4}, 45), v = some({1, 2, 3, 4}, 46),
               mask = tensor({1, 0, 1, 1, 1, 0, 0, 1, 1}, {3, 3}, DType::boolean),
               image = some({2, 4, 5, 6}, 47), line = some({2, 4, 7}, 48),
               solid = some({1, 4, 3, 4, 5}, 49), columns = some({1, 2 * 2 * 3, 6}, 50),
               weight = some({4}, 51), bias = some({4}, 52), state = some({2, 4}, 53),
               w_hh = some({4, 4}, 54), b_hh = some({4}, 55), gates = some({12, 3}, 56),
               gates_hh = some({12, 4}, 57), gate_b = some({12}, 58), gate_b_hh = some({12}, 59);
  const ConvOptions conv{.stride = {2}, .padding = {1}, .dilation = {3}, .groups = 2};
  const ConvTransposeOptions transposed{
      .stride = {3}, .padding = {1}, .output_padding = {2}, .dilation = {4}, .groups = 2};
  const std::vector<Given> conv_given = {
      {"stride", 2}, {"padding", 1}, {"dilation", 3}, {"groups", 2}};
  const std::vector<Given> transposed_given = {
      {"stride", 3}, {"padding", 1}, {"output_padding", 2}, {"dilation", 4}, {"groups", 2}};
  const PoolOptions pool{.kernel = {3}, .stride = {2}, .padding = {1}, .ceil_mode = true};
  const std::vector<Given> pool_given = {
      {"kernel", 3}, {"stride", 2}, {"padding", 1}, {"ceil_mode", 1}};
  const WindowOptions windows{.kernel = {2, 2}, .stride = {1}, .padding = {0}, .dilation = {1}};
  const WindowOptions wide{.kernel = {2, 2}, .stride = {2}, .padding = {1}, .dilation = {3}};
  const Tensor w1 = some({4, 2, 2}, 61), w2 = some({4, 2, 2, 2}, 62),
               w3 = some({4, 2, 2, 2, 2}, 63), half = some({4, 4, 2, 2}, 64),
               half_line = some({4, 4, 2}, 65), half_solid = some({4, 4, 2, 2, 2}, 66),
               grid = tanh(some({2, 3, 2, 2}, 67));
  const Tensor cosine = some({8, 2}, 68), sine = some({8, 2}, 69), qkv = some({1, 6, 16}, 70),
               sequence = some({5, 2, 4}, 71), keys = some({6, 2, 4}, 72),
               values = some({6, 2, 4}, 73);
  const Tensor running_mean = some({4}, 74), running_var = fractions({4}, 75);
  return {
      {"bilinear",
       {x, state, some({5, 3, 4}, 76), some({5}, 77)},
       {},
       bilinear(x, state, some({5, 3, 4}, 76), some({5}, 77))},
      {"linear", {x, w, b}, {}, linear(x, w, b)},
      {"linear", {x, w, b}, {{"activation", "silu"}}, silu(linear(x, w, b))},
      {"attention", {q, k, v}, {}, scaled_dot_product_attention(q, k, v)},
      {"attention",
       {q, k, v, mask},
       {{"causal", 0}},
       scaled_dot_product_attention(q, k, v, {.mask = mask})},
      {"attention",
       {q, k, v},
       {{"causal", 1}},
       scaled_dot_product_attention(q, k, v, {.causal = true})},
      {"packed_attention",
       {qkv},
       {{"heads", 2}, {"kv_heads", 1}},
       packed_attention(qkv, 2, 1, {.causal = true})},
      {"packed_attention",
       {qkv},
       {{"heads", 2}, {"kv_heads", 1}, {"causal", 0}, {"documents", List{0, 2, 6}}},
       packed_attention(qkv, 2, 1, {.causal = false, .documents = {0, 2, 6}})},
      {"varlen_attention",
       {sequence, sequence, sequence},
       {{"queries", List{0, 2, 5}}},
       varlen_attention(sequence, sequence, sequence, {List{0, 2, 5}, {}}, {})},
      {"varlen_attention",
       {sequence, keys, values},
       {{"queries", List{0, 2, 5}}, {"keys", List{0, 3, 6}}, {"causal", 1}},
       varlen_attention(sequence, keys, values, {List{0, 2, 5}, List{0, 3, 6}}, {.causal = true})},
      {"rope", {q, cosine, sine}, {}, rope(q, cosine, sine, 0, -1)},
      {"rope", {q, cosine, sine}, {{"start", 3}, {"rotated", 1}}, rope(q, cosine, sine, 3, 1)},
      {"rnn_tanh_cell",
       {x, state, w, w_hh, b, b_hh},
       {},
       rnn_tanh_cell(x, state, {w, w_hh, b, b_hh})},
      {"rnn_relu_cell",
       {x, state, w, w_hh, b, b_hh},
       {},
       rnn_relu_cell(x, state, {w, w_hh, b, b_hh})},
      {"gru_cell",
       {x, state, gates, gates_hh, gate_b, gate_b_hh},
       {},
       gru_cell(x, state, {gates, gates_hh, gate_b, gate_b_hh})},
      {"conv1d", {line, half_line, b}, {}, conv1d(line, half_line, b)},
      {"conv1d", {line, w1, b}, conv_given, conv1d(line, w1, b, conv)},
      {"conv2d", {image, half, b}, {}, conv2d(image, half, b)},
      {"conv2d", {image, w2, b}, conv_given, conv2d(image, w2, b, conv)},
      {"conv3d", {solid, half_solid, b}, {}, conv3d(solid, half_solid, b)},
      {"conv3d", {solid, w3, b}, conv_given, conv3d(solid, w3, b, conv)},
      {"conv_transpose1d", {line, half_line, b}, {}, conv_transpose1d(line, half_line, b)},
      {"conv_transpose1d",
       {line, w1, b},
       transposed_given,
       conv_transpose1d(line, w1, b, transposed)},
      {"conv_transpose2d", {image, half, b}, {}, conv_transpose2d(image, half, b)},
      {"conv_transpose2d",
       {image, w2, b},
       transposed_given,
       conv_transpose2d(image, w2, b, transposed)},
      {"conv_transpose3d", {solid, half_solid, b}, {}, conv_transpose3d(solid, half_solid, b)},
      {"conv_transpose3d",
       {solid, w3, b},
       transposed_given,
       conv_transpose3d(solid, w3, b, transposed)},
      {"upsample_nearest2d",
       {image},
       {{"height", 7}, {"width", 9}},
       upsample_nearest2d(image, 7, 9)},
      {"upsample_bilinear2d",
       {image},
       {{"height", 7}, {"width", 9}},
       upsample_bilinear2d(image, 7, 9)},
      {"grid_sampler", {image, grid}, {}, grid_sampler(image, grid)},
      {"max_pool", {image}, {}, max_pool(image, {.kernel = {2}})},
      {"max_pool", {image}, pool_given, max_pool(image, pool)},
      {"avg_pool", {image}, {}, avg_pool(image, {.kernel = {2}})},
      {"avg_pool", {image}, pool_given, avg_pool(image, pool)},
      {"global_avg_pool", {image}, {}, global_avg_pool(image)},
      {"adaptive_avg_pool", {image}, {{"sizes", List{2, 3}}}, adaptive_avg_pool(image, List{2, 3})},
      {"adaptive_max_pool", {image}, {{"sizes", List{2, 3}}}, adaptive_max_pool(image, List{2, 3})},
      {"unfold", {image}, {{"kernel", List{2, 2}}}, unfold(image, windows)},
      {"unfold",
       {image},
       {{"kernel", List{2, 2}}, {"stride", 2}, {"padding", 1}, {"dilation", 3}},
       unfold(image, wide)},
      {"fold",
       {columns},
       {{"height", 3}, {"width", 4}, {"kernel", List{2, 2}}},
       fold(columns, 3, 4, windows)},
      {"layer_norm", {state, weight, bias}, {}, layer_norm(state, weight, bias, 1e-5)},
      {"layer_norm", {state, weight, bias}, {{"eps", 0.5}}, layer_norm(state, weight, bias, 0.5)},
      {"rms_norm", {state, weight}, {}, rms_norm(state, weight, 1e-5)},
      {"rms_norm", {state, weight}, {{"eps", 0.5}}, rms_norm(state, weight, 0.5)},
      {"batch_norm",
       {image, weight, bias, running_mean, running_var},
       {{"training", 0}},
       batch_norm(image, weight, bias, running_mean, running_var,
                  {.training = false, .momentum = 0.1, .eps = 1e-5})},
      {"batch_norm",
       {image, weight, bias},
       {{"training", 1}, {"eps", 0.5}},
       batch_norm(image, weight, bias, none, none, {.training = true, .eps = 0.5})},
      {"group_norm",
       {image, weight, bias},
       {{"groups", 2}},
       group_norm(image, 2, weight, bias, 1e-5)},
      {"group_norm",
       {image, weight, bias},
       {{"groups", 2}, {"eps", 0.5}},
       group_norm(image, 2, weight, bias, 0.5)},
      {"instance_norm", {image, weight, bias}, {}, instance_norm(image, weight, bias, 1e-5)},
      {"instance_norm",
       {image, weight, bias},
       {{"eps", 0.5}},
       instance_norm(image, weight, bias, 0.5)}};
}

std::vector<OpCall> loss_calls() {
  const Tensor x = some({2, 3}, 81), y = some({2, 3}, 82), z = some({2, 3}, 83),
               p = fractions({2, 3}, 84), target = indices({2, 1}, {2}), w = some({5, 3}, 85),
               classes = indices({4, 1}, {2}), log_p = log_softmax(some({6, 2, 4}, 86), -1),
               targets = indices({1, 2, 3, 1}, {2, 2}), cube = some({2, 3, 3}, 89),
               tokens = indices({0, 2, 1, 1, 1, 2}, {2, 3});
  std::vector<OpCall> calls = {
      {"cross_entropy", {x, target}, {}, cross_entropy(x, target)},
      {"cross_entropy",
       {x, target},
       {{"reduce", "sum"}, {"smoothing", 0.25}, {"ignore_index", 1}},
       cross_entropy(x, target, {.reduce = Reduce::sum, .smoothing = 0.25, .ignore_index = 1})},
      {"cross_entropy",
       {cube, tokens, some({3}, 88)},
       {{"class_axis", 1}},
       cross_entropy(cube, tokens, {.weight = some({3}, 88), .class_axis = 1})},
      {"nll_loss",
       {cube, tokens},
       {{"class_axis", 1}},
       nll_loss(cube, tokens, Reduce::mean, -100, 1)},
      {"linear_cross_entropy", {x, w, classes}, {}, linear_cross_entropy(x, w, classes)},
      {"linear_cross_entropy",
       {x, w, classes},
       {{"reduce", "sum"}, {"smoothing", 0.25}, {"ignore_index", 1}, {"chunk_rows", 1}},
       linear_cross_entropy(x, w, classes,
                            {.reduce = Reduce::sum, .smoothing = 0.25, .ignore_index = 1}, 1)},
      {"nll_loss", {x, target}, {}, nll_loss(x, target, Reduce::mean, -100)},
      {"nll_loss",
       {x, target},
       {{"reduce", "sum"}, {"ignore_index", 1}},
       nll_loss(x, target, Reduce::sum, 1)},
      {"smooth_l1_loss", {x, y}, {}, smooth_l1_loss(x, y, Reduce::mean, 1)},
      {"smooth_l1_loss",
       {x, y},
       {{"reduce", "none"}, {"beta", 0.25}},
       smooth_l1_loss(x, y, Reduce::none, 0.25)},
      {"huber_loss", {x, y}, {}, huber_loss(x, y, Reduce::mean, 1)},
      {"huber_loss",
       {x, y},
       {{"reduce", "none"}, {"delta", 0.25}},
       huber_loss(x, y, Reduce::none, 0.25)},
      {"kl_div", {x, p}, {}, kl_div(x, p, Reduce::mean, false)},
      {"kl_div", {x, y}, {{"reduce", "sum"}, {"log_target", 1}}, kl_div(x, y, Reduce::sum, true)},
      {"multi_margin_loss", {x, target}, {}, multi_margin_loss(x, target, 1, Reduce::mean)},
      {"multi_margin_loss",
       {x, target},
       {{"margin", 0.25}, {"reduce", "sum"}},
       multi_margin_loss(x, target, 0.25, Reduce::sum)},
      {"hinge_embedding_loss", {x, signs()}, {}, hinge_embedding_loss(x, signs(), 1, Reduce::mean)},
      {"hinge_embedding_loss",
       {x, signs()},
       {{"margin", 0.25}, {"reduce", "sum"}},
       hinge_embedding_loss(x, signs(), 0.25, Reduce::sum)},
      {"margin_ranking_loss",
       {x, y, signs()},
       {},
       margin_ranking_loss(x, y, signs(), 0, Reduce::mean)},
      {"margin_ranking_loss",
       {x, y, signs()},
       {{"margin", 0.25}, {"reduce", "sum"}},
       margin_ranking_loss(x, y, signs(), 0.25, Reduce::sum)},
      {"triplet_margin_loss", {x, y, z}, {}, triplet_margin_loss(x, y, z, 1, Reduce::mean)},
      {"triplet_margin_loss",
       {x, y, z},
       {{"margin", 3.0}, {"reduce", "sum"}},
       triplet_margin_loss(x, y, z, 3, Reduce::sum)},
      {"bce_with_logits", {x, p}, {}, bce_with_logits(x, p)},
      {"bce_with_logits", {x, p}, {{"reduce", "sum"}}, bce_with_logits(x, p, Reduce::sum)},
      {"bce_with_logits",
       {x, p, some({3}, 93)},
       {{"reduce", "none"}},
       bce_with_logits(x, p, Reduce::none, some({3}, 93))},
      {"ctc_loss",
       {log_p, targets},
       {{"input_lengths", List{6, 5}}, {"target_lengths", List{2, 1}}},
       ctc_loss(log_p, targets, {List{6, 5}, List{2, 1}}, {.reduce = Reduce::mean})},
      {"ctc_loss",
       {log_p, targets - 1},
       {{"input_lengths", List{6, 1}},
        {"target_lengths", List{2, 2}},
        {"blank", 3},
        {"zero_infinity", 1},
        {"reduce", "sum"}},
       ctc_loss(log_p, targets - 1, {List{6, 1}, List{2, 2}},
                {.reduce = Reduce::sum, .blank = 3, .zero_infinity = true})}};
  using Loss = Tensor (*)(const Tensor&, const Tensor&, Reduce);
  const std::tuple<const char*, Loss, Tensor, Tensor> losses[] = {
      {"mse_loss", mse_loss, x, y},
      {"l1_loss", l1_loss, x, y},
      {"soft_margin_loss", soft_margin_loss, x, signs()},
      {"binary_cross_entropy", binary_cross_entropy, p, fractions({2, 3}, 87)}};
  for (const auto& [name, loss, given, wanted] : losses) {
    calls.push_back({name, {given, wanted}, {}, loss(given, wanted, Reduce::mean)});
    calls.push_back({name, {given, wanted}, {{"reduce", "sum"}}, loss(given, wanted, Reduce::sum)});
    calls.push_back(
        {name, {given, wanted}, {{"reduce", "none"}}, loss(given, wanted, Reduce::none)});
  }
  return calls;
}

std::vector<OpCall> composed_calls() {
  const Tensor x = some({2, 3}, 101), y = some({2, 3}, 102), p = fractions({2, 3}, 103),
               m = greater(x, 0), n = greater(y, 0), odd = x / (cast(m, DType::f32) * 0.0),
               line = some({4}, 104), i = indices({2, 0, 2}, {3}), counts = indices({2, 0, 3}, {3}),
               at = indices({1, 0, 2}, {1, 3}), image = some({1, 8, 2, 3}, 105),
               numbers = indices({3, 1, 3, 0}, {4}), sorted = sort(line).values;
  return {{"lerp", {x, y}, {{"weight", 0.25}}, lerp(x, y, 0.25)},
          {"lerp_by", {x, y, p}, {}, lerp(x, y, p)},
          {"fmod", {x, p}, {}, fmod(x, p)},
          {"frac", {x}, {}, frac(x)},
          {"logical_xor", {m, n}, {}, logical_xor(m, n)},
          {"nan_to_num", {odd}, {}, nan_to_num(odd)},
          {"nan_to_num",
           {odd},
           {{"nan", 1.0}, {"high", 2.0}, {"low", -3.0}},
           nan_to_num(odd, 1, 2, -3)},
          {"isclose", {x, y}, {}, isclose(x, y)},
          {"isclose", {x, y}, {{"rtol", 0.0}, {"atol", 0.5}}, isclose(x, y, 0, 0.5)},
          {"isclose", {odd, odd}, {{"equal_nan", 1}}, isclose(odd, odd, 1e-5, 1e-8, true)},
          {"selu", {x}, {}, selu(x)},
          {"hardtanh", {x}, {}, hardtanh(x)},
          {"hardtanh", {x}, {{"low", -0.25}, {"high", 0.5}}, hardtanh(x, -0.25, 0.5)},
          {"relu6", {x * 9.0}, {}, relu6(x * 9.0)},
          {"logsigmoid", {x}, {}, logsigmoid(x)},
          {"softsign", {x}, {}, softsign(x)},
          {"diag", {line}, {}, diag(line)},
          {"diag", {x}, {{"offset", 1}}, diag(x, 1)},
          {"diagonal", {x}, {}, diagonal(x)},
          {"diagonal",
           {image},
           {{"offset", -1}, {"first", 3}, {"second", 1}},
           diagonal(image, -1, 3, 1)},
          {"trace", {x}, {}, trace(x)},
          {"outer", {line, i}, {}, outer(line, i)},
          {"hstack", {x, y}, {}, cat({x, y}, 1)},
          {"vstack", {line, line}, {}, stack({line, line}, 0)},
          {"tile", {x}, {{"counts", List{2}}}, repeat(x, {1, 2})},
          {"repeat_interleave", {x}, {{"count", 2}}, repeat_interleave(x, 2)},
          {"repeat_interleave", {x}, {{"count", 2}, {"axis", 0}}, repeat_interleave(x, 2, 0)},
          {"repeat_interleave_by", {x, counts}, {{"axis", 1}}, repeat_interleave(x, counts, 1)},
          {"movedim", {image}, {{"from", 0}, {"to", 2}}, movedim(image, 0, 2)},
          {"pixel_shuffle", {image}, {{"factor", 2}}, pixel_shuffle(image, 2)},
          {"scatter", {x, at, y}, {{"axis", 1}}, scatter(x, 1, at, y)},
          {"scatter_value", {x, at}, {{"axis", 1}, {"value", 2.5}}, scatter(x, 1, at, 2.5)},
          {"index_add", {x, i, y}, {{"axis", 1}}, index_add(x, 1, i, y)},
          {"index_add", {x, i, y}, {{"axis", 1}, {"alpha", 2.5}}, index_add(x, 1, i, y, 2.5)},
          {"index_fill",
           {x, indices({2, 0}, {2})},
           {{"axis", 1}, {"value", 2.5}},
           index_fill(x, 1, indices({2, 0}, {2}), 2.5)},
          {"take", {x, i}, {}, take(x, i)},
          {"count_nonzero", {m}, {}, count_nonzero(m)},
          {"count_nonzero", {m}, {{"axes", List{1}}}, count_nonzero(m, 1)},
          {"normalize", {x}, {}, normalize(x)},
          {"normalize", {x}, {{"p", 1.0}, {"axis", 0}, {"eps", 3.0}}, normalize(x, 1, 0, 3)},
          {"unique", {numbers}, {}, unique(numbers).values},
          {"unique_inverse", {numbers}, {}, unique(numbers, {.inverse = true}).inverse},
          {"unique_counts", {numbers}, {}, unique(numbers, {.counts = true}).counts},
          {"unique_consecutive", {i}, {}, unique_consecutive(i).values},
          {"bincount", {numbers}, {}, bincount(numbers)},
          {"bincount", {numbers, line}, {{"minimum", 6}}, bincount(numbers, line, 6)},
          {"searchsorted", {sorted, line}, {}, searchsorted(sorted, line)},
          {"searchsorted", {sorted, line}, {{"right", 1}}, searchsorted(sorted, line, true)},
          {"median", {x}, {}, median(x)},
          {"median_along", {x}, {{"axis", 0}, {"keep", 1}}, median(x, 0, true).values},
          {"quantile", {x}, {{"q", 0.3}}, quantile(x, 0.3)},
          {"quantile", {x}, {{"q", 0.3}, {"axis", 1}, {"keep", 1}}, quantile(x, 0.3, 1, true)},
          {"quantiles", {x, fractions({3}, 106)}, {}, quantile(x, fractions({3}, 106))},
          {"quantiles",
           {x, fractions({3}, 106)},
           {{"axis", 0}, {"keep", 1}},
           quantile(x, fractions({3}, 106), 0, true)}};
}

// With random numbers of their own: not by value.
const std::set<std::string> drawn_ops = {"bernoulli", "dropout", "multinomial"};

TEST(COps, AreTheFunctionsOfTheLibrary) {
  std::set<std::string> called = drawn_ops;
  for (const auto& calls : {elementwise_calls(), unary_calls(), matmul_and_reduce_calls(),
                            shape_calls(), layer_calls(), loss_calls(), composed_calls()}) {
    for (const OpCall& call : calls) {
      std::string given;
      for (const Given& one : call.options) given += std::string(" ") + one.name;
      SCOPED_TRACE(call.op + given);
      called.insert(call.op);
      const Tensor found = through_c(call);
      ASSERT_TRUE(found.defined());
      EXPECT_EQ(found.dtype(), call.expected.dtype());
      EXPECT_EQ(found.shape(), call.expected.shape());
      EXPECT_THAT(test::read(found), ::testing::Pointwise(::testing::NanSensitiveDoubleEq(),
                                                          test::read(call.expected)));
    }
  }
  for (size_t i = 0; i < bnd_op_count(); ++i)
    EXPECT_TRUE(called.contains(bnd_op_name(i))) << bnd_op_signature(i);
}

TEST(COps, DrawAsOftenAsTheyAreAsked) {
  const Tensor ones_row = ones({1, 1000});
  const auto zeros_in = [&](double p) {
    const std::vector<double> values =
        test::read(through_c({"dropout", {ones_row}, {{"p", p}}, {}}));
    return std::count(values.begin(), values.end(), 0.0);
  };
  EXPECT_EQ(zeros_in(0), 0);
  const Tensor kept = through_c({"dropout", {ones_row}, {{"p", 0.5}, {"training", 0}}, {}});
  EXPECT_THAT(test::read(kept), ::testing::Each(1));
  EXPECT_NEAR(static_cast<double>(zeros_in(0.25)), 250, 60);
  const Tensor weights = ones({5});
  std::vector<double> drawn =
      test::read(through_c({"multinomial", {weights}, {{"samples", 5}}, {}}));
  std::sort(drawn.begin(), drawn.end());
  EXPECT_THAT(drawn, ::testing::ElementsAre(0, 1, 2, 3, 4));  // without replacement
  EXPECT_EQ(through_c({"multinomial", {weights}, {{"samples", 9}, {"replacement", 1}}, {}}).numel(),
            9);
}

TEST(COps, KnowOptionsByTheirWholeNames) {
  const bnd_tensor x{some({2, 3}, 1)};
  const bnd_tensor* inputs[] = {&x};
  for (const char* name : {"axis", "axi", "xis", "axis ", ""}) {
    const bnd_option option = Given(name, 0);
    bnd_tensor* result = nullptr;
    const bool is_known = std::string(name) == "axis";
    EXPECT_EQ(bnd_op("softmax", inputs, 1, &option, 1, &result), is_known ? BND_OK : BND_INVALID)
        << name;
    bnd_tensor_free(result);
  }
}

}  // namespace
}  // namespace binade::c
