#include <algorithm>

#include "binade/backend/cuda/attention/hopper.h"
#include "binade/backend/cuda/attention/hopper_forward_tile.cuh"
#include "binade/backend/cuda/attention/hopper_repair.cuh"
#include "binade/backend/cuda/attention/hopper_rows.cuh"
#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/common/fast_math.cuh"
#include "binade/backend/cuda/common/tensor_map.h"
#include "binade/backend/cuda/device.h"
#include "binade/base/error.h"

// Attention's forward within documents. A thread block of three warpgroups takes 128 queries of a
// head at a time and walks over the keys that they see: one thread loads, two warpgroups compute 64
// queries each.
namespace binade::backend::cuda::native {
namespace {

// Takes tiles of queries and copies them and their keys and values into shared memory. One thread.
template <class T, class Tile>
__device__ void load_forward_tiles(const DocumentsForwardArguments<T>& a, const ForwardMaps& maps,
                                   uint32_t shared, ForwardBarriers<Tile> barriers) {
  using Names = ForwardChannels<Tile>;
  hopper::Ring<2> jobs;  // that of q, too
  hopper::Ring<Tile::stages> kv;
  const auto load = [&](int at, const CUtensorMap& map, const hopper::BoxCorner& from,
                        uint32_t full) {
    hopper::load_boxes<Tile::Dim>(shared + at, Tile::tile_bytes, map, from, full);
  };
  const auto take = [&] { return ForwardJob::at(a, atomicAdd(a.taken, 1)); };
  ForwardJob job = take();
  while (true) {
    post_job(job, shared + Tile::jobs_at, barriers, jobs);
    if (!job.exists()) return;
    const ForwardJob next = take();  // while this one's copies are on their way
    load(Tile::q_at + jobs.stage * Tile::bytes, maps.q, {0, job.tile * Tile::queries, job.h, 0},
         barriers.open(Names::queries, jobs, Tile::bytes));
    const int head = job.h / a.sizes.group();
    for (int tile = job.keys.some.first; tile < job.keys.some.end; ++tile) {
      const hopper::BoxCorner keys{0, tile * Tile::keys, head, 0};
      const int to = kv.stage * Tile::bytes;
      load(Tile::k_at + to, maps.k, keys, barriers.open(Names::keys, kv, Tile::bytes));
      load(Tile::v_at + to, maps.v, keys, barriers.open(Names::values, kv, Tile::bytes));
      kv.advance();
    }
    jobs.advance();
    job = next;
  }
}

// One of two warpgroups: it owns 64 queries of each tile. Probabilities are register operands of
// out += P v.
template <class T, class Tile>
class ForwardCompute {
 public:
  __device__ ForwardCompute(const DocumentsForwardArguments<T>& a, uint32_t shared,
                            ForwardBarriers<Tile> barriers)
      : a_(a),
        shared_(shared),
        barriers_(barriers),
        factor_(a.scale * log2_e),
        group_(static_cast<int>(threadIdx.x) / 128 - 1),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  // The scores of a tile of keys are computed beside the values of the one before.
  __device__ void run() {
    using namespace hopper;
    while (next_job()) {
      float out[columns], s[scores];
      uint32_t p[scores / 2];
      Rows rows = first_rows();
      barriers_.wait_full(Names::queries, jobs_);
      barriers_.wait_full(Names::keys, k_);
      score_matmul(s);
      wait_matmuls<0>();
      hold(s);
      release_keys();
      update(s, rows, job_.keys.some.first);
      narrow(s, p);
      for (int tile = job_.keys.some.first + 1; tile < job_.keys.some.end; ++tile) {
        barriers_.wait_full(Names::keys, k_);
        score_matmul(s);
        barriers_.wait_full(Names::values, v_);
        value_matmul(out, p, tile > job_.keys.some.first + 1);
        wait_matmuls<1>();
        hold(s);
        release_keys();
        update(s, rows, tile);
        wait_matmuls<0>();
        hold(out);
        release_values();
        rescale(out, rows);
        narrow(s, p);
      }
      barriers_.wait_full(Names::values, v_);
      value_matmul(out, p, job_.keys.some.end > job_.keys.some.first + 1);
      wait_matmuls<0>();
      hold(out);
      release_values();
      arrive_warp(barriers_.empty(Names::queries, jobs_.stage), lane_);
      finish(out, rows);
      jobs_.advance();
    }
  }

 private:
  using Names = ForwardChannels<Tile>;
  static constexpr int scores = Tile::keys / 2, columns = Tile::Dim / 2;

  // The two rows of a thread.
  struct Rows {
    int first;                 // of the queries
    Span seen[2];              // keys
    float largest[2], sum[2];  // of scores; of their exponentials, this thread's part
    float shrink[2];           // what earlier exponentials are worth now
  };

