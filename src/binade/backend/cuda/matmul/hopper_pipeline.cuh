#pragma once

#include <type_traits>

#include "binade/backend/cuda/common/hopper.cuh"

// A matmul c [m, n] = a [m, k] b [k, n] of 16-bit operands in tiles that pass through shared
// memory: one warp loads operands, two warpgroups multiply, and three warps process the tile
// before.
namespace binade::backend::cuda::fused {

// Of one thread block. Two of them, a cluster, share the columns and each other's loads of b.
struct Tile {
  static constexpr int rows = 128, columns = 256, depth = 64;
  static constexpr int cluster = 2;
  static constexpr int processing_warps = 3;
  // 168 registers a thread: 128 of them hold results.
  static constexpr int threads = 384;

  // Operands lie in boxes of 64 columns, 128 bytes a row.
  static constexpr int row_bytes = 128, box = 64;
  static constexpr int a_bytes = rows * row_bytes, b_box_bytes = depth * row_bytes;
  static constexpr int stage_bytes = a_bytes + columns / box * b_box_bytes;
  // As many as fit beside a tile of results.
  static constexpr int stages = 3;
  static constexpr int half_rows = rows / 2;  // of one multiplying warpgroup
  static constexpr int result_row_bytes = columns * 2;

  static constexpr int results_at = stages * stage_bytes;
  static constexpr int sums_at = results_at + rows * result_row_bytes;
  static constexpr int barriers_at = sums_at + processing_warps * columns * 4;
  static constexpr int shared_bytes = barriers_at + 16 * stages + 32;
  static_assert(shared_bytes <= 227 * 1024);
};

struct MatmulSizes {
  int m, n, k;
};

// Barriers in shared memory. A stage of operands is full once its loads are complete and empty once
// the multiplying warps of both thread blocks have read it, since both load into it. Results of a
// warpgroup are full once it has written them and empty once they are processed.
struct Barriers {
  uint32_t base;

  __device__ uint32_t full(int stage) const { return base + 8 * stage; }
  __device__ uint32_t empty(int stage) const { return base + 8 * (Tile::stages + stage); }
  __device__ uint32_t results_full(int half) const { return base + 16 * Tile::stages + 8 * half; }
  __device__ uint32_t results_empty(int half) const { return results_full(half) + 16; }

  // One thread.
  __device__ void init() const {
    constexpr int multiplying_warps = 4;  // of a warpgroup
    for (int stage = 0; stage < Tile::stages; ++stage) {
      hopper::init_barrier(full(stage), 1);
      hopper::init_barrier(empty(stage), 2 * multiplying_warps * Tile::cluster);
    }
    for (int half = 0; half < 2; ++half) {
      hopper::init_barrier(results_full(half), multiplying_warps);
      hopper::init_barrier(results_empty(half), Tile::processing_warps);
    }
    hopper::publish_barriers();
  }
};

// The tiles that a thread block takes, one after the other; all its warps walk alike. Clusters take
// tiles from groups of rows, so that those multiplied at the same time share operands in the cache.
class TileWalk {
 public:
  int row = 0, column = 0;  // the first ones

  __device__ explicit TileWalk(const MatmulSizes& sizes)
      : down_(sizes.m / (Tile::rows * Tile::cluster)),
        across_(sizes.n / Tile::columns),
        index_(static_cast<int>(blockIdx.x) / Tile::cluster) {
    go();
  }

  __device__ bool at_end() const { return index_ >= down_ * across_; }
  // The last tile stays in place at the end.
  __device__ void advance() {
    index_ += static_cast<int>(gridDim.x) / Tile::cluster;
    if (!at_end()) go();
  }

 private:
  static constexpr int group_rows = 8;  // of clusters

  __device__ void go() {
    const int group = index_ / (group_rows * across_), in_group = index_ % (group_rows * across_);
    const int rows = min(group_rows, down_ - group * group_rows);
    const int cluster_row = group * group_rows + in_group % rows;
    row = (cluster_row * Tile::cluster + static_cast<int>(blockIdx.x) % Tile::cluster) * Tile::rows;
    column = in_group / rows * Tile::columns;
  }

  int down_, across_, index_;
};

// The place in a ring of stages, and the parity of the current round.
struct Ring {
  int stage = 0;
  uint32_t phase = 0;

  __device__ void advance() {
    if (++stage < Tile::stages) return;
    stage = 0;
    phase ^= 1;
  }
};

// ---- Instructions

struct MatrixCorner {
  int column, row;
};

// The box of a matrix from its corner on, into shared memory.
__device__ inline void load_box(uint32_t to, const CUtensorMap& map, const MatrixCorner& at,
                                uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(&map), "r"(at.column), "r"(at.row), "r"(barrier)
      : "memory");
}
// Into that of both thread blocks of a cluster, completing on the barriers of both.
__device__ inline void load_box_to_cluster(uint32_t to, const CUtensorMap& map,
                                           const MatrixCorner& at, uint32_t barrier) {
  constexpr uint16_t both = 3;
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(at.column), "r"(at.row), "r"(barrier), "h"(both)
      : "memory");
}

// At a barrier of a thread block of the cluster.
__device__ inline void arrive_at(uint32_t barrier, int block) {
  asm volatile(
      "{\n.reg .b32 address;\nmapa.shared::cluster.u32 address, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [address];\n}" ::"r"(barrier),
      "r"(block)
      : "memory");
}

__device__ inline void synchronize_cluster() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

using hopper::narrow_pair;

// d = a b, or d += a b if `add`, of 64 x 256 x 16; a is K-major, b is not.
#define BINADE_OUT8(d, i)                                                                     \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define BINADE_OUT32(d, i) \
  BINADE_OUT8(d, i), BINADE_OUT8(d, i + 8), BINADE_OUT8(d, i + 16), BINADE_OUT8(d, i + 24)
