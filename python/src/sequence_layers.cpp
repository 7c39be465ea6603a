#include <nanobind/stl/tuple.h>

#include "binade/nn/masked_attention.h"
#include "binade/nn/recurrent.h"
#include "bindings.h"

// The layers over sequences that take or return more than one tensor.
namespace binade::python {
namespace {

nn::RecurrentConfig recurrent_config(int64_t in, int64_t hidden, int64_t layers, bool bias,
                                     bool batch_first, double dropout, bool bidirectional) {
  return {.in = in,
          .hidden = hidden,
          .layers = layers,
          .bias = bias,
          .batch_first = batch_first,
          .dropout = dropout,
          .bidirectional = bidirectional};
}

template <class Layer>
void bind_gated(nb::module_& m, const char* name) {
  nb::class_<Layer, nn::Recurrent>(m, name).def(
      "__init__",
      [](Layer* self, int64_t in, int64_t hidden, int64_t layers, bool bias, bool batch_first,
         double dropout, bool bidirectional, Device device, DType dtype) {
        new (self)
            Layer(recurrent_config(in, hidden, layers, bias, batch_first, dropout, bidirectional),
                  {device, dtype});
      });
}

void bind_recurrent_layers(nb::module_& m) {
  nb::class_<nn::Recurrent, nn::Module>(m, "_Recurrent")
      .def(
          "__call__",
          [](nn::Recurrent& self, const Tensor& x, const MaybeTensor& hidden,
             const MaybeTensor& cell) {
            const nn::RecurrentResult result =
                self(x, {.hidden = or_undefined(hidden), .cell = or_undefined(cell)});
            return std::tuple(result.output, result.state.hidden, optional_of(result.state.cell));
          },
          "x"_a, "hidden"_a.none(), "cell"_a.none(), ReleaseGil());
  bind_gated<nn::LSTM>(m, "_LSTM");
  bind_gated<nn::GRU>(m, "_GRU");
  nb::class_<nn::RNN, nn::Recurrent>(m, "_RNN").def(
      "__init__", [](nn::RNN* self, int64_t in, int64_t hidden, int64_t layers,
                     const std::string& nonlinearity, bool bias, bool batch_first, double dropout,
                     bool bidirectional, Device device, DType dtype) {
        if (nonlinearity != "tanh" && nonlinearity != "relu") {
          fail("RNN", {.argument = "nonlinearity",
                       .expected = "tanh or relu",
                       .found = "'" + nonlinearity + "'"});
        }
        new (self)
            nn::RNN(recurrent_config(in, hidden, layers, bias, batch_first, dropout, bidirectional),
                    nonlinearity == "tanh" ? nn::RnnNonlinearity::tanh : nn::RnnNonlinearity::relu,
                    {device, dtype});
      });
}

void bind_masked_attention(nb::module_& m) {
  nb::class_<nn::MaskedAttention, nn::Module>(m, "_MaskedAttention")
      .def(
          "__init__",
          [](nn::MaskedAttention* self, int64_t width, int64_t heads, double dropout, bool bias,
             int64_t key_width, int64_t value_width, bool batch_first, Device device, DType dtype) {
            new (self) nn::MaskedAttention({.width = width,
                                            .heads = heads,
                                            .key_width = key_width,
                                            .value_width = value_width,
                                            .bias = bias,
                                            .dropout = dropout,
                                            .batch_first = batch_first},
                                           {device, dtype});
          })
      .def(
          "__call__",
          [](nn::MaskedAttention& self, const Tensor& query, const Tensor& key, const Tensor& value,
             const MaybeTensor& key_padding, const MaybeTensor& attention, bool causal,
             bool with_weights) {
            const nn::AttentionMasks masks{.key_padding = or_undefined(key_padding),
                                           .attention = or_undefined(attention),
                                           .causal = causal};
            if (!with_weights) return std::pair(self(query, key, value, masks), MaybeTensor());
            const nn::AttentionResult result = self.with_weights(query, key, value, masks);
            return std::pair(result.output, MaybeTensor(result.weights));
          },
          "query"_a, "key"_a, "value"_a, "key_padding"_a.none(), "attention"_a.none(), "causal"_a,
          "with_weights"_a, ReleaseGil());
}

}  // namespace

void bind_sequence_layers(nb::module_& m) {
  bind_recurrent_layers(m);
  bind_masked_attention(m);
}

}  // namespace binade::python