  __device__ bool next_job() {
    read_job(job_, shared_ + Tile::jobs_at, barriers_, jobs_,
             [](uint32_t barrier) { hopper::arrive(barrier); });
    return job_.exists();
  }
  __device__ void release_keys() {
    hopper::arrive_warp(barriers_.empty(Names::keys, k_.stage), lane_);
    k_.advance();
  }
  __device__ void release_values() {
    hopper::arrive_warp(barriers_.empty(Names::values, v_.stage), lane_);
    v_.advance();
  }

  __device__ Rows first_rows() const {
    Rows rows;
    rows.first = job_.tile * Tile::queries + group_ * 64 +
                 static_cast<int>(threadIdx.x) / 32 % 4 * 16 + lane_ / 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      rows.seen[i] = a_.spans.keys(min(rows.first + 8 * i, a_.spans.rows - 1));
      rows.largest[i] = -INFINITY;
      rows.sum[i] = 0;
    }
    return rows;
  }

  // The warpgroup's queries times a tile of keys.
  __device__ void score_matmul(float (&s)[scores]) const {
    hopper::fence_matmuls();
    const uint64_t a =
        hopper::operand_at(hopper::operand(), shared_ + Tile::q_at + jobs_.stage * Tile::bytes +
                                                  group_ * 64 * Tile::row_bytes);
    const uint64_t b =
        hopper::operand_at(hopper::operand(), shared_ + Tile::k_at + k_.stage * Tile::bytes);
#pragma unroll
    for (int i = 0; i < Tile::Dim / 16; ++i) {
      const int at = (i / 4 * Tile::tile_bytes + i % 4 * 32) / 16;
      hopper::matmul<T, 0, 0>(s, a + at, b + at, i > 0);
    }
    hopper::commit_matmuls();
  }

  // out (+)= p times a tile of values.
  __device__ void value_matmul(float (&out)[columns], const uint32_t (&p)[scores / 2],
                               bool add) const {
    constexpr int sixteen_rows = 16 * Tile::row_bytes / 16;  // in units of operands' addresses
    hopper::fence_matmuls();
    const uint64_t b = hopper::operand_at(hopper::operand(Tile::tile_bytes),
                                          shared_ + Tile::v_at + v_.stage * Tile::bytes);
#pragma unroll
    for (int i = 0; i < Tile::keys / 16; ++i)
      hopper::matmul<T, 1>(out, p + 4 * i, b + i * sixteen_rows, i > 0 || add);
    hopper::commit_matmuls();
  }

  // Scores of a tile of keys become exponentials relative to the largest score so far.
  __device__ void update(float (&s)[scores], Rows& rows, int tile) const {
    if (tile < job_.keys.full.first || tile >= job_.keys.full.end) {
      const int key = tile * Tile::keys + lane_ % 4 * 2;
      hide_outside<0>(s, {rows.seen[0].first - key, rows.seen[0].end - key}, -INFINITY);
      hide_outside<1>(s, {rows.seen[1].first - key, rows.seen[1].end - key}, -INFINITY);
    }
    float largest[2] = {rows.largest[0], rows.largest[1]};
#pragma unroll
    for (int i = 0; i < scores; ++i) largest[i / 2 % 2] = fmaxf(largest[i / 2 % 2], s[i]);
    float base[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      largest[r] = fmaxf(largest[r], __shfl_xor_sync(~0u, largest[r], 1));
      largest[r] = fmaxf(largest[r], __shfl_xor_sync(~0u, largest[r], 2));
      // A row may have seen no key yet.
      base[r] = largest[r] == -INFINITY ? 0 : largest[r] * factor_;
      rows.shrink[r] = fast_exp2(fmaf(rows.largest[r], factor_, -base[r]));
      rows.largest[r] = largest[r];
      rows.sum[r] *= rows.shrink[r];
    }
#pragma unroll
    for (int i = 0; i < scores; ++i) {
      s[i] = fast_exp2(fmaf(s[i], factor_, -base[i / 2 % 2]));
      rows.sum[i / 2 % 2] += s[i];
    }
  }
  __device__ static void rescale(float (&out)[columns], const Rows& rows) {
#pragma unroll
    for (int i = 0; i < columns; ++i) out[i] *= rows.shrink[i / 2 % 2];
  }
  __device__ static void narrow(const float (&s)[scores], uint32_t (&p)[scores / 2]) {
#pragma unroll
    for (int i = 0; i < scores; i += 2) p[i / 2] = hopper::narrow_pair<T>(s[i], s[i + 1]);
  }

