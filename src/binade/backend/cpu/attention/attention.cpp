#include "binade/backend/attention.h"

#include <algorithm>
#include <string>
#include <vector>

#include "binade/backend/cpu/attention/blocks.h"
#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cpu/rows/dense_rows.h"
#include "binade/base/error.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {

attention::AttentionScratch& attention::attention_scratch() {
  // Kept between calls, which threads make at the same time.
  thread_local AttentionScratch scratch;
  return scratch;
}

namespace {

template <class T>
void rotate(const T* x, const float* cosine, const float* sine, int64_t half, bool inverse, T* y) {
  const T sign = inverse ? T(-1) : T(1);
  for (int64_t i = 0; i < half; ++i) {
    const T c = cosine[i], s = sign * static_cast<T>(sine[i]);
    y[i] = x[i] * c - x[i + half] * s;
    y[i + half] = x[i + half] * c + x[i] * s;
  }
}

void rope(const RotaryEmbedding& call) {
  const TensorView &x = call.x, &y = call.y;
  const int64_t tokens = x.shape[1], heads = x.shape[2], dim = x.shape[3], half = dim / 2;
  // Heads that are adjacent in memory are read and written together.
  const int64_t together =
      x.strides[2] == dim && y.strides[2] == dim ? std::max<int64_t>(heads, 1) : 1;
  with_compute_type("rope", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(x.shape[0] * tokens, 16, [&](int64_t begin, int64_t end) {
      std::vector<T> rows(static_cast<size_t>(together * dim)), rotated(rows);
      for (int64_t item = begin; item < end; ++item) {
        const int64_t batch = item / tokens, token = item % tokens;
        const int64_t entry = (call.start + token) * half;
        for (int64_t head = 0; head < heads; head += together) {
          const T* in =
              load(x, attention::row_offset(x, batch, token, head), together * dim, rows.data());
          for (int64_t row = 0; row < together * dim; row += dim) {
            rotate(in + row, call.cosine.as<float>() + entry, call.sine.as<float>() + entry, half,
                   call.inverse, rotated.data() + row);
          }
          store(rotated.data(), y, attention::row_offset(y, batch, token, head), together * dim);
        }
      }
    });
  });
}

// Runs the other kernels in turn; the host knows the position.
void decode(const AttentionDecode& call) {
  const int64_t batch = call.keys.shape[0], kv_heads = call.keys.shape[1], dim = call.keys.shape[3];
  const int64_t heads = call.out.shape[2] / dim, position = call.position.as<int64_t>()[0];
  if (position < 0 || position >= call.keys.shape[2]) {
    fail("attention", {.argument = "position",
                       .expected = "less than " + std::to_string(call.keys.shape[2]),
                       .found = std::to_string(position)});
  }
  const Tensor packed = Tensor::empty({batch, heads + 2 * kv_heads, 1, dim}, call.qkv.dtype);
  elementwise_kernels.copy({call.qkv.data, call.qkv.dtype, packed.shape(), packed.strides(), true},
                           packed);
  const auto part = [&](int64_t first, int64_t count) {
    return packed.strided({batch, count, 1, dim}, packed.strides(), first * dim);
  };
  if (call.cosine.present) {
    const int64_t rotated = heads + kv_heads;
    const Tensor x =
        packed.strided({batch, 1, rotated, dim}, {packed.strides()[0], dim, dim, 1}, 0);
    rope({.x = x, .cosine = call.cosine, .sine = call.sine, .start = position, .y = x});
  }
  // `count` cached tokens from `first` on.
  const auto cached = [&](TensorView cache, int64_t first, int64_t count) {
    const int64_t offset = first * dim * static_cast<int64_t>(size_of(cache.dtype));
    cache.data = cache.as<std::byte>() + offset;
    cache.shape = {batch, kv_heads, count, dim};
    return cache;
  };
  elementwise_kernels.copy(part(heads, kv_heads), cached(call.keys, position, 1));
  elementwise_kernels.copy(part(heads + kv_heads, kv_heads), cached(call.values, position, 1));
  const Tensor lse =
      Tensor::empty({batch, heads, 1}, call.qkv.dtype == DType::f64 ? DType::f64 : DType::f32);
  attention::forward({.q = part(0, heads),
                      .k = cached(call.keys, 0, position + 1),
                      .v = cached(call.values, 0, position + 1),
                      .scale = call.scale,
                      .causal = true,
                      .tf32 = call.tf32,
                      .out = {call.out.data,
                              call.out.dtype,
                              {batch, heads, 1, dim},
                              {heads * dim, dim, dim, 1},
                              true},
                      .lse = lse});
}

}  // namespace

const AttentionKernels attention_kernels{.forward = attention::forward,
                                         .backward = attention::backward,
                                         .forward_each = attention::forward_each,
                                         .backward_each = attention::backward_each,
                                         .rope = rope,
                                         .decode = decode};

}  // namespace binade::backend::cpu
