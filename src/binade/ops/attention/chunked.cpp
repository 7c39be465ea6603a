#include <algorithm>
#include <span>
#include <vector>

#include "binade/ops/attention/common.h"
#include "binade/ops/common.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/recompute.h"
#include "binade/ops/shape/shape.h"

// Attention by plain ops, some queries at a time.
namespace binade {
namespace {

using namespace ops;

// Scores of so many queries are stored at once. Other numbers were not measured.
constexpr int64_t chunk_queries = 512;

// Queries `first` .. `end` and the keys that some of them see, none if `key_end` is not above
// `key`. Within a chunk, causal queries see keys as if it were whole.
struct Chunk {
  int64_t first, end, key, key_end;

  Chunk(const Tensor& q, const Tensor& k, int64_t first, const AttentionOptions& options)
      : first(first), end(std::min(first + chunk_queries, q.size(2))), key(0), key_end(k.size(2)) {
    if (!options.causal) return;
    const int64_t shift = k.size(2) - q.size(2);
    key_end = end + shift;
    if (options.window > 0) key = std::max<int64_t>(0, first + shift + 1 - options.window);
  }

  Tensor queries(const Tensor& x) const { return slice(x, 2, first, end); }
  Tensor keys(const Tensor& x) const { return slice(x, 2, key, key_end); }
  // Axes of 1 repeat their element.
  Tensor mask(Tensor x) const {
    if (x.rank() >= 1 && x.size(-1) > 1) x = slice(x, -1, key, key_end);
    if (x.rank() >= 2 && x.size(-2) > 1) x = slice(x, -2, first, end);
    return x;
  }
};

Tensor attend_to_chunk(const Chunk& chunk, std::span<const Tensor> wide, AttentionOptions options) {
  const Tensor q = chunk.queries(wide[0]);
  if (chunk.key_end <= chunk.key) return zeros(q.shape(), q.dtype(), q.device());
  std::vector<Tensor> inputs{q, chunk.keys(wide[1]), chunk.keys(wide[2])};
  if (options.mask.defined()) inputs.push_back(chunk.mask(options.mask));
  options.mask = {};
  const auto attend = [options](std::span<const Tensor> x) {
    AttentionOptions with_mask = options;
    if (x.size() > 3) with_mask.mask = x[3];
    return scaled_dot_product_attention_composite(x[0], x[1], x[2], with_mask);
  };
  // Without a gradient to compute, its result must not ask for one.
  const bool needs_grad =
      std::any_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return x.requires_grad(); });
  return needs_grad ? checkpoint(attend, inputs) : attend(inputs);
}

}  // namespace

Tensor ops::chunked_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                              const AttentionOptions& options) {
  if (q.size(2) <= chunk_queries) return scaled_dot_product_attention_composite(q, k, v, options);
  Composite call(Op::scaled_dot_product_attention, {q, k, v});
  // Wide, so that chunks' gradients of keys and values are summed before they are rounded.
  const DType wide = accumulation_type(call[0]);
  const Tensor inputs[] = {cast(call[0], wide), cast(call[1], wide), cast(call[2], wide)};
  std::vector<Tensor> parts;
  for (int64_t first = 0; first < q.size(2); first += chunk_queries)
    parts.push_back(attend_to_chunk({q, k, first, options}, inputs, options));
  return call.result(cast(cat(parts, 2), call[0].dtype()));
}

}  // namespace binade
