#include "binade/ops/conv/conv.h"
#include "binade/ops/conv/unfold.h"
#include "binade/ops/index/index.h"
#include "binade/ops/matmul/recurrent.h"
#include "binade/ops/norm/norm.h"
#include "binade/ops/recompute.h"
#include "bindings.h"
#include "enums.h"

// The ops that layers consist of, with PyTorch's names and order of arguments.
namespace binade::python {
namespace {

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

void bind_convolutions(nb::module_& m) {
  for (const ConvEntry& entry : conv_table) {
    const auto run = entry.run;
    m.def(
        entry.name,
        [run](const Tensor& x, const Tensor& weight, const MaybeTensor& bias, const Shape& stride,
              const Shape& padding, const Shape& dilation, int64_t groups) {
          return run(x, weight, or_undefined(bias),
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
          return run(x, weight, or_undefined(bias),
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
}

WindowOptions windows(const Shape& kernel_size, const Shape& dilation, const Shape& padding,
                      const Shape& stride) {
  return {.kernel = per_axis(kernel_size),
          .stride = per_axis(stride),
          .padding = per_axis(padding),
          .dilation = per_axis(dilation)};
}

void bind_windows(nb::module_& m) {
  m.def(
      "max_pool",
      [](const Tensor& x, const Shape& kernel_size, const std::optional<Shape>& stride,
         const Shape& padding, bool ceil_mode) {
        return max_pool(x, {.kernel = per_axis(kernel_size),
                            .stride = stride ? per_axis(*stride) : PerAxis{},
                            .padding = per_axis(padding),
                            .ceil_mode = ceil_mode});
      },
      "input"_a, "kernel_size"_a, "stride"_a = nb::none(), "padding"_a = 0, nb::kw_only(),
      "ceil_mode"_a = false, ReleaseGil(),
      "The largest element of each window; 1 to 3 spatial axes.");
  m.def(
      "avg_pool",
      [](const Tensor& x, const Shape& kernel_size, const std::optional<Shape>& stride,
         const Shape& padding, bool ceil_mode, bool count_include_pad) {
        return avg_pool(x, {.kernel = per_axis(kernel_size),
                            .stride = stride ? per_axis(*stride) : PerAxis{},
                            .padding = per_axis(padding),
                            .count_padding = count_include_pad,
                            .ceil_mode = ceil_mode});
      },
      "input"_a, "kernel_size"_a, "stride"_a = nb::none(), "padding"_a = 0, "ceil_mode"_a = false,
      "count_include_pad"_a = true, ReleaseGil(), "The mean of each window; 1 to 3 spatial axes.");
  m.def(
      "unfold",
      [](const Tensor& x, const Shape& kernel_size, const Shape& dilation, const Shape& padding,
         const Shape& stride) {
        return unfold(x, windows(kernel_size, dilation, padding, stride));
      },
      "input"_a, "kernel_size"_a, "dilation"_a = 1, "padding"_a = 0, "stride"_a = 1, ReleaseGil(),
      "The windows of [n, c, h, w] as columns, [n, c * kernel, windows].");
  m.def(
      "fold",
      [](const Tensor& x, std::pair<int64_t, int64_t> output_size, const Shape& kernel_size,
         const Shape& dilation, const Shape& padding, const Shape& stride) {
        return fold(x, output_size.first, output_size.second,
                    windows(kernel_size, dilation, padding, stride));
      },
      "input"_a, "output_size"_a, "kernel_size"_a, "dilation"_a = 1, "padding"_a = 0,
      "stride"_a = 1, ReleaseGil(), "Adds columns [n, c * kernel, windows] to an image.");
}

void bind_norms(nb::module_& m) {
  m.def(
      "residual_layer_norm",
      [](const Tensor& x, const Tensor& residual, const MaybeTensor& weight,
         const MaybeTensor& bias, double eps) {
        return residual_layer_norm(x, residual, or_undefined(weight), or_undefined(bias), eps);
      },
      "input"_a, "residual"_a, "weight"_a = nb::none(), "bias"_a = nb::none(), "eps"_a = 1e-5,
      ReleaseGil(), "(x + residual, its layer norm) in one pass.");
  m.def(
      "residual_rms_norm",
      [](const Tensor& x, const Tensor& residual, const MaybeTensor& weight, double eps) {
        return residual_rms_norm(x, residual, or_undefined(weight), eps);
      },
      "input"_a, "residual"_a, "weight"_a = nb::none(), "eps"_a = 1e-5, ReleaseGil(),
      "(x + residual, its RMS norm) in one pass.");
  m.def(
      "batch_norm",
      [](const Tensor& x, const MaybeTensor& running_mean, const MaybeTensor& running_var,
         const MaybeTensor& weight, const MaybeTensor& bias, bool training, double momentum,
         double eps) {
        return batch_norm(x, or_undefined(weight), or_undefined(bias), or_undefined(running_mean),
                          or_undefined(running_var),
                          {.training = training, .momentum = momentum, .eps = eps});
      },
      "input"_a, "running_mean"_a = nb::none(), "running_var"_a = nb::none(),
      "weight"_a = nb::none(), "bias"_a = nb::none(), "training"_a = false, "momentum"_a = 0.1,
      "eps"_a = 1e-5, ReleaseGil());
  m.def(
      "instance_norm",
      [](const Tensor& x, const MaybeTensor& weight, const MaybeTensor& bias, double eps) {
        return instance_norm(x, or_undefined(weight), or_undefined(bias), eps);
      },
      "input"_a, nb::kw_only(), "weight"_a = nb::none(), "bias"_a = nb::none(), "eps"_a = 1e-5,
      ReleaseGil(), "Normalization of each channel of each sample by itself.");
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
          return run(x, hx, {w_ih, w_hh, or_undefined(b_ih), or_undefined(b_hh)});
        },
        "input"_a, "hx"_a, "w_ih"_a, "w_hh"_a, "b_ih"_a = nb::none(), "b_hh"_a = nb::none(),
        ReleaseGil());
  }
  m.def(
      "lstm_cell",
      [](const Tensor& x, const std::pair<Tensor, Tensor>& hx, const Tensor& w_ih,
         const Tensor& w_hh, const MaybeTensor& b_ih, const MaybeTensor& b_hh) {
        return lstm_cell(x, hx.first, hx.second,
                         {w_ih, w_hh, or_undefined(b_ih), or_undefined(b_hh)});
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
      "embedding",
      [](const Tensor& input, const Tensor& weight) { return embedding(weight, input); }, "input"_a,
      "weight"_a, ReleaseGil(), "Rows of weight by index.");
  m.def("_checkpoint", &checkpoint_python);
  bind_convolutions(m);
  bind_windows(m);
  bind_norms(m);
  bind_recurrent(m);
}

}  // namespace binade::python
