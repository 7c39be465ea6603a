#include "binade/c/op_table.h"
#include "binade/ops/attention/attention.h"
#include "binade/ops/conv/conv.h"
#include "binade/ops/conv/unfold.h"
#include "binade/ops/loss/ctc_loss.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/matmul/recurrent.h"
#include "binade/ops/norm/norm.h"

namespace binade::c {
namespace {

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

ConvTransposeOptions conv_transpose_of(const Options& o) {
  const ConvOptions plain = conv_of(o);
  return {.stride = plain.stride,
          .padding = plain.padding,
          .output_padding = o.list("output_padding", std::vector<int64_t>{0}),
          .dilation = plain.dilation,
          .groups = plain.groups};
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

CrossEntropyOptions cross_entropy_of(const Options& o) {
  return {
      .reduce = reduce_of(o),
      .smoothing = o.number("smoothing", 0),
      .ignore_index = o.integer("ignore_index", -100),
      .class_axis = o.has("class_axis") ? std::optional(o.integer("class_axis")) : std::nullopt};
}

template <Tensor (*op)(const Tensor&, const Tensor&, const Tensor&, const ConvOptions&)>
Tensor convolution(Inputs x, const Options& o) {
  return op(x[0], x[1], x[2], conv_of(o));
}
template <Tensor (*op)(const Tensor&, const Tensor&, const Tensor&, const ConvTransposeOptions&)>
Tensor transposed_convolution(Inputs x, const Options& o) {
  return op(x[0], x[1], x[2], conv_transpose_of(o));
}
template <Tensor (*op)(const Tensor&, const Tensor&, const CellWeights&)>
Tensor cell(Inputs x, const Options&) {
  return op(x[0], x[1], {x[2], x[3], x[4], x[5]});
}

const Entry table_of_layers[] = {
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
    {"rnn_tanh_cell(x, state, w_ih, w_hh, b_ih?, b_hh?)", cell<rnn_tanh_cell>},
    {"rnn_relu_cell(x, state, w_ih, w_hh, b_ih?, b_hh?)", cell<rnn_relu_cell>},
    {"gru_cell(x, state, w_ih, w_hh, b_ih?, b_hh?)", cell<gru_cell>},
    {"conv1d(x, weight, bias?; stride = 1, padding = 0, dilation = 1, groups = 1)",
     convolution<conv1d>},
    {"conv2d(x, weight, bias?; stride = 1, padding = 0, dilation = 1, groups = 1)",
     convolution<conv2d>},
    {"conv3d(x, weight, bias?; stride = 1, padding = 0, dilation = 1, groups = 1)",
     convolution<conv3d>},
    {"conv_transpose1d(x, weight, bias?; stride = 1, padding = 0, output_padding = 0, dilation = "
     "1, groups = 1)",
     transposed_convolution<conv_transpose1d>},
    {"conv_transpose2d(x, weight, bias?; stride = 1, padding = 0, output_padding = 0, dilation = "
     "1, groups = 1)",
     transposed_convolution<conv_transpose2d>},
    {"conv_transpose3d(x, weight, bias?; stride = 1, padding = 0, output_padding = 0, dilation = "
     "1, groups = 1)",
     transposed_convolution<conv_transpose3d>},
    {"max_pool(x; kernel = 2, stride = kernel, padding = 0, ceil_mode = 0)",
     [](Inputs x, const Options& o) { return max_pool(x[0], pool_of(o)); }},
    {"avg_pool(x; kernel = 2, stride = kernel, padding = 0, ceil_mode = 0)",
     [](Inputs x, const Options& o) { return avg_pool(x[0], pool_of(o)); }},
    {"unfold(x; kernel, stride = 1, padding = 0, dilation = 1)",
     [](Inputs x, const Options& o) { return unfold(x[0], windows_of(o)); }},
    {"fold(columns; height, width, kernel, stride = 1, padding = 0, dilation = 1)",
     [](Inputs x, const Options& o) {
       return fold(x[0], o.integer("height"), o.integer("width"), windows_of(o));
     }},
    {"batch_norm(x, weight?, bias?, running_mean?, running_var?; training, momentum = 0.1, eps = "
     "1e-5)",
     [](Inputs x, const Options& o) {
       return batch_norm(x[0], x[1], x[2], x[3], x[4],
                         {.training = o.integer("training") != 0,
                          .momentum = o.number("momentum", 0.1),
                          .eps = o.number("eps", 1e-5)});
     }},
    {"cross_entropy(logits, target, weight?; reduce = mean, smoothing = 0, ignore_index = -100, "
     "class_axis = none)",
     [](Inputs x, const Options& o) {
       CrossEntropyOptions options = cross_entropy_of(o);
       options.weight = x[2];
       return cross_entropy(x[0], x[1], options);
     }},
    {"linear_cross_entropy(x, weight, target; reduce = mean, smoothing = 0, ignore_index = -100, "
     "chunk_rows = 0)",
     [](Inputs x, const Options& o) {
       return linear_cross_entropy(x[0], x[1], x[2], cross_entropy_of(o),
                                   o.integer("chunk_rows", 0));
     }},
    {"ctc_loss(log_probs, targets; input_lengths, target_lengths, blank = 0, zero_infinity = 0, "
     "reduce = mean)",
     [](Inputs x, const Options& o) {
       return ctc_loss(x[0], x[1], {o.list("input_lengths"), o.list("target_lengths")},
                       {.reduce = reduce_of(o),
                        .blank = o.integer("blank", 0),
                        .zero_infinity = o.flag("zero_infinity")});
     }},
};

}  // namespace

std::vector<Entry> layer_op_table() {
  return {std::begin(table_of_layers), std::end(table_of_layers)};
}

}  // namespace binade::c
