#include <nanobind/stl/map.h>
#include <nanobind/stl/unique_ptr.h>

#include "binade/io/lora.h"
#include "binade/nn/conv.h"
#include "binade/nn/init.h"
#include "binade/nn/language_model.h"
#include "binade/nn/linear.h"
#include "binade/nn/norm.h"
#include "binade/nn/resnet.h"
#include "binade/nn/transformer.h"
#include "bindings.h"
#include "enums.h"

// The modules of C++; binade.nn wraps them in Python's Module.
namespace binade::python {
namespace {

nn::Activations parsed_activations(const std::string& text) {
  if (const auto parsed = nn::parse_activations(text)) return *parsed;
  fail("activations", {.argument = "activations",
                       .expected = "keep, lean, recompute or a number of blocks",
                       .found = "'" + text + "'"});
}

using nn::Placement;

std::vector<std::pair<std::string, Tensor>> pairs(const nn::NamedTensors& named) {
  return {named.begin(), named.end()};
}

// What a hook in Python returned: None changes nothing.
Tensor hook_result(const nb::object& result) {
  return result.is_none() ? Tensor() : nb::cast<Tensor>(result);
}

// The layer as an argument of a call: the hook must not keep its own layer alive.
nb::object reference_to(nn::Layer& layer) { return nb::cast(&layer, nb::rv_policy::reference); }

void bind_base(nb::module_& m) {
  nb::class_<nn::Module>(m, "_Module")
      .def("named_parameters",
           [](const nn::Module& self) { return pairs(self.named_parameters()); })
      .def("named_buffers", [](const nn::Module& self) { return pairs(self.named_buffers()); })
      .def("descriptions",
           [](nn::Module& self) {
             std::vector<std::pair<std::string, std::string>> all;
             for (const auto& [path, module] : self.named_modules())
               all.emplace_back(path, module->description());
             return all;
           })
      .def(
          "layer",
          [](nn::Module& self, const std::string& path) -> nn::Layer* {
            for (const auto& entry : self.named_modules())
              if (entry.first == path) return dynamic_cast<nn::Layer*>(entry.second);
            return nullptr;
          },
          "path"_a, nb::rv_policy::reference_internal)
      .def("train", &nn::Module::train)
      .def("to_device", nb::overload_cast<Device>(&nn::Module::to), ReleaseGil())
      .def("to_dtype", nb::overload_cast<DType>(&nn::Module::to), ReleaseGil())
      .def("state_dict", &nn::Module::state_dict, ReleaseGil())
      .def("load_state_dict", &nn::Module::load_state_dict, "state"_a, "strict"_a, ReleaseGil());
  nb::class_<nn::HookHandle>(m, "_HookHandle").def("remove", &nn::HookHandle::remove);
  nb::class_<nn::Layer, nn::Module>(m, "_Layer")
      .def(
          "__call__", [](nn::Layer& self, const Tensor& x) { return self(x); }, ReleaseGil())
      .def("register_forward_pre_hook",
           [](nn::Layer& self, nb::handle hook) {
             return self.register_forward_pre_hook(
                 [held = SharedObject(hook)](nn::Layer& layer, const Tensor& input) {
                   const nb::gil_scoped_acquire gil;
                   return hook_result(held.get()(reference_to(layer), input));
                 });
           })
      .def("register_forward_hook", [](nn::Layer& self, nb::handle hook) {
        return self.register_forward_hook([held = SharedObject(hook)](nn::Layer& layer,
                                                                      const Tensor& input,
                                                                      const Tensor& output) {
          const nb::gil_scoped_acquire gil;
          return hook_result(held.get()(reference_to(layer), input, output));
        });
      });
}

// Members that a layer's parameters are: None where there is no bias.
template <class L, class C>
C& with_weight(C& layer) {
  layer.def_prop_rw(
      "weight", [](const L& self) { return self.weight; },
      [](L& self, const Tensor& weight) { self.weight = weight; });
  return layer;
}

template <class L, class C>
C& with_bias(C& layer) {
  layer.def_prop_rw(
      "bias", [](const L& self) { return optional_of(self.bias); },
      [](L& self, const Tensor& bias) { self.bias = bias; });
  return layer;
}

template <int axes>
void bind_conv(nb::module_& m, const char* name) {
  using Layer = nn::Conv<axes>;
  nb::class_<Layer, nn::Layer> layer(m, name);
  layer.def("__init__", [](Layer* self, int64_t in, int64_t out, const Shape& kernel,
                           const Shape& stride, const Shape& padding, const Shape& dilation,
                           int64_t groups, bool bias, Device device, DType dtype) {
    new (self) Layer({.in = in,
                      .out = out,
                      .kernel = per_axis(kernel),
                      .options = {.stride = per_axis(stride),
                                  .padding = per_axis(padding),
                                  .dilation = per_axis(dilation),
                                  .groups = groups},
                      .bias = bias},
                     {device, dtype});
  });
  with_weight<Layer>(layer);
  with_bias<Layer>(layer);
}

template <int axes>
void bind_conv_transpose(nb::module_& m, const char* name) {
  using Layer = nn::ConvTranspose<axes>;
  nb::class_<Layer, nn::Layer> layer(m, name);
  layer.def("__init__",
            [](Layer* self, int64_t in, int64_t out, const Shape& kernel, const Shape& stride,
               const Shape& padding, const Shape& output_padding, int64_t groups, bool bias,
               const Shape& dilation, Device device, DType dtype) {
              new (self) Layer({.in = in,
                                .out = out,
                                .kernel = per_axis(kernel),
                                .options = {.stride = per_axis(stride),
                                            .padding = per_axis(padding),
                                            .output_padding = per_axis(output_padding),
                                            .dilation = per_axis(dilation),
                                            .groups = groups},
                                .bias = bias},
                               {device, dtype});
            });
  with_weight<Layer>(layer);
  with_bias<Layer>(layer);
}

void bind_layers(nb::module_& m) {
  nb::class_<nn::Linear, nn::Layer> linear(m, "_Linear");
  linear.def("__init__", [](nn::Linear* self, int64_t in, int64_t out, bool bias,
                            const std::string& activation, Device device, DType dtype) {
    new (self)
        nn::Linear({.in = in, .out = out, .bias = bias, .activation = parse_activation(activation)},
                   {device, dtype});
  });
  with_weight<nn::Linear>(linear);
  with_bias<nn::Linear>(linear);
  nb::class_<nn::Embedding, nn::Layer> embedding(m, "_Embedding");
  embedding.def("__init__", [](nn::Embedding* self, int64_t count, int64_t width, double deviation,
                               Device device, DType dtype) {
    new (self)
        nn::Embedding({.count = count, .width = width, .deviation = deviation}, {device, dtype});
  });
  with_weight<nn::Embedding>(embedding);
  bind_conv<1>(m, "_Conv1d");
  bind_conv<2>(m, "_Conv2d");
  bind_conv<3>(m, "_Conv3d");
  bind_conv_transpose<1>(m, "_ConvTranspose1d");
  bind_conv_transpose<2>(m, "_ConvTranspose2d");
  bind_conv_transpose<3>(m, "_ConvTranspose3d");
}

void bind_norm_layers(nb::module_& m) {
  nb::class_<nn::RowNorm, nn::Layer> row(m, "_RowNorm");
  with_weight<nn::RowNorm>(row);
  with_bias<nn::RowNorm>(row);
  nb::class_<nn::LayerNorm, nn::RowNorm>(m, "_LayerNorm")
      .def("__init__", [](nn::LayerNorm* self, int64_t width, double eps, bool bias, Device device,
                          DType dtype) {
        new (self) nn::LayerNorm(width, {.eps = eps, .bias = bias}, {device, dtype});
      });
  nb::class_<nn::RMSNorm, nn::RowNorm>(m, "_RMSNorm")
      .def("__init__",
           [](nn::RMSNorm* self, int64_t width, double eps, Device device, DType dtype) {
             new (self) nn::RMSNorm(width, eps, {device, dtype});
           });
  nb::class_<nn::BatchNorm, nn::Layer> batch(m, "_BatchNorm");
  batch.def("__init__", [](nn::BatchNorm* self, int64_t channels, double eps, double momentum,
                           Device device, DType dtype) {
    new (self) nn::BatchNorm(channels, eps, momentum, {device, dtype});
  });
  with_weight<nn::BatchNorm>(batch);
  with_bias<nn::BatchNorm>(batch);
  nb::class_<nn::GroupNorm, nn::Layer> group(m, "_GroupNorm");
  group.def("__init__", [](nn::GroupNorm* self, int64_t groups, int64_t channels, double eps,
                           Device device, DType dtype) {
    new (self) nn::GroupNorm(groups, channels, eps, {device, dtype});
  });
  with_weight<nn::GroupNorm>(group);
  with_bias<nn::GroupNorm>(group);
}

void bind_transformer(nb::module_& m) {
  nb::class_<nn::MultiheadAttention, nn::Layer>(m, "_MultiheadAttention")
      .def("__init__",
           [](nn::MultiheadAttention* self, int64_t width, int64_t heads, int64_t kv_heads,
              bool bias, bool causal, double dropout, Device device, DType dtype) {
             new (self) nn::MultiheadAttention({.width = width,
                                                .heads = heads,
                                                .kv_heads = kv_heads,
                                                .bias = bias,
                                                .causal = causal,
                                                .dropout = dropout},
                                               {device, dtype});
           });
  nb::class_<nn::MLP, nn::Layer>(m, "_MLP").def(
      "__init__",
      [](nn::MLP* self, int64_t width, int64_t hidden, bool gated, bool bias,
         const std::optional<std::string>& activation, double dropout, Device device, DType dtype) {
        const auto chosen =
            activation ? std::optional(parse_activation(*activation)) : std::nullopt;
        new (self) nn::MLP({.width = width,
                            .hidden = hidden,
                            .gated = gated,
                            .bias = bias,
                            .activation = chosen,
                            .dropout = dropout},
                           {device, dtype});
      });
}

// Another model of the same configuration; its weights are loaded next.
std::unique_ptr<nn::LanguageModel> model_like(nn::LanguageModel& model) {
  if (!io::adapter_tensors(model).empty()) {
    fail("copy", {.argument = "model",
                  .expected = "a model without adapters",
                  .found = "one with adapters",
                  .hint = "copy it first, then add them"});
  }
  const Tensor& weight = model.head_weight();
  return std::make_unique<nn::LanguageModel>(model.config(),
                                             Placement{weight.device(), weight.dtype()});
}

void bind_models(nb::module_& m) {
  nb::class_<nn::LanguageModel, nn::Module>(m, "_LanguageModel")
      .def(
          "logits",
          [](nn::LanguageModel& self, const Tensor& tokens) { return self.logits(tokens); },
          ReleaseGil())
      .def(
          "loss",
          [](nn::LanguageModel& self, const Tensor& tokens, const Tensor& targets,
             const std::vector<int64_t>& documents) {
            return self.loss(tokens, targets, {}, documents);
          },
          ReleaseGil())
      .def(
          "add_adapters",
          [](nn::LanguageModel& self, int64_t rank, double alpha, double dropout,
             const std::vector<std::string>& targets) {
            io::add_adapters(
                self, {.rank = rank, .alpha = alpha, .dropout = dropout, .targets = targets});
          },
          ReleaseGil())
      .def("adapter_tensors", &io::adapter_tensors, ReleaseGil())
      .def("load_adapter_tensors", &io::load_adapter_tensors, ReleaseGil())
      .def("set_activations",
           [](nn::LanguageModel& self, const std::string& text) {
             self.set_activations(parsed_activations(text));
           })
      .def("model_like", &model_like)
      .def_prop_ro("vocab", [](const nn::LanguageModel& self) { return self.config().vocab; })
      .def_prop_ro("context", [](const nn::LanguageModel& self) { return self.config().context; });
  nb::class_<nn::GPT, nn::LanguageModel>(m, "_GPT").def(
      "__init__", [](nn::GPT* self, int64_t layers, int64_t width, int64_t heads, int64_t vocab,
                     int64_t context, double dropout, std::optional<DType> residual,
                     const std::string& activations, uint64_t seed, Device device, DType dtype) {
        new (self) nn::GPT({.layers = layers,
                            .width = width,
                            .heads = heads,
                            .vocab = vocab,
                            .context = context,
                            .dropout = dropout,
                            .residual = residual,
                            .activations = parsed_activations(activations),
                            .seed = seed},
                           device, dtype);
      });
  nb::class_<nn::Llama, nn::LanguageModel>(m, "_Llama")
      .def("__init__",
           [](nn::Llama* self, int64_t layers, int64_t width, int64_t heads, int64_t kv_heads,
              int64_t hidden, int64_t vocab, int64_t context, double eps, double rope_theta,
              bool tied_head, std::optional<DType> residual, const std::string& activations,
              uint64_t seed, Device device, DType dtype) {
             new (self) nn::Llama({.layers = layers,
                                   .width = width,
                                   .heads = heads,
                                   .kv_heads = kv_heads,
                                   .hidden = hidden,
                                   .vocab = vocab,
                                   .context = context,
                                   .eps = eps,
                                   .rope_theta = rope_theta,
                                   .tied_head = tied_head,
                                   .residual = residual,
                                   .activations = parsed_activations(activations),
                                   .seed = seed},
                                  device, dtype);
           });
  nb::class_<nn::ResNet, nn::Layer>(m, "_ResNet")
      .def("__init__", [](nn::ResNet* self, int64_t channels, const std::vector<int64_t>& widths,
                          const std::vector<int64_t>& blocks, int64_t classes, bool large_stem,
                          uint64_t seed, Device device, DType dtype, const std::string& block) {
        new (self) nn::ResNet({.channels = channels,
                               .block = parse_resnet_block(block),
                               .widths = widths,
                               .blocks = blocks,
                               .classes = classes,
                               .large_stem = large_stem,
                               .seed = seed},
                              device, dtype);
      });
}

}  // namespace

void bind_nn(nb::module_& m) {
  bind_base(m);
  bind_layers(m);
  bind_norm_layers(m);
  bind_transformer(m);
  bind_models(m);
}

}  // namespace binade::python
