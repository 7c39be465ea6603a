#include "binade/c/op_table.h"

#include <algorithm>

#include "binade/ops/activation.h"
#include "binade/ops/arithmetic.h"
#include "binade/ops/attention.h"
#include "binade/ops/categorical.h"
#include "binade/ops/conv.h"
#include "binade/ops/copy.h"
#include "binade/ops/create.h"
#include "binade/ops/einsum.h"
#include "binade/ops/index.h"
#include "binade/ops/linear.h"
#include "binade/ops/loss/ctc_loss.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/mask.h"
#include "binade/ops/matmul.h"
#include "binade/ops/norm.h"
#include "binade/ops/pad.h"
#include "binade/ops/pool.h"
#include "binade/ops/rearrange.h"
#include "binade/ops/reduce.h"
#include "binade/ops/shape.h"
#include "binade/ops/softmax.h"
#include "binade/ops/sort.h"
#include "binade/ops/unary.h"
#include "binade/ops/unfold.h"

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

Reduce reduce_of(const Options& o) {
  const std::string text = o.text("reduce", "mean");
  if (text == "mean") return Reduce::mean;
  if (text == "sum") return Reduce::sum;
  if (text == "none") return Reduce::none;
  fail("bnd_op", {.argument = "option reduce", .expected = "mean, sum or none", .found = text});
}

ConvOptions conv_of(const Options& o) {
  return {.stride = o.list("stride", std::vector<int64_t>{1}),
          .padding = o.list("padding", std::vector<int64_t>{0}),
          .dilation = o.list("dilation", std::vector<int64_t>{1}),
          .groups = o.integer("groups", 1)};
}

PoolOptions pool_of(const Options& o) {
  return {.kernel = o.list("kernel", std::vector<int64_t>{2}),
          .stride = o.list("stride", std::vector<int64_t>{}),
          .padding = o.list("padding", std::vector<int64_t>{0}),
          .ceil_mode = o.flag("ceil_mode")};
}

WindowOptions windows_of(const Options& o) {
  return {.kernel = o.list("kernel"),
          .stride = o.list("stride", std::vector<int64_t>{1}),
          .padding = o.list("padding", std::vector<int64_t>{0}),
          .dilation = o.list("dilation", std::vector<int64_t>{1})};
}

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

CrossEntropyOptions cross_entropy_of(const Options& o) {
  return {.reduce = reduce_of(o),
          .smoothing = o.number("smoothing", 0),
          .ignore_index = o.integer("ignore_index", -100)};
}