#define BINADE_MATMUL_64X256(type)                                                                 \
  "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\nwgmma.mma_async.sync.aligned.m64n256k16.f32." type   \
  "." type                                                                                         \
  " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,"   \
  "%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"   \
  "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,"   \
  "%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,"   \
  "%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113," \
  "%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, %128, %129, p, 1, 1, "  \
  "0, 1;\n}"
template <class T>
__device__ inline void matmul(float (&d)[128], uint64_t a, uint64_t b, int add) {
  if constexpr (std::is_same_v<T, f16>) {
    asm volatile(BINADE_MATMUL_64X256("f16")
                 : BINADE_OUT32(d, 0), BINADE_OUT32(d, 32), BINADE_OUT32(d, 64), BINADE_OUT32(d, 96)
                 : "l"(a), "l"(b), "r"(add));
  } else {
    asm volatile(BINADE_MATMUL_64X256("bf16")
                 : BINADE_OUT32(d, 0), BINADE_OUT32(d, 32), BINADE_OUT32(d, 64), BINADE_OUT32(d, 96)
                 : "l"(a), "l"(b), "r"(add));
  }
}
#undef BINADE_OUT8
#undef BINADE_OUT32
#undef BINADE_MATMUL_64X256

// ---- Loading and multiplying

// Loads the operands of all tiles. One thread.
__device__ inline void load_operands(const CUtensorMap& a, const CUtensorMap& b,
                                     const MatmulSizes& sizes, uint32_t shared, Barriers barriers) {
  using namespace hopper;
  // Each thread block of a cluster loads a part of b for both.
  constexpr int boxes = Tile::columns / Tile::box / Tile::cluster;
  const int first_box = static_cast<int>(blockIdx.x) % Tile::cluster * boxes;
  Ring ring;
  for (TileWalk walk(sizes); !walk.at_end(); walk.advance()) {
    for (int k = 0; k < sizes.k; k += Tile::depth, ring.advance()) {
      const uint32_t to = shared + ring.stage * Tile::stage_bytes, full = barriers.full(ring.stage);
      wait(barriers.empty(ring.stage), ring.phase ^ 1);
      arrive_expecting(full, Tile::stage_bytes);
      fused::load_box(to, a, {k, walk.row}, full);
#pragma unroll
      for (int i = first_box; i < first_box + boxes; ++i)
        load_box_to_cluster(to + Tile::a_bytes + i * Tile::b_box_bytes, b,
                            {walk.column + i * Tile::box, k}, full);
    }
  }
}

// The rows of a tile that a warpgroup multiplies: its upper or its lower half.
template <class T>
class Multiplier {
 public:
  __device__ Multiplier(int half, uint32_t shared, Barriers barriers)
      : half_(half), shared_(shared), barriers_(barriers) {}

  __device__ void run(const MatmulSizes& sizes) {
    using namespace hopper;
    uint32_t phase = 1;
    for (TileWalk walk(sizes); !walk.at_end(); walk.advance(), phase ^= 1) {
      float d[128];
      multiply(d, sizes.k / Tile::depth);
      wait(barriers_.results_empty(half_), phase);
      store(d);
      __syncwarp();
      if (threadIdx.x % 32 == 0) arrive(barriers_.results_full(half_));
    }
  }

 private:
  __device__ void multiply(float (&d)[128], int steps) {
    using namespace hopper;
    constexpr int k_bytes = 16 * 2, k_rows_bytes = 16 * Tile::row_bytes;  // 16 deep in a and b
    const uint64_t a = operand_at(operand(), shared_ + half_ * Tile::half_rows * Tile::row_bytes);
    const uint64_t b = operand_at(operand(Tile::b_box_bytes), shared_ + Tile::a_bytes);
    int before = 0;
    for (int step = 0; step < steps; ++step) {
      wait(barriers_.full(ring_.stage), ring_.phase);
      fence_matmuls();
      const uint32_t stage = ring_.stage * (Tile::stage_bytes / 16);
#pragma unroll
      for (int i = 0; i < Tile::depth / 16; ++i)
        matmul<T>(d, a + stage + i * (k_bytes / 16), b + stage + i * (k_rows_bytes / 16),
                  step > 0 || i > 0);
      commit_matmuls();
      if (step > 0) {
        wait_matmuls<1>();
        release(before);
      }
      before = ring_.stage;
      ring_.advance();
    }
    wait_matmuls<0>();
    hold(d);
    release(before);
  }

  // This warp has read a stage that both thread blocks load into.
  __device__ void release(int stage) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane < Tile::cluster) arrive_at(barriers_.empty(stage), lane);
  }

  // Rounds results to T, row by row. 16-byte pieces are swizzled by the row's last three bits.
  __device__ void store(const float (&d)[128]) const {
    const int warp = static_cast<int>(threadIdx.x) / 32 % 4,
              lane = static_cast<int>(threadIdx.x) % 32;
    const int row = half_ * Tile::half_rows + warp * 16 + lane % 16;
    const uint32_t to =
        shared_ + Tile::results_at + row * Tile::result_row_bytes + (lane / 16 ^ lane % 8) * 16;
#pragma unroll
    for (int i = 0; i < 128; i += 8) {
      const uint32_t x[4] = {narrow_pair<T>(d[i], d[i + 1]), narrow_pair<T>(d[i + 2], d[i + 3]),
                             narrow_pair<T>(d[i + 4], d[i + 5]),
                             narrow_pair<T>(d[i + 6], d[i + 7])};
      hopper::store_matrices(to ^ (i / 4 * 16), x);
    }
  }

  int half_;
  uint32_t shared_;
  Barriers barriers_;
  Ring ring_;
};

}  // namespace binade::backend::cuda::fused
