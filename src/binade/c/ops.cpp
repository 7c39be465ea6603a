#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>

#include "binade/c/handles.h"
#include "binade/ops/activation.h"
#include "binade/ops/arithmetic.h"
#include "binade/ops/attention.h"
#include "binade/ops/conv.h"
#include "binade/ops/copy.h"
#include "binade/ops/create.h"
#include "binade/ops/einsum.h"
#include "binade/ops/index.h"
#include "binade/ops/linear.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/matmul.h"
#include "binade/ops/norm.h"
#include "binade/ops/reduce.h"
#include "binade/ops/shape.h"
#include "binade/ops/softmax.h"
#include "binade/ops/unary.h"

// Ops by name. A table entry is a signature, which says inputs and options with their defaults, and
// a function of both: names and numbers of arguments are checked against the signature once for
// all.
namespace binade::c {
namespace {

class Options {
 public:
  Options(const bnd_option* options, size_t count, std::string_view signature)
      : options_(options), count_(count) {
    if (count > 0) checked(options, "bnd_op", "options");
    for (size_t i = 0; i < count; ++i) {
      checked(options[i].name, "bnd_op", "option's name");
      const std::string_view name = options[i].name;
      const std::string_view known =
          signature.substr(std::min(signature.find(';'), signature.size()));
      if (!names(known, name))
        fail("bnd_op", {.argument = "option " + std::string(name),
                        .expected = std::string(signature),
                        .found = "an option that the op does not have"});
    }
  }

  int64_t integer(std::string_view name, std::optional<int64_t> otherwise = {}) const {
    const bnd_option* option = find(name, BND_INT, otherwise.has_value());
    return option ? option->integer : *otherwise;
  }
  double number(std::string_view name, std::optional<double> otherwise = {}) const {
    const bnd_option* option = find(name, BND_FLOAT, otherwise.has_value());
    if (option == nullptr) return *otherwise;
    return option->kind == BND_INT ? static_cast<double>(option->integer) : option->number;
  }
  bool flag(std::string_view name) const { return integer(name, 0) != 0; }
  std::vector<int64_t> list(std::string_view name,
                            std::optional<std::vector<int64_t>> otherwise = {}) const {
    const bnd_option* option = find(name, BND_INTS, otherwise.has_value());
    if (option == nullptr) return *otherwise;
    if (option->kind == BND_INT) return {option->integer};
    return {option->list, option->list + option->count};
  }
  std::string text(std::string_view name, std::optional<std::string> otherwise = {}) const {
    const bnd_option* option = find(name, BND_TEXT, otherwise.has_value());
    return option ? std::string(option->text) : *otherwise;
  }
  Shape shape(std::string_view name) const { return Shape(std::span<const int64_t>(list(name))); }

 private:
  // Whether the part of a signature behind ';' has an option of this name.
  static bool names(std::string_view known, std::string_view name) {
    for (size_t at = known.find(name); at != std::string_view::npos;
         at = known.find(name, at + 1)) {
      const bool begins = at > 0 && known[at - 1] == ' ';
      const size_t end = at + name.size();
      if (begins && end < known.size() &&
          std::string_view(" ,)").find(known[end]) != std::string_view::npos)
        return true;
    }
    return false;
  }

  const bnd_option* find(std::string_view name, bnd_option_kind kind, bool optional) const {
    for (size_t i = 0; i < count_; ++i) {
      if (options_[i].name != name) continue;
      const bool widened = options_[i].kind == BND_INT && (kind == BND_FLOAT || kind == BND_INTS);
      if (options_[i].kind != kind && !widened)
        fail("bnd_op", {.argument = "option " + std::string(name),
                        .expected = kind_name(kind),
                        .found = kind_name(options_[i].kind)});
      return &options_[i];
    }
    if (!optional)
      fail("bnd_op", {.argument = "option " + std::string(name),
                      .expected = kind_name(kind),
                      .found = "none"});
    return nullptr;
  }

  static const char* kind_name(bnd_option_kind kind) {
    constexpr const char* names[] = {"an integer", "a number", "a list of integers", "a text"};
    return kind >= BND_INT && kind <= BND_TEXT ? names[kind] : "an unknown kind";
  }

  const bnd_option* options_;
  size_t count_;
};

using Inputs = std::span<const Tensor>;
using Call = Tensor (*)(Inputs x, const Options& o);

struct Entry {
  const char* signature;
  Call call;

