#include "binade/backend/attention.h"

#include <algorithm>
#include <vector>

#include "binade/backend/cpu/attention/blocks.h"
#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cpu/rows/dense_rows.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {
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

}  // namespace

const AttentionKernels attention_kernels{
    .forward = attention::forward, .backward = attention::backward, .rope = rope};

}  // namespace binade::backend::cpu
