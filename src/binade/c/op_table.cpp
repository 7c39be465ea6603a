#include "binade/c/op_table.h"

#include <algorithm>

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
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/norm/softmax.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/pad.h"
#include "binade/ops/shape/rearrange.h"
#include "binade/ops/shape/shape.h"

namespace binade::c {
namespace {

DType dtype_named(const std::string& text) {
  const auto* found = std::find_if(std::begin(all_dtypes), std::end(all_dtypes),
                                   [&](DType dtype) { return name(dtype) == text; });
  if (found == std::end(all_dtypes))
    fail("bnd_op", {.argument = "option dtype", .expected = "f32, f16, bf16, ...", .found = text});
  return *found;
}

Axes axes_of(const Options& o) { return o.list("axes", std::vector<int64_t>{}); }

PadMode pad_mode_of(const Options& o) {
  const std::string text = o.text("mode", "constant");
  if (text == "constant") return PadMode::constant;
  if (text == "reflect") return PadMode::reflect;
  if (text == "replicate") return PadMode::replicate;
  fail("bnd_op",
       {.argument = "option mode", .expected = "constant, reflect or replicate", .found = text});
}

Order order_of(const Options& o, const char* descending, int64_t otherwise) {
  return o.integer(descending, otherwise) != 0 ? Order::descending : Order::ascending;
}

const Entry table[] = {
    // arithmetic
    {"add(a, b)", binary<add>},
    {"sub(a, b)", binary<sub>},
    {"mul(a, b)", binary<mul>},
    {"div(a, b)", binary<div>},
    {"pow(a, exponent)", binary<pow>},
    {"atan2(a, b)", binary<atan2>},
    {"maximum(a, b)", binary<maximum>},
    {"minimum(a, b)", binary<minimum>},
    {"remainder(a, b)", binary<remainder>},
    {"add_scalar(x; value)",
     [](Inputs x, const Options& o) { return add(x[0], o.number("value")); }},
    {"mul_scalar(x; value)",
     [](Inputs x, const Options& o) { return mul(x[0], o.number("value")); }},
    {"pow_scalar(x; exponent)",
     [](Inputs x, const Options& o) { return pow(x[0], o.number("exponent")); }},
    {"where(condition, a, b)", [](Inputs x, const Options&) { return where(x[0], x[1], x[2]); }},
    {"addcmul(a, b, c; value = 1)",
     [](Inputs x, const Options& o) { return addcmul(x[0], x[1], x[2], o.number("value", 1)); }},
    {"addcdiv(a, b, c; value = 1)",
     [](Inputs x, const Options& o) { return addcdiv(x[0], x[1], x[2], o.number("value", 1)); }},
    {"eq(a, b)", binary<eq>},
    {"not_equal(a, b)", binary<not_equal>},
    {"less(a, b)", binary<less>},
    {"less_equal(a, b)", binary<less_equal>},
    {"greater(a, b)", binary<greater>},
    {"greater_equal(a, b)", binary<greater_equal>},
    {"logical_and(a, b)", binary<logical_and>},
    {"logical_or(a, b)", binary<logical_or>},
    {"logical_not(x)", unary<logical_not>},
    {"bitwise_and(a, b)", binary<bitwise_and>},
    {"bitwise_or(a, b)", binary<bitwise_or>},
    {"bitwise_xor(a, b)", binary<bitwise_xor>},
    {"bitwise_not(x)", unary<bitwise_not>},
    // one argument
    {"neg(x)", unary<neg>},
    {"abs(x)", unary<abs>},
    {"sign(x)", unary<sign>},
    {"square(x)", unary<square>},
    {"sqrt(x)", unary<sqrt>},
    {"rsqrt(x)", unary<rsqrt>},
    {"reciprocal(x)", unary<reciprocal>},
    {"exp(x)", unary<exp>},
    {"expm1(x)", unary<expm1>},
    {"log(x)", unary<log>},
    {"log2(x)", unary<log2>},
    {"log10(x)", unary<log10>},
    {"log1p(x)", unary<log1p>},
    {"sin(x)", unary<sin>},
    {"cos(x)", unary<cos>},
    {"tan(x)", unary<tan>},
    {"asin(x)", unary<asin>},
    {"acos(x)", unary<acos>},
    {"atan(x)", unary<atan>},
    {"sinh(x)", unary<sinh>},
    {"cosh(x)", unary<cosh>},
    {"tanh(x)", unary<tanh>},
    {"erf(x)", unary<erf>},
    {"erfinv(x)", unary<erfinv>},
    {"sigmoid(x)", unary<sigmoid>},
    {"relu(x)", unary<relu>},
    {"silu(x)", unary<silu>},
    {"softplus(x)", unary<softplus>},
    {"gelu(x; form = erf)",
     [](Inputs x, const Options& o) {
       return gelu(x[0], o.text("form", "erf") == "tanh" ? Gelu::tanh : Gelu::erf);
     }},
    {"leaky_relu(x; slope = 0.01)",
     [](Inputs x, const Options& o) { return leaky_relu(x[0], o.number("slope", 0.01)); }},
    {"swiglu(x)", unary<swiglu>},
    {"elu(x; alpha = 1)",
     [](Inputs x, const Options& o) { return elu(x[0], o.number("alpha", 1)); }},
    {"mish(x)", unary<mish>},
    {"hardsigmoid(x)", unary<hardsigmoid>},
    {"hardswish(x)", unary<hardswish>},
    {"prelu(x, weight)", binary<prelu>},
    {"clamp(x; low, high)",
     [](Inputs x, const Options& o) { return clamp(x[0], o.number("low"), o.number("high")); }},
    {"floor(x)", unary<floor>},
    {"ceil(x)", unary<ceil>},
    {"round(x)", unary<round>},
    {"trunc(x)", unary<trunc>},
    {"is_finite(x)", unary<is_finite>},
    {"is_nan(x)", unary<is_nan>},
    {"is_inf(x)", unary<is_inf>},
    {"cast(x; dtype)",
     [](Inputs x, const Options& o) { return cast(x[0], dtype_named(o.text("dtype"))); }},
    // products
    {"matmul(a, b)", binary<matmul>},
    {"mm(a, b)", binary<mm>},
    {"bmm(a, b)", binary<bmm>},
    {"mv(a, b)", binary<mv>},
    {"dot(a, b)", binary<dot>},
    {"addmm(c, a, b; beta = 1, alpha = 1)",
     [](Inputs x, const Options& o) {
       return addmm(x[0], x[1], x[2], o.number("beta", 1), o.number("alpha", 1));
     }},
    {"baddbmm(c, a, b; beta = 1, alpha = 1)",
     [](Inputs x, const Options& o) {
       return baddbmm(x[0], x[1], x[2], o.number("beta", 1), o.number("alpha", 1));
     }},
    {"tensordot(a, b; axes_a, axes_b)",
     [](Inputs x, const Options& o) {
       return tensordot(x[0], x[1], o.list("axes_a"), o.list("axes_b"));
     }},
    {"einsum(...; equation)",
     [](Inputs x, const Options& o) { return einsum(o.text("equation"), x); }},
    // reductions
    {"sum(x; axes = all, keep = 0)",
     [](Inputs x, const Options& o) { return sum(x[0], axes_of(o), o.flag("keep")); }},
    {"mean(x; axes = all, keep = 0)",
     [](Inputs x, const Options& o) { return mean(x[0], axes_of(o), o.flag("keep")); }},
    {"var(x; axes = all, keep = 0, correction = 1)",
     [](Inputs x, const Options& o) {
       return var(x[0], axes_of(o), o.flag("keep"), o.number("correction", 1));
     }},
    {"std(x; axes = all, keep = 0, correction = 1)",
     [](Inputs x, const Options& o) {
       return binade::std(x[0], axes_of(o), o.flag("keep"), o.number("correction", 1));
     }},
    {"prod(x; axes = all, keep = 0)",
     [](Inputs x, const Options& o) { return prod(x[0], axes_of(o), o.flag("keep")); }},
    {"any(x; axes = all, keep = 0)",
     [](Inputs x, const Options& o) { return any(x[0], axes_of(o), o.flag("keep")); }},
    {"all(x; axes = all, keep = 0)",
     [](Inputs x, const Options& o) { return all(x[0], axes_of(o), o.flag("keep")); }},
    {"max(x; axes = all, keep = 0)",
     [](Inputs x, const Options& o) { return max(x[0], axes_of(o), o.flag("keep")); }},
    {"min(x; axes = all, keep = 0)",
     [](Inputs x, const Options& o) { return min(x[0], axes_of(o), o.flag("keep")); }},
    {"argmax(x; axis = -1, keep = 0)",
     [](Inputs x, const Options& o) {
       return argmax(x[0], o.integer("axis", -1), o.flag("keep"));
     }},
    {"argmin(x; axis = -1, keep = 0)",
     [](Inputs x, const Options& o) {
       return argmin(x[0], o.integer("axis", -1), o.flag("keep"));
     }},
    {"norm(x; p = 2, axes = all, keep = 0)",
     [](Inputs x, const Options& o) {
       return norm(x[0], o.number("p", 2), axes_of(o), o.flag("keep"));
     }},
    {"cumsum(x; axis)", [](Inputs x, const Options& o) { return cumsum(x[0], o.integer("axis")); }},
    {"cumprod(x; axis)",
     [](Inputs x, const Options& o) { return cumprod(x[0], o.integer("axis")); }},
    {"cosine_similarity(a, b; axis = -1, eps = 1e-8)",
     [](Inputs x, const Options& o) {
       return cosine_similarity(x[0], x[1], o.integer("axis", -1), o.number("eps", 1e-8));
     }},
    {"cdist(a, b)", binary<cdist>},
    {"cross(a, b; axis = -1)",
     [](Inputs x, const Options& o) { return cross(x[0], x[1], o.integer("axis", -1)); }},
    {"softmax(x; axis = -1)",
     [](Inputs x, const Options& o) { return softmax(x[0], o.integer("axis", -1)); }},
    {"log_softmax(x; axis = -1)",
     [](Inputs x, const Options& o) { return log_softmax(x[0], o.integer("axis", -1)); }},
    {"logsumexp(x; axis = -1, keep = 0)",
     [](Inputs x, const Options& o) {
       return logsumexp(x[0], o.integer("axis", -1), o.flag("keep"));
     }},
    // shapes and indices
    {"reshape(x; shape)",
     [](Inputs x, const Options& o) { return reshape(x[0], o.shape("shape")); }},
    {"expand(x; shape)", [](Inputs x, const Options& o) { return expand(x[0], o.shape("shape")); }},
    {"permute(x; axes)", [](Inputs x, const Options& o) { return permute(x[0], o.list("axes")); }},
    {"transpose(x; a, b)",
     [](Inputs x, const Options& o) { return transpose(x[0], o.integer("a"), o.integer("b")); }},
    {"slice(x; axis, begin, end, step = 1)",
     [](Inputs x, const Options& o) {
       return slice(x[0], o.integer("axis"), o.integer("begin"), o.integer("end"),
                    o.integer("step", 1));
     }},
    {"select(x; axis, index)",
     [](Inputs x, const Options& o) {
       return select(x[0], o.integer("axis"), o.integer("index"));
     }},
    {"squeeze(x; axis)",
     [](Inputs x, const Options& o) { return squeeze(x[0], o.integer("axis")); }},
    {"unsqueeze(x; axis)",
     [](Inputs x, const Options& o) { return unsqueeze(x[0], o.integer("axis")); }},
    {"contiguous(x)", unary<contiguous>},
    {"clone(x)", unary<clone>},
    {"cat(...; axis)", [](Inputs x, const Options& o) { return cat(x, o.integer("axis")); }},
    {"stack(...; axis)", [](Inputs x, const Options& o) { return stack(x, o.integer("axis")); }},
    {"flip(x; axes)", [](Inputs x, const Options& o) { return flip(x[0], o.list("axes")); }},
    {"roll(x; shifts, axes = none)",
     [](Inputs x, const Options& o) {
       return roll(x[0], o.list("shifts"), o.list("axes", std::vector<int64_t>{}));
     }},
    {"repeat(x; times)", [](Inputs x, const Options& o) { return repeat(x[0], o.list("times")); }},
    {"tril(x; diagonal = 0)",
     [](Inputs x, const Options& o) { return tril(x[0], o.integer("diagonal", 0)); }},
    {"triu(x; diagonal = 0)",
     [](Inputs x, const Options& o) { return triu(x[0], o.integer("diagonal", 0)); }},
    {"pad(x; padding, mode = constant, value = 0)",
     [](Inputs x, const Options& o) {
       return pad(x[0], o.list("padding"), {pad_mode_of(o), o.number("value", 0)});
     }},
    {"masked_fill(x, mask; value)",
     [](Inputs x, const Options& o) { return masked_fill(x[0], x[1], o.number("value")); }},
    {"masked_select(x, mask)", binary<masked_select>},
    {"nonzero(x)", unary<nonzero>},
    {"sort(x; axis = -1, descending = 0)",
     [](Inputs x, const Options& o) {
       return sort(x[0], o.integer("axis", -1), order_of(o, "descending", 0)).values;
     }},
    {"argsort(x; axis = -1, descending = 0)",
     [](Inputs x, const Options& o) {
       return argsort(x[0], o.integer("axis", -1), order_of(o, "descending", 0));
     }},
    {"topk(x; k, axis = -1, largest = 1)",
     [](Inputs x, const Options& o) {
       return topk(x[0], o.integer("k"), o.integer("axis", -1), order_of(o, "largest", 1)).values;
     }},
    {"topk_index(x; k, axis = -1, largest = 1)",
     [](Inputs x, const Options& o) {
       return topk(x[0], o.integer("k"), o.integer("axis", -1), order_of(o, "largest", 1)).index;
     }},
    {"one_hot(index; classes)",
     [](Inputs x, const Options& o) { return one_hot(x[0], o.integer("classes")); }},
    {"multinomial(weights; samples, replacement = 0)",
     [](Inputs x, const Options& o) {
       return multinomial(x[0], o.integer("samples"), {.replacement = o.flag("replacement")});
     }},
    {"gather(x, index; axis)",
     [](Inputs x, const Options& o) { return gather(x[0], o.integer("axis"), x[1]); }},
    {"index_select(x, index; axis)",
     [](Inputs x, const Options& o) { return index_select(x[0], o.integer("axis"), x[1]); }},
    {"scatter_add(x, index, source; axis)",
     [](Inputs x, const Options& o) { return scatter_add(x[0], o.integer("axis"), x[1], x[2]); }},
    {"index_put(x, index, values; accumulate = 0)",
     [](Inputs x, const Options& o) { return index_put(x[0], x[1], x[2], o.flag("accumulate")); }},
};

}  // namespace

std::span<const Entry> op_table() {
  static const std::vector<Entry> all = [] {
    std::vector<Entry> entries(std::begin(table), std::end(table));
    const std::span<const Entry> layers = layer_op_table();
    entries.insert(entries.end(), layers.begin(), layers.end());
    return entries;
  }();
  return all;
}

}  // namespace binade::c
