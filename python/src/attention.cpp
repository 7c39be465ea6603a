#include "binade/ops/attention/attention.h"

#include "bindings.h"

namespace binade::python {
namespace {

void bind_dense(nb::module_& m) {
  m.def(
      "scaled_dot_product_attention",
      [](const Tensor& query, const Tensor& key, const Tensor& value,
         const std::optional<Tensor>& attn_mask, double dropout_p, bool is_causal,
         std::optional<double> scale, int64_t window, double softcap) {
        return scaled_dot_product_attention(query, key, value,
                                            {.causal = is_causal,
                                             .scale = scale,
                                             .window = window,
                                             .softcap = softcap,
                                             .mask = or_undefined(attn_mask),
                                             .dropout = dropout_p});
      },
      "query"_a, "key"_a, "value"_a, "attn_mask"_a = nb::none(), "dropout_p"_a = 0.0,
      "is_causal"_a = false, nb::kw_only(), "scale"_a = nb::none(), "window"_a = 0,
      "softcap"_a = 0.0, ReleaseGil(),
      "softmax(q k^T * scale) v; [batch, heads, tokens, dim], with fewer heads of keys allowed. A "
      "bool mask is true where a query sees a key.");
  m.def(
      "packed_attention",
      [](const Tensor& qkv, int64_t heads, int64_t kv_heads, bool is_causal,
         std::optional<double> scale, const std::vector<int64_t>& documents) {
        return packed_attention(qkv, heads, kv_heads,
                                {.causal = is_causal, .scale = scale, .documents = documents});
      },
      "qkv"_a, "heads"_a, "kv_heads"_a, nb::kw_only(), "is_causal"_a = true, "scale"_a = nb::none(),
      "documents"_a = std::vector<int64_t>{}, ReleaseGil(),
      "Attention on one buffer [batch, tokens, (heads + 2 kv_heads) * dim]. `documents`: offsets, "
      "in the flattened batch, of documents that do not see one another.");
}

}  // namespace

void bind_attention(nb::module_& m) {
  bind_dense(m);
  m.def(
      "varlen_attention",
      [](const Tensor& query, const Tensor& key, const Tensor& value,
         const std::vector<int64_t>& query_offsets,
         const std::optional<std::vector<int64_t>>& key_offsets, bool is_causal,
         std::optional<double> scale) {
        return varlen_attention(
            query, key, value,
            {.queries = query_offsets, .keys = key_offsets.value_or(std::vector<int64_t>{})},
            {.causal = is_causal, .scale = scale});
      },
      "query"_a, "key"_a, "value"_a, "query_offsets"_a, "key_offsets"_a = nb::none(), nb::kw_only(),
      "is_causal"_a = false, "scale"_a = nb::none(), ReleaseGil(),
      "Attention inside sequences stored one after the other, [rows, heads, dim]: sequence i is "
      "rows offsets[i] to offsets[i + 1].");
  m.def(
      "rope_tables",
      [](int64_t positions, int64_t dim, double theta, Device device) {
        return rope_tables(positions, dim, theta, device);
      },
      "positions"_a, "dim"_a, "theta"_a = 10000.0, "device"_a = Device::cpu(), ReleaseGil(),
      "Cosines and sines of the rotary embedding.");
}

}  // namespace binade::python