  __device__ void finish(const float (&out)[columns], Rows& rows) const {
    float factors[2];
    const int left = a_.spans.rows - rows.first;  // rows from this one on
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = rows.sum[r];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      factors[r] = 1 / sum;
      if (lane_ % 4 == 0 && 8 * r < left)
        a_.lse[int64_t{job_.h} * a_.spans.rows + rows.first + 8 * r] =
            rows.largest[r] * a_.scale + logf(sum);
    }
    store_rows(out, a_.out.at(0, job_.h) + rows.first * a_.out.row, a_.out.row, factors, lane_,
               left);
    if (!warp_is_finite(out) && lane_ == 0)
      a_.suspects[int64_t{job_.h} * a_.groups + rows.first / 16] = 1;
  }

  const DocumentsForwardArguments<T>& a_;
  const uint32_t shared_;
  const ForwardBarriers<Tile> barriers_;
  const float factor_;  // of the scores, as powers of two
  const int group_, lane_;
  ForwardJob job_;
  hopper::Ring<2> jobs_;  // that of q, too
  hopper::Ring<Tile::stages> k_, v_;
};

template <class T, class Tile>
__global__ void __launch_bounds__(Tile::threads, 1)
    documents_forward_kernel(const __grid_constant__ DocumentsForwardArguments<T> a,
                             const __grid_constant__ ForwardMaps maps) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char memory[];
  const uint32_t shared = hopper::shared_address(memory);
  const ForwardBarriers<Tile> barriers(shared + Tile::barriers_at);
  run_warpgroups<Tile>(
      barriers,
      [&] {
        if (threadIdx.x == 0) load_forward_tiles<T, Tile>(a, maps, shared, barriers);
      },
      [&] { ForwardCompute<T, Tile>(a, shared, barriers).run(); });
#endif
}

// Of heads of any size: tiles have as many queries as keys. False if the driver refuses.
bool encode(ForwardMaps& maps, const AttentionForward& call) {
  constexpr int rows = ForwardTile<64>::queries;
  static_assert(ForwardTile<128>::queries == rows && ForwardTile<128>::keys == rows);
  return encode_boxes(maps.q, call.q, rows) && encode_boxes(maps.k, call.k, rows) &&
         encode_boxes(maps.v, call.v, rows);
}

bool supports_forward(const AttentionForward& call) {
  const TensorView &q = call.q, &k = call.k;
  if (!call.documents.present() || !attends_documents_hopper(q.dtype, q.shape[3])) return false;
  if (!(call.scale > 0) || q.numel() == 0 || q.shape[0] != 1 || q.shape[2] != k.shape[2])
    return false;
  ForwardMaps maps;
  return call.lse.is_dense() && are_packed_heads(q.dtype, {&q, &k, &call.v, &call.out}) &&
         encode(maps, call);
}

template <class T, class Tile>
void run_forward(const AttentionForward& call) {
  ForwardMaps maps;
  if (!encode(maps, call)) fail("attention", {.argument = "q, k, v", .found = refused_tensors});
  const Sizes sizes(call.q, call.k, call.causal);
  const int tiles = ceil_div(sizes.queries, Tile::queries), groups = tiles * Tile::queries / 16;
  const int64_t marks = int64_t{sizes.heads} * groups;
  const Tensor counts = workspace({marks + 1}, DType::i32);
  check(
      cudaMemsetAsync(counts.raw_data(), 0, static_cast<size_t>(marks + 1) * sizeof(int), stream()),
      "cudaMemsetAsync");
  int* const suspects = static_cast<int*>(counts.raw_data());
  const DocumentsForwardArguments<T> arguments{.out = Heads<T>(call.out),
                                               .lse = call.lse.as<float>(),
                                               .sizes = sizes,
                                               .spans = RowSpans(call.documents, sizes),
                                               .query_tiles = tiles,
                                               .groups = groups,
                                               .scale = static_cast<float>(call.scale),
                                               .taken = suspects + marks,
                                               .suspects = suspects};
  const int64_t blocks =
      std::min<int64_t>(int64_t{tiles} * sizes.heads, properties().multiprocessors);
  launch(documents_forward_kernel<T, Tile>, static_cast<unsigned>(blocks), Tile::threads,
         Tile::shared_bytes, arguments, maps);
  repair_forward<T, Tile::Dim>(call, arguments.spans, suspects);
}

template <class T>
void run_forward(const AttentionForward& call) {
  call.q.shape[3] == 128 ? run_forward<T, ForwardTile<128>>(call)
                         : run_forward<T, ForwardTile<64>>(call);
}

void run_any_forward(const AttentionForward& call) {
  call.q.dtype == DType::f16 ? run_forward<f16>(call) : run_forward<bf16>(call);
}

}  // namespace

bool attends_documents_hopper(DType dtype, int64_t dim) {
  return has_hopper_kernels() && (dtype == DType::f16 || dtype == DType::bf16) &&
         (dim == 64 || dim == 128);
}

const FusedKernel<AttentionForward> hopper_forward{.supports = supports_forward,
                                                   .run = run_any_forward};

}  // namespace binade::backend::cuda::native
