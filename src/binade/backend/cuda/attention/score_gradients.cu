#include "binade/backend/cuda/attention/score_gradients.h"

#include <type_traits>

#include "binade/backend/cuda/attention/tile.cuh"

namespace binade::backend::cuda::native {
namespace {

// 64 * Groups queries; a thread owns 4 adjacent ones of every 64.
template <int Groups_, int Chunks_>
struct StoredTile {
  static constexpr int Groups = Groups_, Rows = 4 * Groups, Chunks = Chunks_;
  static constexpr int rows = 64 * Groups, keys = 32, dim = Chunks * chunk;
  static constexpr int gradient_pitch = pitch_of<float>(rows), pitch = pitch_of<float>(dim);
  static constexpr int gradient_elements = keys * gradient_pitch, key_elements = keys * pitch;
  static constexpr int stage_elements = gradient_elements + key_elements;

  using Result = float[Rows][Chunks][4];

  static __device__ int row_of(int i) {
    return i / 4 * 64 + (threadIdx.x / warp_size * lanes_y + lane_y()) * 4 + i % 4;
  }
};

// Calls f(row, column) for each pack of 4 gradients of a tile that this thread loads.
template <class Tile, class F>
__device__ inline void for_each_pack(F&& f) {
  constexpr int packs = Tile::rows / 4;
#pragma unroll
  for (int i = threadIdx.x; i < Tile::keys * packs; i += threads) f(i / packs, i % packs * 4);
}

// result += the gradients [keys, rows] times the keys.
template <class Tile>
__device__ inline void add_matmul(const float* gradients, const float* keys,
                                  typename Tile::Result& result) {
  gradients += Tile::row_of(0);
  keys += lane_x() * 4;
#pragma unroll 4
  for (int c = 0; c < Tile::keys; ++c) {
    Pack<float, 4> w[Tile::Groups];
#pragma unroll
    for (int g = 0; g < Tile::Groups; ++g)
      w[g] = load_pack<float, 4>(gradients + c * Tile::gradient_pitch + g * 64);
#pragma unroll
    for (int k = 0; k < Tile::Chunks; ++k) {
      const auto key = load_pack<float, 4>(keys + c * Tile::pitch + k * chunk);
#pragma unroll
      for (int i = 0; i < Tile::Rows; ++i)
#pragma unroll
        for (int m = 0; m < 4; ++m) result[i][k][m] += w[i / 4][i % 4] * key[m];
    }
  }
}

// dq of one tile of queries. The next tile of keys is loaded while one is multiplied.
template <class Tile>
__global__ void __launch_bounds__(threads, 2)
    gradient_kernel(StoredGradients<float> stored, Heads<float> k, Heads<float> dq, Sizes sizes,
                    float scale) {
  float* const stages = shared_memory<float>();
  const int64_t items = stored.items * sizes.group();
  const auto block = QueryTile::at<Tile::rows>(sizes, static_cast<int>(blockIdx.x / items),
                                               stored.first * sizes.group() + blockIdx.x % items);
  const int seen_by_all = sizes.visible_keys(block.first);
  const auto fetch_stage = [&](int key) {
    float* const stage = stages + key / Tile::keys % 2 * Tile::stage_elements;
    for_each_pack<Tile>([&](int row, int column) {
      const bool inside = key + row < sizes.keys && block.first + column < sizes.queries;
      const float* from = stored.data;
      if (inside)
        from = stored.at(block.item, sizes.group(), sizes.keys, key + row) + block.first + column;
      copy_async(stage + row * Tile::gradient_pitch + column, from, inside);
    });
    fetch_rows<Tile::keys, Tile::dim, threads>(k, k.at(block.b, block.kv), sizes.key_rows(key),
                                               stage + Tile::gradient_elements);
  };

  typename Tile::Result result = {};
  if (block.keys > 0) fetch_stage(0);
  for (int key = 0; key < block.keys; key += Tile::keys) {
    float* const stage = stages + key / Tile::keys % 2 * Tile::stage_elements;
    wait_copies();
    if (key + Tile::keys > seen_by_all) {  // masked elements were not written
      for_each_pack<Tile>([&](int row, int column) {
#pragma unroll
        for (int n = 0; n < 4; ++n)
          if (key + row >= sizes.visible_keys(block.first + column + n))
            stage[row * Tile::gradient_pitch + column + n] = 0;
      });
    }
    __syncthreads();  // this stage has arrived, and the other has been read
    if (key + Tile::keys < block.keys) fetch_stage(key + Tile::keys);
    add_matmul<Tile>(stage, stage + Tile::gradient_elements, result);
  }
  float factor[Tile::Rows];
#pragma unroll
  for (int i = 0; i < Tile::Rows; ++i) factor[i] = scale;
  store_rows<Tile>(result, factor, dq, dq.at(block.b, block.h), sizes.query_rows(block.first));
}

}  // namespace

void attention_query_gradients(const StoredGradients<float>& stored,
                               const AttentionBackward& call) {
  const Sizes sizes(call.q, call.k, call.causal);
  with_chunks(sizes.dim, [&](auto chunks) {
    constexpr int Chunks = decltype(chunks)::value;
    using Tile = StoredTile<Chunks <= 4 ? 2 : 1, Chunks>;
    launch(gradient_kernel<Tile>,
           tile_blocks(stored.items * sizes.group(), sizes.queries, Tile::rows), threads,
           sizeof(float) * 2 * Tile::stage_elements, stored, Heads<float>(call.k),
           Heads<float>(call.dq), sizes, call.scale);
  });
}

}  // namespace binade::backend::cuda::native