template <Tensor (*op)(const Tensor&)>
Tensor unary(Inputs x, const Options&) {
  return op(x[0]);
}
template <Tensor (*op)(const Tensor&, const Tensor&)>
Tensor binary(Inputs x, const Options&) {
  return op(x[0], x[1]);
}
template <Tensor (*op)(const Tensor&, const Tensor&, Reduce)>
Tensor loss(Inputs x, const Options& o) {
  return op(x[0], x[1], reduce_of(o));
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
    {"less(a, b)", binary<less>},
    {"less_equal(a, b)", binary<less_equal>},
    {"greater(a, b)", binary<greater>},
    {"greater_equal(a, b)", binary<greater_equal>},
    {"logical_and(a, b)", binary<logical_and>},
    {"logical_or(a, b)", binary<logical_or>},
    {"logical_not(x)", unary<logical_not>},
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
    {"tanh(x)", unary<tanh>},
    {"erf(x)", unary<erf>},
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
    {"is_finite(x)", unary<is_finite>},
    {"is_nan(x)", unary<is_nan>},
    {"cast(x; dtype)",
     [](Inputs x, const Options& o) { return cast(x[0], dtype_named(o.text("dtype"))); }},
    {"dropout(x; p)", [](Inputs x, const Options& o) { return dropout(x[0], o.number("p")); }},
    // products
    {"matmul(a, b)", binary<matmul>},
    {"mm(a, b)", binary<mm>},
    {"bmm(a, b)", binary<bmm>},
    {"linear(x, weight, bias?)", [](Inputs x, const Options&) { return linear(x[0], x[1], x[2]); }},
    {"einsum(...; equation)",
     [](Inputs x, const Options& o) { return einsum(o.text("equation"), x); }},
    {"attention(q, k, v, mask?; causal = 0, dropout = 0)",
     [](Inputs x, const Options& o) {
       return scaled_dot_product_attention(
           x[0], x[1], x[2],
           {.causal = o.flag("causal"), .mask = x[3], .dropout = o.number("dropout", 0)});
     }},
    {"packed_attention(qkv; heads, kv_heads, causal = 1, documents = none)",
     [](Inputs x, const Options& o) {
       return packed_attention(x[0], o.integer("heads"), o.integer("kv_heads"),
                               {.causal = o.integer("causal", 1) != 0,
                                .documents = o.list("documents", std::vector<int64_t>{})});
     }},
    {"varlen_attention(q, k, v; queries, keys = queries, causal = 0)",
     [](Inputs x, const Options& o) {
       return varlen_attention(x[0], x[1], x[2],
                               {o.list("queries"), o.list("keys", std::vector<int64_t>{})},
                               {.causal = o.flag("causal")});
     }},
    {"conv2d(x, weight, bias?; stride = 1, padding = 0, dilation = 1, groups = 1)",
     [](Inputs x, const Options& o) { return conv2d(x[0], x[1], x[2], conv_of(o)); }},
    {"max_pool(x; kernel = 2, stride = kernel, padding = 0, ceil_mode = 0)",
     [](Inputs x, const Options& o) { return max_pool(x[0], pool_of(o)); }},
    {"avg_pool(x; kernel = 2, stride = kernel, padding = 0, ceil_mode = 0)",
     [](Inputs x, const Options& o) { return avg_pool(x[0], pool_of(o)); }},
    {"global_avg_pool(x)", unary<global_avg_pool>},
    {"adaptive_avg_pool(x; sizes)",
     [](Inputs x, const Options& o) { return adaptive_avg_pool(x[0], o.list("sizes")); }},
    {"adaptive_max_pool(x; sizes)",
     [](Inputs x, const Options& o) { return adaptive_max_pool(x[0], o.list("sizes")); }},
    {"unfold(x; kernel, stride = 1, padding = 0, dilation = 1)",
     [](Inputs x, const Options& o) { return unfold(x[0], windows_of(o)); }},
    {"fold(columns; height, width, kernel, stride = 1, padding = 0, dilation = 1)",
     [](Inputs x, const Options& o) {
       return fold(x[0], o.integer("height"), o.integer("width"), windows_of(o));
     }},
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
    {"cumsum(x; axis)", [](Inputs x, const Options& o) { return cumsum(x[0], o.integer("axis")); }},
    {"softmax(x; axis = -1)",
     [](Inputs x, const Options& o) { return softmax(x[0], o.integer("axis", -1)); }},
    {"log_softmax(x; axis = -1)",
     [](Inputs x, const Options& o) { return log_softmax(x[0], o.integer("axis", -1)); }},
    {"logsumexp(x; axis = -1, keep = 0)",
     [](Inputs x, const Options& o) {
       return logsumexp(x[0], o.integer("axis", -1), o.flag("keep"));
     }},
    // norms
    {"layer_norm(x, weight?, bias?; eps = 1e-5)",
     [](Inputs x, const Options& o) {
       return layer_norm(x[0], x[1], x[2], o.number("eps", 1e-5));
     }},
    {"rms_norm(x, weight?; eps = 1e-5)",
     [](Inputs x, const Options& o) { return rms_norm(x[0], x[1], o.number("eps", 1e-5)); }},
    {"instance_norm(x, weight?, bias?; eps = 1e-5)",
     [](Inputs x, const Options& o) {
       return instance_norm(x[0], x[1], x[2], o.number("eps", 1e-5));
     }},
    // losses
    {"cross_entropy(logits, target; reduce = mean, smoothing = 0, ignore_index = -100)",
     [](Inputs x, const Options& o) { return cross_entropy(x[0], x[1], cross_entropy_of(o)); }},
    {"mse_loss(x, target; reduce = mean)", loss<mse_loss>},
    {"l1_loss(x, target; reduce = mean)", loss<l1_loss>},
    {"binary_cross_entropy(x, target; reduce = mean)", loss<binary_cross_entropy>},
    {"bce_with_logits(x, target; reduce = mean)",
     [](Inputs x, const Options& o) { return bce_with_logits(x[0], x[1], reduce_of(o)); }},
    {"ctc_loss(log_probs, targets; input_lengths, target_lengths, blank = 0, zero_infinity = 0, "
     "reduce = mean)",
     [](Inputs x, const Options& o) {
       return ctc_loss(x[0], x[1], {o.list("input_lengths"), o.list("target_lengths")},
                       {.reduce = reduce_of(o),
                        .blank = o.integer("blank", 0),
                        .zero_infinity = o.flag("zero_infinity")});
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
    {"embedding(weight, index)", binary<embedding>},
};

}  // namespace

std::span<const Entry> op_table() { return table; }

}  // namespace binade::c
