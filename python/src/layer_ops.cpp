#include "binade/ops/attention.h"
#include "binade/ops/conv.h"
#include "binade/ops/index.h"
#include "binade/ops/linear.h"
#include "binade/ops/norm.h"
#include "binade/ops/recompute.h"
#include "binade/ops/recurrent.h"
#include "binade/ops/sample.h"
#include "bindings.h"
#include "enums.h"

// The ops that layers consist of, with PyTorch's names and order of arguments.
namespace binade::python {
namespace {

using MaybeTensor = std::optional<Tensor>;

PerAxis per_axis(const Shape& shape) { return {shape.begin(), shape.end()}; }

struct ConvEntry {
  const char* name;
  Tensor (*run)(const Tensor&, const Tensor&, const Tensor&, const ConvOptions&);
};

constexpr ConvEntry conv_table[] = {{"conv1d", conv1d}, {"conv2d", conv2d}, {"conv3d", conv3d}};

struct ConvTransposeEntry {
  const char* name;
  Tensor (*run)(const Tensor&, const Tensor&, const Tensor&, const ConvTransposeOptions&);
};

constexpr ConvTransposeEntry conv_transpose_table[] = {{"conv_transpose1d", conv_transpose1d},
                                                       {"conv_transpose2d", conv_transpose2d},
                                                       {"conv_transpose3d", conv_transpose3d}};

struct PoolEntry {
  const char* name;
  Tensor (*run)(const Tensor&, const PoolOptions&);
  const char* doc;
};

constexpr PoolEntry pool_table[] = {
    {"max_pool", max_pool, "The largest element of each window; 1 to 3 spatial axes."},
    {"avg_pool", avg_pool, "The mean of each window; 1 to 3 spatial axes."},
};

void bind_convolutions(nb::module_& m) {
  for (const ConvEntry& entry : conv_table) {
    const auto run = entry.run;
    m.def(
        entry.name,
        [run](const Tensor& x, const Tensor& weight, const MaybeTensor& bias, const Shape& stride,
              const Shape& padding, const Shape& dilation, int64_t groups) {
          return run(x, weight, bias.value_or(Tensor()),
                     {.stride = per_axis(stride),
                      .padding = per_axis(padding),
                      .dilation = per_axis(dilation),
                      .groups = groups});
        },
        "input"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0,
        "dilation"_a = 1, "groups"_a = 1, ReleaseGil(),
        "x [n, in, spatial...], weight [out, in / groups, kernel...], bias [out].");
  }
  for (const ConvTransposeEntry& entry : conv_transpose_table) {
    const auto run = entry.run;
    m.def(
        entry.name,
        [run](const Tensor& x, const Tensor& weight, const MaybeTensor& bias, const Shape& stride,
              const Shape& padding, const Shape& output_padding, int64_t groups,
              const Shape& dilation) {
          return run(x, weight, bias.value_or(Tensor()),
                     {.stride = per_axis(stride),
                      .padding = per_axis(padding),
                      .output_padding = per_axis(output_padding),
                      .dilation = per_axis(dilation),
                      .groups = groups});
        },
        "input"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0,
        "output_padding"_a = 0, "groups"_a = 1, "dilation"_a = 1, ReleaseGil(),
        "x [n, in, spatial...], weight [in, out / groups, kernel...], bias [out].");
  }
  for (const PoolEntry& entry : pool_table) {
    const auto run = entry.run;
    m.def(
        entry.name,
        [run](const Tensor& x, const Shape& kernel_size, const std::optional<Shape>& stride,
              const Shape& padding, bool count_include_pad) {
          return run(x, {.kernel = per_axis(kernel_size),
                         .stride = stride ? per_axis(*stride) : PerAxis{},
                         .padding = per_axis(padding),
                         .count_padding = count_include_pad});
        },
        "input"_a, "kernel_size"_a, "stride"_a = nb::none(), "padding"_a = 0,
        "count_include_pad"_a = true, ReleaseGil(), entry.doc);
  }
  m.def("global_avg_pool", &global_avg_pool, "input"_a, ReleaseGil(),
        "The mean of each channel: [n, c, 1, ...].");
  m.def("upsample_nearest2d", &upsample_nearest2d, "input"_a, "height"_a, "width"_a, ReleaseGil());
  m.def("upsample_bilinear2d", &upsample_bilinear2d, "input"_a, "height"_a, "width"_a,
        ReleaseGil());
  m.def("grid_sampler", &grid_sampler, "input"_a, "grid"_a, ReleaseGil());
}

void bind_norms(nb::module_& m) {
  m.def(
      "layer_norm",
      [](const Tensor& x, const MaybeTensor& weight, const MaybeTensor& bias, double eps) {
        return layer_norm(x, weight.value_or(Tensor()), bias.value_or(Tensor()), eps);
      },
      "input"_a, "weight"_a = nb::none(), "bias"_a = nb::none(), "eps"_a = 1e-5, ReleaseGil(),
      "Layer normalization over the last axis.");
  m.def(
      "rms_norm",
      [](const Tensor& x, const MaybeTensor& weight, double eps) {
        return rms_norm(x, weight.value_or(Tensor()), eps);
      },
      "input"_a, "weight"_a = nb::none(), "eps"_a = 1e-5, ReleaseGil(),
      "Root-mean-square normalization over the last axis.");
  m.def(
      "residual_layer_norm",
      [](const Tensor& x, const Tensor& residual, const MaybeTensor& weight,
         const MaybeTensor& bias, double eps) {
        return residual_layer_norm(x, residual, weight.value_or(Tensor()), bias.value_or(Tensor()),
                                   eps);
      },
      "input"_a, "residual"_a, "weight"_a = nb::none(), "bias"_a = nb::none(), "eps"_a = 1e-5,
      ReleaseGil(), "(x + residual, its layer norm) in one pass.");
  m.def(
      "residual_rms_norm",
      [](const Tensor& x, const Tensor& residual, const MaybeTensor& weight, double eps) {
        return residual_rms_norm(x, residual, weight.value_or(Tensor()), eps);
      },
      "input"_a, "residual"_a, "weight"_a = nb::none(), "eps"_a = 1e-5, ReleaseGil(),
      "(x + residual, its RMS norm) in one pass.");
  m.def(
      "batch_norm",
      [](const Tensor& x, const MaybeTensor& running_mean, const MaybeTensor& running_var,
         const MaybeTensor& weight, const MaybeTensor& bias, bool training, double momentum,
         double eps) {
        return batch_norm(x, weight.value_or(Tensor()), bias.value_or(Tensor()),
                          running_mean.value_or(Tensor()), running_var.value_or(Tensor()),
                          {.training = training, .momentum = momentum, .eps = eps});
      },
      "input"_a, "running_mean"_a = nb::none(), "running_var"_a = nb::none(),
      "weight"_a = nb::none(), "bias"_a = nb::none(), "training"_a = false, "momentum"_a = 0.1,
      "eps"_a = 1e-5, ReleaseGil());
  m.def(
      "group_norm",
      [](const Tensor& x, int64_t num_groups, const MaybeTensor& weight, const MaybeTensor& bias,
         double eps) {
        return group_norm(x, num_groups, weight.value_or(Tensor()), bias.value_or(Tensor()), eps);
      },
      "input"_a, "num_groups"_a, "weight"_a = nb::none(), "bias"_a = nb::none(), "eps"_a = 1e-5,
      ReleaseGil());
}

void bind_attention(nb::module_& m) {
  m.def(
      "scaled_dot_product_attention",
      [](const Tensor& query, const Tensor& key, const Tensor& value, bool is_causal,
         std::optional<double> scale) {
        return scaled_dot_product_attention(query, key, value,
                                            {.causal = is_causal, .scale = scale});
      },
      "query"_a, "key"_a, "value"_a, nb::kw_only(), "is_causal"_a = false, "scale"_a = nb::none(),
      ReleaseGil(), "softmax(q k^T * scale) v; [batch, heads, tokens, dim].");
  m.def(
      "packed_attention",
      [](const Tensor& qkv, int64_t heads, int64_t kv_heads, bool is_causal,
         std::optional<double> scale) {
        return packed_attention(qkv, heads, kv_heads, {.causal = is_causal, .scale = scale});
      },
      "qkv"_a, "heads"_a, "kv_heads"_a, nb::kw_only(), "is_causal"_a = true, "scale"_a = nb::none(),
      ReleaseGil(), "Attention on one buffer [batch, tokens, (heads + 2 kv_heads) * dim].");
  m.def("rope_tables", &rope_tables, "positions"_a, "dim"_a, "theta"_a = 10000.0,
        "device"_a = Device::cpu(), ReleaseGil(), "Cosines and sines of the rotary embedding.");
  m.def("rope", &rope, "input"_a, "cosine"_a, "sine"_a, "start"_a = 0, "rotated"_a = -1,
        ReleaseGil(), "Rotates the heads of [batch, tokens, heads, dim] by their position.");
}

void bind_recurrent(nb::module_& m) {
  using Cell = Tensor (*)(const Tensor&, const Tensor&, const CellWeights&);
  const std::pair<const char*, Cell> cells[] = {
      {"rnn_tanh_cell", rnn_tanh_cell}, {"rnn_relu_cell", rnn_relu_cell}, {"gru_cell", gru_cell}};
  for (const auto& entry : cells) {
    const Cell run = entry.second;
    m.def(
        entry.first,
        [run](const Tensor& x, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh,
              const MaybeTensor& b_ih, const MaybeTensor& b_hh) {
          return run(x, hx, {w_ih, w_hh, b_ih.value_or(Tensor()), b_hh.value_or(Tensor())});
        },
        "input"_a, "hx"_a, "w_ih"_a, "w_hh"_a, "b_ih"_a = nb::none(), "b_hh"_a = nb::none(),
        ReleaseGil());
  }
  m.def(
      "lstm_cell",
      [](const Tensor& x, const std::pair<Tensor, Tensor>& hx, const Tensor& w_ih,
         const Tensor& w_hh, const MaybeTensor& b_ih, const MaybeTensor& b_hh) {
        return lstm_cell(x, hx.first, hx.second,
                         {w_ih, w_hh, b_ih.value_or(Tensor()), b_hh.value_or(Tensor())});
      },
      "input"_a, "hx"_a, "w_ih"_a, "w_hh"_a, "b_ih"_a = nb::none(), "b_hh"_a = nb::none(),
      ReleaseGil(), "The new state and the new cell.");
}

Tensor checkpoint_python(nb::handle function, const std::vector<Tensor>& inputs) {
  const SharedObject callable(function);
  const nb::gil_scoped_release no_gil;
  return checkpoint(
      [callable](std::span<const Tensor> given) {
        const nb::gil_scoped_acquire gil;
        nb::list arguments;
        for (const Tensor& one : given) arguments.append(nb::cast(one));
        return nb::cast<Tensor>(callable.get()(*nb::tuple(arguments)));
      },
      inputs);
}

}  // namespace

void bind_layer_ops(nb::module_& m) {
  m.def(
      "linear",
      [](const Tensor& x, const Tensor& weight, const MaybeTensor& bias,
         const std::string& activation) {
        return linear(x, weight, bias.value_or(Tensor()), parse_activation(activation));
      },
      "input"_a, "weight"_a, "bias"_a = nb::none(), "activation"_a = "none", ReleaseGil(),
      "activation(x weight^T + bias), with the activation fused into the matmul.");
  m.def(
      "bilinear",
      [](const Tensor& a, const Tensor& b, const Tensor& weight, const MaybeTensor& bias) {
        return bilinear(a, b, weight, bias.value_or(Tensor()));
      },
      "input1"_a, "input2"_a, "weight"_a, "bias"_a = nb::none(), ReleaseGil());
  m.def(
      "embedding",
      [](const Tensor& input, const Tensor& weight) { return embedding(weight, input); }, "input"_a,
      "weight"_a, ReleaseGil(), "Rows of weight by index.");
  m.def("_checkpoint", &checkpoint_python);
  bind_convolutions(m);
  bind_norms(m);
  bind_attention(m);
  bind_recurrent(m);
}

}  // namespace binade::python
