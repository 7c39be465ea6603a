#include <cmath>

#include "binade/ops/create/categorical.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/index/index.h"
#include "binade/ops/index/mask.h"
#include "binade/ops/index/sort.h"
#include "binade/ops/loss/distance.h"
#include "binade/ops/matmul/einsum.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/norm/softmax.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/pad.h"
#include "binade/ops/shape/rearrange.h"
#include "binade/ops/shape/shape.h"
#include "c/op_calls.h"

namespace binade::c {

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

}  // namespace binade::c
