#include "binade/backend/cuda/attention/rope.h"

#include "binade/backend/cuda/attention/rotation.cuh"
#include "binade/backend/cuda/common/launch.cuh"
#include "binade/backend/cuda/common/pack.cuh"

namespace binade::backend::cuda {
namespace {

constexpr int rope_threads = 256;

template <class T>
struct Tokens {
  T* data;
  int64_t batch, token, head;  // strides

  explicit Tokens(const TensorView& x)
      : data(x.as<T>()), batch(x.strides[0]), token(x.strides[1]), head(x.strides[2]) {}
};

// Whether both halves of every head can be read and written in packs of N.
template <class T, int N>
bool halves_pack(const TensorView& x) {
  bool fit = packs_fit<T, N>(x.data) && x.shape[3] / 2 % N == 0;
  for (int axis = 0; axis < 3; ++axis) fit = fit && x.strides[axis] % N == 0;
  return fit;
}

struct RopeSizes {
  int64_t rows;  // batch x tokens
  int64_t tokens;
  int heads, half;
  int rows_per_block;
};

// A thread rotates N pairs: it reads both halves before it writes either, so y may be x.
template <class T, int N, class C = Compute<T>>
__global__ void rope_kernel(Tokens<T> x, const float* cosine, const float* sine, C sign,
                            RopeSizes sizes, Tokens<T> y) {
  const int packs = sizes.half / N, per_row = sizes.heads * packs;
  for (int i = threadIdx.x; i < sizes.rows_per_block * per_row; i += rope_threads) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * sizes.rows_per_block + i / per_row;
    if (row >= sizes.rows) return;
    const int64_t batch = row / sizes.tokens, token = row - batch * sizes.tokens;
    const int head = i % per_row / packs, pair = i % packs * N;
    const T* from = x.data + batch * x.batch + token * x.token + head * x.head + pair;
    T* to = y.data + batch * y.batch + token * y.token + head * y.head + pair;
    const auto a = load_pack<T, N>(from), b = load_pack<T, N>(from + sizes.half);
    const auto c = load_pack<float, N>(cosine + token * sizes.half + pair);
    const auto s = load_pack<float, N>(sine + token * sizes.half + pair);
    Pack<T, N> rotated_a, rotated_b;
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const C u = static_cast<C>(a[n]), v = static_cast<C>(b[n]);
      const C signed_sine = sign * static_cast<C>(s[n]);
      rotated_a[n] = cast<T>(rotated_element(u, static_cast<C>(c[n]), v, -signed_sine));
      rotated_b[n] = cast<T>(rotated_element(u, signed_sine, v, static_cast<C>(c[n])));
    }
    store_pack(to, rotated_a);
    store_pack(to + sizes.half, rotated_b);
  }
}

}  // namespace

void rope(const RotaryEmbedding& call) {
  const TensorView &x = call.x, &y = call.y;
  RopeSizes sizes{.rows = x.shape[0] * x.shape[1],
                  .tokens = x.shape[1],
                  .heads = static_cast<int>(x.shape[2]),
                  .half = static_cast<int>(x.shape[3] / 2),
                  .rows_per_block = 1};
  if (x.numel() == 0 || sizes.half == 0) return;
  dispatch_floating("rope", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const float* const c = call.cosine.as<float>() + call.start * sizes.half;
    const float* const s = call.sine.as<float>() + call.start * sizes.half;
    const auto run = [&](auto width) {
      constexpr int N = decltype(width)::value;
      const int per_row = sizes.heads * (sizes.half / N);
      sizes.rows_per_block = per_row < rope_threads ? rope_threads / per_row : 1;
      launch(rope_kernel<T, N>,
             static_cast<unsigned>(ceil_div<int64_t>(sizes.rows, sizes.rows_per_block)),
             rope_threads, 0, Tokens<T>(x), c, s, call.inverse ? -1 : 1, sizes, Tokens<T>(y));
    };
    constexpr int wide = 16 / sizeof(T);
    const bool packed = halves_pack<T, wide>(x) && halves_pack<T, wide>(y) &&
                        packs_fit<float, wide>(c) && packs_fit<float, wide>(s);
    packed ? run(std::integral_constant<int, wide>{}) : run(std::integral_constant<int, 1>{});
  });
}

}  // namespace binade::backend::cuda
