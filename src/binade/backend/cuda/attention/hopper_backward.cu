#include <algorithm>

#include "binade/backend/cuda/attention/hopper.h"
#include "binade/backend/cuda/attention/hopper_compute.cuh"
#include "binade/backend/cuda/attention/hopper_repair.cuh"
#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/common/tensor_map.h"
#include "binade/backend/cuda/device.h"
#include "binade/backend/cuda/kernels.h"

// A thread block of three warpgroups owns 128 keys of a head at a time and walks over the queries
// that see them: one warp loads, two warpgroups compute and add dq to f32 sums in memory, two warps
// keep the order of these additions. The thread block that adds last writes dq.
namespace binade::backend::cuda::native {
namespace {

template <class Walk, class T>
__device__ int padded_rows(const HopperArguments<T>& a) {
  return is_document_walk<Walk> ? a.documents.padded_rows : a.sizes.queries;
}

// Takes tiles of keys and copies them and their queries into shared memory. One thread.
template <class T, class Tile, class Walk>
__device__ void load_tiles(const HopperArguments<T>& a, const HopperMaps& maps, uint32_t shared,
                           BackwardBarriers barriers) {
  using Names = BackwardChannels;
  hopper::Ring<2> k, q, jobs;  // v goes to the stage of k
  const auto load = [&](int at, int tile_bytes, const CUtensorMap& map,
                        const hopper::BoxCorner& from, uint32_t full) {
    hopper::load_boxes<Tile::Dim>(shared + at, tile_bytes, map, from, full);
  };
  Walk walk(a);
  const auto next_tile = [&] {
    const BackwardJob job{atomicAdd(a.taken, 1)};
    post_job(job, shared + Tile::jobs_at, barriers, jobs);
    jobs.advance();
    return walk.go_to(job.index);
  };
  for (; next_tile(); k.advance()) {
    const hopper::BoxCorner keys{0, walk.tile * Tile::keys, walk.kv, walk.b};
    const int key_stage = k.stage * Tile::key_bytes;
    bool first = true;
    load(Tile::k_at + key_stage, Tile::key_tile, maps.k, keys,
         barriers.open(Names::keys, k, Tile::key_bytes));
    for_each_step(walk, [&](int h, int query_tile) {
      const hopper::BoxCorner queries{0, query_tile * Tile::queries, h, walk.b};
      const int query_stage = q.stage * Tile::query_bytes;
      const int64_t row =
          (int64_t{walk.b} * a.sizes.heads + h) * padded_rows<Walk>(a) + queries.row;
      const uint32_t full =
          barriers.open(Names::queries, q, Tile::query_bytes + Tile::statistic_bytes);
      load(Tile::q_at + query_stage, Tile::query_tile, maps.q, queries, full);
      hopper::load_bulk(shared + Tile::statistics_at + q.stage * Tile::statistic_bytes,
                        a.statistics + row, Tile::statistic_bytes, full);
      if (first)
        load(Tile::v_at + key_stage, Tile::key_tile, maps.v, keys,
             barriers.open(Names::values, k, Tile::key_bytes));
      first = false;
      load(Tile::dout_at + query_stage, Tile::query_tile, maps.dout, queries,
           barriers.open(Names::douts, q, Tile::query_bytes));
      q.advance();
    });
  }
}

// Says when it is the turn of a step to add to dq. One thread. Tiles of keys add in descending
// order, in which thread blocks take them: the first unfinished one never waits, so all finish. The
// thread block that adds before this one is a step ahead, so waits are short.
template <class T, class Tile, class Walk>
__device__ void await_turns(const HopperArguments<T>& a, uint32_t shared,
                            BackwardBarriers barriers) {
  using namespace hopper;
  uint32_t phase = 1;  // of the step before; there is none before the first
  Walk walk(a);
  IndexReader<Tile> indices(shared, barriers);
  while (walk.go_to(indices.next([](uint32_t barrier) { arrive(barrier); }))) {
    for_each_step(walk, [&](int h, int q) {
      const DqTile tile = walk.dq_tile(h, q);
      if (tile.turn > 0) wait_turn(a.turns + tile.index, tile.turn);
      wait(barriers.empty(BackwardChannels::turns), phase);
      phase ^= 1;
      arrive(barriers.full(BackwardChannels::turns));
    });
  }
}

// Ends the turns of steps that have added. One thread, and another than the one above: a turn ends
// when memory has the sums, and the next step need not wait for that.
template <class T, class Tile, class Walk>
__device__ void end_turns(const HopperArguments<T>& a, uint32_t shared, BackwardBarriers barriers) {
  using namespace hopper;
  uint32_t phase = 0;
  Walk walk(a);
  IndexReader<Tile> indices(shared, barriers);
  arrive(barriers.full(BackwardChannels::turns));
  while (walk.go_to(indices.next([](uint32_t barrier) { arrive(barrier); }))) {
    for_each_step(walk, [&](int h, int q) {
      const DqTile tile = walk.dq_tile(h, q);
      wait(barriers.empty(BackwardChannels::turns), phase);
      phase ^= 1;
      arrive(barriers.full(BackwardChannels::turns));
      if (!tile.last) end_turn(a.turns + tile.index, tile.turn);
    });
  }
}

template <class T, class Tile, class Walk, bool Sums>
__global__ void __launch_bounds__(Tile::threads, 1)
    backward_kernel(const __grid_constant__ HopperArguments<T> a,
                    const __grid_constant__ HopperMaps maps) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char memory[];
  const uint32_t shared = hopper::shared_address(memory);
  const BackwardBarriers barriers(shared + Tile::barriers_at);
  run_warpgroups<Tile>(
      barriers,
      [&] {
        if (threadIdx.x == 0) load_tiles<T, Tile, Walk>(a, maps, shared, barriers);
        if (threadIdx.x == warp_size) await_turns<T, Tile, Walk>(a, shared, barriers);
        if (threadIdx.x == 2 * warp_size) end_turns<T, Tile, Walk>(a, shared, barriers);
      },
      [&] { HopperCompute<T, Tile, Walk, Sums>(a, shared, barriers).run(); });
#endif
}

// Which tiles meet; no suspects. Called by at least as many threads a head as it has rows.
template <class Tile>
__device__ void prepare_documents(const DocumentTiles& to, const Sizes& sizes, int h, int thread) {
  if (h == 0 && thread < to.key_tiles)
    to.queries_of_keys[thread] = query_tiles_of<Tile::queries, Tile::keys>(to.spans, thread);
  if (h == 0 && thread < to.query_tiles)
    to.keys_of_queries[thread] = key_tiles_of<Tile::queries, Tile::keys>(to.spans, thread).some;
  const int groups = to.padded_rows / 16;
  if (thread >= groups) return;
  to.suspects[int64_t{h} * groups + thread] = 0;
  if (h < sizes.kv_heads) to.suspects[int64_t{sizes.heads + h} * groups + thread] = 0;
}

// The statistics of queries, delta being the sums of dout * out over rows; no turns and tiles
// taken. The grid is [batch, blocks of queries, heads]: no divisions, and blocks that run together
// read whole rows of packed heads.
template <class T, class Tile, class Walk>
__global__ void __launch_bounds__(256)
    prepare_kernel(Heads<T> dout, Heads<T> out, const float* lse, HopperArguments<T> a,
                   QueryStatistics* statistics) {
  constexpr int lanes = Tile::Dim / 8;  // per row
  constexpr bool documents = is_document_walk<Walk>;
  const int b = static_cast<int>(blockIdx.z), h = static_cast<int>(blockIdx.x);
  const int thread = static_cast<int>(blockIdx.y * 256 + threadIdx.x);
  const int at = thread / lanes, column = thread % lanes * 8;
  const int64_t head = int64_t{b} * a.sizes.heads + h;
  const int tiles = Walk(a).query_tiles();
  if (thread < tiles) a.turns[head * tiles + thread] = 0;
  if (head == 0 && thread == 0) *a.taken = 0;
  if constexpr (documents) prepare_documents<Tile>(a.documents, a.sizes, h, thread);
  const bool inside = !documents || at < a.sizes.queries;
  Pack<T, 8> x{}, y{};
  if (inside) {
    x = load_pack<T, 8>(dout.at(b, h) + at * dout.row + column);
    y = load_pack<T, 8>(out.at(b, h) + at * out.row + column);
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += static_cast<float>(x[i]) * static_cast<float>(y[i]);
#pragma unroll
  for (int i = lanes / 2; i > 0; i /= 2) sum += __shfl_xor_sync(~0u, sum, i);
  if (column != 0) return;
  const float log_sum = inside ? lse[head * a.sizes.queries + at] : 0;
  statistics[head * padded_rows<Walk>(a) + at] = {split(-log_sum / a.scale), split(-sum)};
}

// False if the driver refuses.
template <class Tile>
bool encode(HopperMaps& maps, const AttentionBackward& call) {
  return encode_boxes(maps.q, call.q, Tile::queries) &&
         encode_boxes(maps.dout, call.dout, Tile::queries) &&
         encode_boxes(maps.k, call.k, Tile::keys) && encode_boxes(maps.v, call.v, Tile::keys);
}

bool supports_backward(const AttentionBackward& call) {
  const TensorView &q = call.q, &k = call.k;
  if (!has_hopper_kernels()) return false;
  if (q.dtype != DType::f16 && q.dtype != DType::bf16) return false;
  if (q.shape[3] != 64 && q.shape[3] != 128) return false;
  if (q.numel() == 0 || q.shape[2] != k.shape[2]) return false;
  if (call.documents.present() ? q.shape[0] != 1 : q.shape[2] % 128 != 0) return false;
  // The second and third axis of a grid have at most 65535 blocks, here of 16 queries or more.
  if (q.shape[0] > 65535 || q.shape[2] > 65535 * 16) return false;
  if (!call.lse.is_dense()) return false;
  if (!are_packed_heads(q.dtype,
                        {&call.dout, &q, &k, &call.v, &call.out, &call.dq, &call.dk, &call.dv}))
    return false;
  HopperMaps maps;
  return q.shape[3] == 64 ? encode<BackwardTile<64>>(maps, call)
                          : encode<BackwardTile<128>>(maps, call);
}

// Memory that the kernels share.
struct BackwardMemory {
  Tensor sums, statistics, counts, column_sums, tables, suspects;
};

template <class Tile>
DocumentTiles document_tiles(const AttentionBackward& call, const Sizes& sizes,
                             BackwardMemory& memory) {
  const int key_tiles = ceil_div(sizes.keys, Tile::keys);
  const int query_tiles = ceil_div(sizes.queries, Tile::queries);
  const int rows = key_tiles * Tile::keys;
  memory.tables = workspace({4 * key_tiles + 2 * query_tiles}, DType::i32);
  memory.suspects = workspace({(sizes.heads + sizes.kv_heads) * rows / 16}, DType::i32);
  int* const tables = static_cast<int*>(memory.tables.raw_data());
  return {.spans = RowSpans(call.documents, sizes),
          .key_tiles = key_tiles,
          .query_tiles = query_tiles,
          .padded_rows = rows,
          .queries_of_keys = reinterpret_cast<TileSpan*>(tables),
          .keys_of_queries = reinterpret_cast<Span*>(tables + 4 * key_tiles),
          .suspects = static_cast<int*>(memory.suspects.raw_data())};
}

template <class T, class Tile, class Walk, bool Sums>
void run_backward(const AttentionBackward& call) {
  HopperMaps maps;
  if (!encode<Tile>(maps, call))
    fail("attention", {.argument = "dout, q, k, v", .found = refused_tensors});
  const Sizes sizes(call.q, call.k, call.causal);
  const int64_t tiles = sizes.batch * ceil_div(sizes.keys, Tile::keys);  // of keys
  const int64_t rows = tiles * Tile::keys * sizes.heads;
  const int64_t channels = (sizes.heads + 2 * sizes.kv_heads) * Tile::Dim;
  BackwardMemory memory{
      .sums = workspace({rows, Tile::Dim}, DType::f32),
      .statistics = workspace({rows, sizeof(QueryStatistics) / sizeof(float)}, DType::f32),
      .counts = workspace({rows / Tile::queries + 1}, DType::i32)};
  if (Sums) memory.column_sums = workspace({tiles * Tile::warps, channels}, DType::f32);
  QueryStatistics* const of_queries = static_cast<QueryStatistics*>(memory.statistics.raw_data());
  int* const turns = static_cast<int*>(memory.counts.raw_data());
  HopperArguments<T> arguments{
      .dq = Heads<T>(call.dq),
      .dk = Heads<T>(call.dk),
      .dv = Heads<T>(call.dv),
      .sizes = sizes,
      .scale = static_cast<float>(call.scale),
      .statistics = of_queries,
      .sums = static_cast<float*>(memory.sums.raw_data()),
      .turns = turns,
      .taken = turns + rows / Tile::queries,
      .column_sums = Sums ? static_cast<float*>(memory.column_sums.raw_data()) : nullptr,
      .documents = {}};
  if (is_document_walk<Walk>) arguments.documents = document_tiles<Tile>(call, sizes, memory);
  const dim3 grid(static_cast<unsigned>(sizes.heads),
                  static_cast<unsigned>(tiles / sizes.batch * Tile::keys / (256 / (Tile::Dim / 8))),
                  static_cast<unsigned>(sizes.batch));
  launch(prepare_kernel<T, Tile, Walk>, grid, 256, 0, Heads<T>(call.dout), Heads<T>(call.out),
         call.lse.as<float>(), arguments, of_queries);
  const int64_t blocks = std::min<int64_t>(tiles * sizes.kv_heads, properties().multiprocessors);
  launch(backward_kernel<T, Tile, Walk, Sums>, static_cast<unsigned>(blocks), Tile::threads,
         Tile::shared_bytes, arguments, maps);
  if (is_document_walk<Walk>)
    repair_backward<T, Tile::Dim>(call, arguments.documents.spans, arguments.documents.suspects);
  if (Sums) {
    TensorView to = call.sums;
    to.shape = {1, channels};
    to.strides = {channels, 1};
    reduce_kernels.reduce(Reduction::sum, memory.column_sums, {.view = to});
  }
}

template <class T, template <class> class Walk>
void run_backward(const AttentionBackward& call) {
  using Narrow = BackwardTile<64>;
  using Wide = BackwardTile<128>;
  if (call.q.shape[3] == 128) return run_backward<T, Wide, Walk<Wide>, false>(call);
  call.sums.present ? run_backward<T, Narrow, Walk<Narrow>, true>(call)
                    : run_backward<T, Narrow, Walk<Narrow>, false>(call);
}

template <class T>
void run_backward(const AttentionBackward& call) {
  call.documents.present() ? run_backward<T, DocumentWalk>(call) : run_backward<T, KeyWalk>(call);
}

void run_any_backward(const AttentionBackward& call) {
  call.q.dtype == DType::f16 ? run_backward<f16>(call) : run_backward<bf16>(call);
}

}  // namespace

bool sums_gradients_hopper(const AttentionBackward& call) {
  return supports_backward(call) && call.q.shape[3] == 64;
}

const FusedKernel<AttentionBackward> hopper_backward{.supports = supports_backward,
                                                     .run = run_any_backward};

}  // namespace binade::backend::cuda::native
