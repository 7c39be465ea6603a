#include "io/golden_ops.h"

namespace binade::io {
namespace {

using P = Params;
using I = Inputs;

WindowOptions window_options(const P& p) {
  return {.kernel = {p.integer("kernel_size")},
          .stride = {p.integer("stride")},
          .padding = {p.integer("padding")},
          .dilation = {p.integer("dilation")}};
}

Outputs run_pad(const P& p, const I& in) {
  const std::string mode = p.text("mode");
  return {pad(in.at("x"), p.integers("pad"),
              {.mode = mode == "reflect"     ? PadMode::reflect
                       : mode == "replicate" ? PadMode::replicate
                                             : PadMode::constant,
               .value = p.number_or_none("value").value_or(0)})};
}

Order order_of(bool descending) { return descending ? Order::descending : Order::ascending; }

Outputs both(const Sorted& sorted) { return {sorted.values, sorted.index}; }

Outputs run_einsum(const P& p, const I& in) {
  std::vector<Tensor> operands;
  for (const auto& [name, x] : in) operands.push_back(x);
  return {einsum(p.text("equation"), operands)};
}

Outputs run_ctc_loss(const P& p, const I& in) {
  return {ctc_loss(log_softmax(in.at("x"), 2), in.at("targets"),
                   {p.integers("input_lengths"), p.integers("target_lengths")},
                   {.reduce = p.reduction(),
                    .blank = p.integer("blank"),
                    .zero_infinity = p.flag("zero_infinity")})};
}

}  // namespace

const std::map<std::string, Op>& rearranging_golden_ops() {
  static const std::map<std::string, Op> ops = {
      {"flip",
       [](const P& p, const I& in) -> Outputs { return {flip(in.at("x"), p.integers("dims"))}; }},
      {"roll",
       [](const P& p, const I& in) -> Outputs {
         return {roll(in.at("x"), p.integers("shifts"), p.integers("dims"))};
       }},
      {"repeat",
       [](const P& p, const I& in) -> Outputs {
         return {repeat(in.at("x"), p.integers("repeats"))};
       }},
      {"tril",
       [](const P& p, const I& in) -> Outputs {
         return {tril(in.at("x"), p.integer("diagonal"))};
       }},
      {"triu",
       [](const P& p, const I& in) -> Outputs {
         return {triu(in.at("x"), p.integer("diagonal"))};
       }},
      {"pad", run_pad},
      {"sort",
       [](const P& p, const I& in) {
         return both(sort(in.at("x"), p.integer("dim"), order_of(p.flag("descending"))));
       }},
      {"topk",
       [](const P& p, const I& in) {
         return both(
             topk(in.at("x"), p.integer("k"), p.integer("dim"), order_of(p.flag("largest"))));
       }},
      {"one_hot",
       [](const P& p, const I& in) -> Outputs {
         return {one_hot(in.at("index"), p.integer("num_classes"))};
       }},
      {"unfold",
       [](const P& p, const I& in) -> Outputs { return {unfold(in.at("x"), window_options(p))}; }},
      {"fold",
       [](const P& p, const I& in) -> Outputs {
         const std::vector<int64_t> size = p.integers("output_size");
         return {fold(in.at("x"), size[0], size[1], window_options(p))};
       }},
      {"adaptive_avg_pool",
       [](const P& p, const I& in) -> Outputs {
         return {adaptive_avg_pool(in.at("x"), p.integers("output_size"))};
       }},
      {"adaptive_max_pool",
       [](const P& p, const I& in) -> Outputs {
         return {adaptive_max_pool(in.at("x"), p.integers("output_size"))};
       }},
      {"instance_norm",
       [](const P& p, const I& in) -> Outputs {
         return {instance_norm(in.at("x"), in.at("weight"), in.at("bias"), p.number("eps"))};
       }},
      {"elu",
       [](const P& p, const I& in) -> Outputs { return {elu(in.at("x"), p.number("alpha"))}; }},
      {"mish", [](const P&, const I& in) -> Outputs { return {mish(in.at("x"))}; }},
      {"hardsigmoid", [](const P&, const I& in) -> Outputs { return {hardsigmoid(in.at("x"))}; }},
      {"hardswish", [](const P&, const I& in) -> Outputs { return {hardswish(in.at("x"))}; }},
      {"remainder",
       [](const P&, const I& in) -> Outputs { return {remainder(in.at("a"), in.at("b"))}; }},
      {"std",
       [](const P& p, const I& in) -> Outputs {
         return {
             binade::std(in.at("x"), p.integers("dim"), p.flag("keepdim"), p.number("correction"))};
       }},
      {"einsum", run_einsum},
      {"masked_attention",
       [](const P&, const I& in) -> Outputs {
         return {scaled_dot_product_attention(in.at("q"), in.at("k"), in.at("v"),
                                              {.mask = in.at("mask")})};
       }},
      {"ctc_loss", run_ctc_loss},
  };
  return ops;
}

}  // namespace binade::io