  std::string_view name() const {
    const std::string_view text(signature);
    return text.substr(0, text.find('('));
  }
  // Inputs between '(' and ';' or ')'; those that end in '?' may be absent, and "..." stands for
  // any number.
  std::string_view inputs() const {
    const std::string_view text(signature);
    const size_t begin = text.find('(') + 1;
    return text.substr(begin, text.find_first_of(";)") - begin);
  }
};

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
          .padding = o.list("padding", std::vector<int64_t>{0})};
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
    {"max_pool(x; kernel = 2, stride = kernel, padding = 0)",
     [](Inputs x, const Options& o) { return max_pool(x[0], pool_of(o)); }},
    {"avg_pool(x; kernel = 2, stride = kernel, padding = 0)",
     [](Inputs x, const Options& o) { return avg_pool(x[0], pool_of(o)); }},
    {"global_avg_pool(x)", unary<global_avg_pool>},
    // reductions
    {"sum(x; axes = all, keep = 0)",
     [](Inputs x, const Options& o) { return sum(x[0], axes_of(o), o.flag("keep")); }},
    {"mean(x; axes = all, keep = 0)",
     [](Inputs x, const Options& o) { return mean(x[0], axes_of(o), o.flag("keep")); }},
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
    // losses
    {"cross_entropy(logits, target; reduce = mean, smoothing = 0, ignore_index = -100)",
     [](Inputs x, const Options& o) { return cross_entropy(x[0], x[1], cross_entropy_of(o)); }},
    {"mse_loss(x, target; reduce = mean)", loss<mse_loss>},
    {"l1_loss(x, target; reduce = mean)", loss<l1_loss>},
    {"binary_cross_entropy(x, target; reduce = mean)", loss<binary_cross_entropy>},
    {"bce_with_logits(x, target; reduce = mean)",
     [](Inputs x, const Options& o) { return bce_with_logits(x[0], x[1], reduce_of(o)); }},
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
    {"gather(x, index; axis)",
     [](Inputs x, const Options& o) { return gather(x[0], o.integer("axis"), x[1]); }},
    {"index_select(x, index; axis)",
     [](Inputs x, const Options& o) { return index_select(x[0], o.integer("axis"), x[1]); }},
    {"embedding(weight, index)", binary<embedding>},
};

const Entry& entry_named(const char* name) {
  const auto* found = std::find_if(std::begin(table), std::end(table),
                                   [&](const Entry& one) { return one.name() == name; });
  if (found == std::end(table))
    fail("bnd_op", {.argument = "name",
                    .expected = "an op that bnd_op_name lists",
                    .found = std::string(name)});
  return *found;
}

// The inputs, with undefined tensors for optional ones that were left out.
std::vector<Tensor> inputs_of(const Entry& entry, const bnd_tensor* const* handles, size_t count) {
  std::vector<Tensor> inputs = tensors_of(handles, count, "bnd_op");
  const std::string_view names = entry.inputs();
  if (names == "...") {
    if (std::any_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return !x.defined(); }))
      fail(entry.name(), {.argument = "inputs", .expected = "tensors", .found = "NULL"});
    return inputs;
  }
  const size_t all = 1 + static_cast<size_t>(std::count(names.begin(), names.end(), ','));
  const size_t optional = static_cast<size_t>(std::count(names.begin(), names.end(), '?'));
  if (inputs.size() < all - optional || inputs.size() > all)
    fail(entry.name(), {.argument = "inputs",
                        .expected = entry.signature,
                        .found = std::to_string(inputs.size()) + " inputs"});
  inputs.resize(all);
  for (size_t i = 0; i < all - optional; ++i)
    if (!inputs[i].defined())
      fail(
          entry.name(),
          {.argument = "input " + std::to_string(i), .expected = entry.signature, .found = "NULL"});
  return inputs;
}

}  // namespace
}  // namespace binade::c

using namespace binade;
using namespace binade::c;

extern "C" {

bnd_status bnd_op(const char* name, const bnd_tensor* const* inputs, size_t input_count,
                  const bnd_option* options, size_t option_count, bnd_tensor** result) {
  return giving("bnd_op", result, [&] {
    checked(name, "bnd_op", "name");
    const Entry& entry = entry_named(name);
    const Options given(options, option_count, entry.signature);
    return entry.call(inputs_of(entry, inputs, input_count), given);
  });
}

size_t bnd_op_count(void) { return std::size(table); }

const char* bnd_op_name(size_t index) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const Entry& entry : table) result.emplace_back(entry.name());
    return result;
  }();
  return index < names.size() ? names[index].c_str() : nullptr;
}

const char* bnd_op_signature(size_t index) {
  return index < std::size(table) ? table[index].signature : nullptr;
}
}
