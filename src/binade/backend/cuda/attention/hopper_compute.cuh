#pragma once

#include "binade/backend/cuda/attention/hopper_backward_tile.cuh"
#include "binade/backend/cuda/attention/hopper_column_sums.cuh"
#include "binade/backend/cuda/attention/hopper_rows.cuh"
#include "binade/backend/cuda/common/fast_math.cuh"

// The computing warpgroups of Hopper's attention backward.
namespace binade::backend::cuda::native {

using hopper::narrow_pair;
using hopper::widen_pair;

// Of memory that other thread blocks wrote.
__device__ inline float4 load_four(const float* x) {
  float4 y;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(y.x), "=f"(y.y), "=f"(y.z), "=f"(y.w)
               : "l"(x)
               : "memory");
  return y;
}

// One of two warpgroups: it owns 64 keys of each tile. Scores are computed transposed, [keys,
// queries], so that probabilities P and the gradients of scores dS are register operands of
// dv += P^T dout and dk += dS^T q; dS goes through shared memory for dq = dS k. If `Sums`, it also
// sums the columns of dq, dk and dv.
template <class T, class Tile, class Walk, bool Sums>
class HopperCompute {
 public:
  __device__ HopperCompute(const HopperArguments<T>& a, uint32_t shared, BackwardBarriers barriers)
      : a_(a),
        shared_(shared),
        barriers_(barriers),
        indices_(shared, barriers),
        group_(static_cast<int>(threadIdx.x) / 128 - 1),
        warp_(static_cast<int>(threadIdx.x) / 32 % 4),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  // Matmuls of a step overlap those of its neighbors: dk is computed beside the next scores, dq
  // beside the next dv. The first dq means nothing: computing it keeps branches away from matmuls.
  __device__ void run() {
    using namespace hopper;
    Walk walk(a_);
    const auto next_tile = [&] {
      return walk.go_to(indices_.next([&](uint32_t barrier) { arrive_warp(barrier, lane_); }));
    };
    bool more = next_tile(), first = true;  // first: of the steps of a tile of keys
    if (!more) return;
    int h = walk.first_head(), query_tile = walk.first_query_tile(), left = steps_of(walk);
    float dk[sums], dv[sums];
    barriers_.wait_full(Names::keys, k_);
    for (bool started = false; more; started = true) {
      float s[scores], dp[scores], dq[32];
      uint32_t p[pairs], ds[pairs];
      barriers_.wait_full(Names::queries, q_);
      score_matmul(s, k_address(), q_address(), 0);
      wait_matmuls<1>();
      if (started) arrive_warp(barriers_.empty(Names::queries, q_.stage ^ 1), lane_);
      if (first) barriers_.wait_full(Names::values, k_);
      barriers_.wait_full(Names::douts, q_);
      score_matmul(dp, v_address(), dout_address(), 1);
      wait_matmuls<1>();
      hold(s);
      probabilities(s, walk, query_tile, p);
      key_matmul(dv, p, dout_address(), !first);
      if (started) wait_gradients();
      query_matmul(dq, first ? k_.stage ^ 1 : k_.stage);
      wait_matmuls<2>();
      hold(dp);
      if constexpr (documents) hide(dp, walk, query_tile, 0);  // 0 * NaN would not be 0
      if (left == 1) arrive_warp(barriers_.empty(Names::values, k_.stage), lane_);
      if constexpr (Tile::Dim == 64) {
        score_gradients<0, scores>(dp, p, ds);
        store_gradients(ds, started);
        key_matmul(dk, ds, q_address(), !first);
      } else {  // half of them are multiplied while the others are computed
        score_gradients<0, scores / 2>(dp, p, ds);
        key_matmuls<0, Tile::queries / 2>(dk, ds, q_address(), !first);
        score_gradients<scores / 2, scores>(dp, p, ds);
        key_matmuls<Tile::queries / 2, Tile::queries>(dk, ds, q_address(), true);
        commit_matmuls();
        store_gradients(ds, started);
      }
      wait_matmuls<1>();
      hold(dq);
      arrive_warp(barriers_.empty(Names::gradients), lane_);
      arrive_warp(barriers_.empty(Names::douts, q_.stage), lane_);
      if (first && started) arrive_warp(barriers_.empty(Names::keys, k_.stage ^ 1), lane_);
      if (started) add_part(dq);
      part_ = walk.dq_tile(h, query_tile);
      if (left == 1) {
        store_keys(dv, a_.dv, walk, 1, a_.sizes.kv_heads);  // beside the matmul of dk
        wait_matmuls<0>();
        store_keys(dk, a_.dk, walk, a_.scale, 0);
      }
      q_.advance();
      first = --left == 0;
      if (first) {
        more = next_tile();
        k_.advance();
        h = walk.first_head();
        query_tile = walk.first_query_tile();
        left = steps_of(walk);
        if (more) barriers_.wait_full(Names::keys, k_);
      } else if (++query_tile == walk.end_query_tile()) {
        query_tile = walk.first_query_tile();
        ++h;
      }
    }
    last_part();
  }

 private:
  using Names = BackwardChannels;
  static constexpr int scores = Tile::queries / 2, pairs = scores / 2, sums = Tile::Dim / 2;
  static constexpr bool documents = is_document_walk<Walk>;
  static constexpr bool by_query = Tile::queries == 128;  // else warpgroups divide dq's columns
  static constexpr int sixteen_rows = 16 * Tile::row_bytes / 16;  // in units of operands' addresses

  __device__ uint32_t k_address(int stage) const {
    return shared_ + Tile::k_at + stage * Tile::key_bytes;
  }
  __device__ uint32_t k_address() const { return k_address(k_.stage); }
  __device__ uint32_t v_address() const {
    return shared_ + Tile::v_at + k_.stage * Tile::key_bytes;
  }
  __device__ uint32_t q_address() const {
    return shared_ + Tile::q_at + q_.stage * Tile::query_bytes;
  }
  __device__ uint32_t dout_address() const {
    return shared_ + Tile::dout_at + q_.stage * Tile::query_bytes;
  }

  // x = the warpgroup's rows of a tile of keys times all rows of a tile of queries, plus a
  // statistic of each query: 0 for minus_lse, 1 for minus_delta. A matmul with ones adds its three
  // parts, which takes fewer instructions than to load and add it.
  __device__ void score_matmul(float (&x)[scores], uint32_t keys, uint32_t queries,
                               int statistic) const {
    hopper::fence_matmuls();
    const int pair = lane_ % 4 - 2 * statistic;  // of columns; the third part has a zero beside it
    const uint32_t one = 0x3f80, ones = pair == 0 ? one | one << 16 : pair == 1 ? one : 0;
    const uint32_t rows[] = {ones, ones, 0, 0};
    hopper::matmul<bf16, 0>(
        x, rows,
        hopper::operand_at(hopper::narrow_operand(),
                           shared_ + Tile::statistics_at + q_.stage * Tile::statistic_bytes),
        0);
    const uint64_t a = hopper::operand_at(hopper::operand(), keys + group_ * 64 * Tile::row_bytes);
    const uint64_t b = hopper::operand_at(hopper::operand(), queries);
#pragma unroll
    for (int i = 0; i < Tile::Dim / 16; ++i) {
      const int column = i % 4 * 32;
      hopper::matmul<T, 0, 0>(x, a + (i / 4 * Tile::key_tile + column) / 16,
                              b + (i / 4 * Tile::query_tile + column) / 16, 1);
    }
    hopper::commit_matmuls();
  }

  // x (+)= the pairs, transposed scores, times a tile of queries, or some of its rows.
  __device__ void key_matmul(float (&x)[sums], const uint32_t (&scores)[pairs], uint32_t queries,
                             bool add) const {
    key_matmuls<0, Tile::queries>(x, scores, queries, add);
    hopper::commit_matmuls();
  }
  template <int From, int To>
  __device__ void key_matmuls(float (&x)[sums], const uint32_t (&scores)[pairs], uint32_t queries,
                              bool add) const {
    hopper::fence_matmuls();
    const uint64_t b = hopper::operand_at(hopper::operand(Tile::query_tile), queries);
#pragma unroll
    for (int i = From / 16; i < To / 16; ++i)
      hopper::matmul<T, 1>(x, scores + 4 * i, b + i * sixteen_rows, i > From / 16 || add);
  }

  // dq of the step before: 64 queries and 64 columns.
  __device__ void query_matmul(float (&x)[32], int k_stage) const {
    hopper::fence_matmuls();
    const uint64_t a = hopper::operand_at(
        hopper::operand(), shared_ + Tile::gradient_at + (q_.stage ^ 1) * Tile::gradient_bytes +
                               (by_query ? group_ * Tile::key_tile : 0));
    const uint64_t b = hopper::operand_at(
        hopper::operand(), k_address(k_stage) + (by_query ? 0 : group_ * Tile::key_tile));
#pragma unroll
    for (int i = 0; i < Tile::keys / 16; ++i)
      hopper::matmul<T, 1, 1>(x, a + i * sixteen_rows, b + i * sixteen_rows, i > 0);
    hopper::commit_matmuls();
  }

  // Sets what the mask hides.
  __device__ void hide(float (&x)[scores], const Walk& walk, int query_tile, float hidden) const {
    const int key = walk.tile * Tile::keys, query = query_tile * Tile::queries;
    if constexpr (documents) {
      if (!walk.hides(query_tile)) return;
      const int row = key + group_ * 64 + first_row(), column = query + lane_ % 4 * 2;
      hide_outside<0>(x, seen_from(row, column), hidden);
      hide_outside<1>(x, seen_from(row + 8, column), hidden);
    } else if (a_.sizes.causal && query < key + Tile::keys) {
      const int distance = key + group_ * 64 + warp_ * 16 + lane_ / 4 - query - lane_ % 4 * 2;
#pragma unroll
      for (int i = 0; i < scores; ++i)
        if (distance + i / 2 % 2 * 8 > i / 4 * 8 + i % 2) x[i] = hidden;
    }
  }
  // The queries that see a key, relative to `query`.
  __device__ Span seen_from(int key, int query) const {
    const RowSpans& spans = a_.documents.spans;
    if (key >= spans.rows) return {0, 0};
    const Span span = spans.queries(key);
    return {span.first - query, span.end - query};
  }

  // p = exp(scale * s)
  __device__ void probabilities(float (&s)[scores], const Walk& walk, int query_tile,
                                uint32_t (&p)[pairs]) const {
    hide(s, walk, query_tile, -INFINITY);
    const float factor = a_.scale * log2_e;
#pragma unroll
    for (int i = 0; i < scores; i += 2)
      p[i / 2] = narrow_pair<T>(fast_exp2(s[i] * factor), fast_exp2(s[i + 1] * factor));
  }

  // ds = p * dp, of these of the thread's elements
  template <int From, int To>
  __device__ void score_gradients(const float (&dp)[scores], const uint32_t (&p)[pairs],
                                  uint32_t (&ds)[pairs]) const {
#pragma unroll
    for (int i = From; i < To; i += 2) {
      const float2 wide = widen_pair<T>(p[i / 2]);
      ds[i / 2] = narrow_pair<T>(wide.x * dp[i], wide.y * dp[i + 1]);
    }
  }

  // dS^T as tiles [keys, 64 queries] for the matmuls of both warpgroups to read.
  __device__ void store_gradients(const uint32_t (&ds)[pairs], bool started) {
    if (started) hopper::wait(barriers_.empty(Names::gradients), phase_before());
    const int row = group_ * 64 + warp_ * 16 + lane_ % 16, upper = lane_ / 16;
    const uint32_t to = shared_ + Tile::gradient_at + q_.stage * Tile::gradient_bytes +
                        row * Tile::row_bytes + (upper ^ row % 8) * 16;
#pragma unroll
    for (int i = 0; i < Tile::queries / 16; ++i)
      hopper::store_matrices((to ^ i % 4 * 32) + i / 4 * Tile::key_tile, ds + 4 * i);
    hopper::fence_async_shared();
    hopper::arrive_warp(barriers_.full(Names::gradients), lane_);
  }
  __device__ void wait_gradients() const {
    hopper::wait(barriers_.full(Names::gradients), phase_before());
  }
  // Barriers with one phase a step: that of the step before.
  __device__ uint32_t phase_before() const { return q_.stage ^ 1; }

  // Adds the dq of the step before to its sums; the last one writes dq.
  __device__ void add_part(float (&dq)[32]) {
    hopper::wait(barriers_.full(Names::turns), phase_before());
    float* const sums =
        a_.sums + (int64_t{2} * part_.index + group_) * 4096 + threadIdx.x % 128 * 4;
    if (part_.last) {
      finish_part(dq, sums);
    } else if (part_.turn == 0) {
#pragma unroll
      for (int i = 0; i < 32; i += 4)
        __stcg(reinterpret_cast<float4*>(sums + 128 * i),
               make_float4(dq[i], dq[i + 1], dq[i + 2], dq[i + 3]));
    } else {
#pragma unroll
      for (int i = 0; i < 32; i += 4) hopper::add_four(sums + 128 * i, dq + i);
    }
    hopper::arrive_warp(barriers_.empty(Names::turns), lane_);
  }
  // dq = the sums of all parts.
  __device__ void finish_part(float (&dq)[32], const float* sums) const {
    if (part_.turn > 0) {
      float4 sum[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) sum[i] = load_four(sums + 512 * i);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        dq[4 * i] += sum[i].x;
        dq[4 * i + 1] += sum[i].y;
        dq[4 * i + 2] += sum[i].z;
        dq[4 * i + 3] += sum[i].w;
      }
    }
    const int tiles = Walk(a_).query_tiles(), heads = a_.sizes.heads;
    const int head = part_.index / tiles;
    const int64_t row =
        part_.index % tiles * Tile::queries + (by_query ? group_ * 64 : 0) + first_row();
    store(dq, a_.dq.at(head / heads, head % heads) + row * a_.dq.row + (by_query ? 0 : group_ * 64),
          a_.dq.row, a_.scale, row);
    check_finite(dq, head, row);
    sum_columns(dq, a_.scale, head / heads, part_.index % tiles, head % heads);
  }
  __device__ void last_part() {
    float dq[32];
    wait_gradients();
    query_matmul(dq, k_.stage ^ 1);
    hopper::wait_matmuls<0>();
    hopper::hold(dq);
    add_part(dq);
  }

  // dk or dv of a tile of keys; `first`: of its heads among those of both.
  __device__ void store_keys(float (&x)[sums], const Heads<T>& to, const Walk& walk, float scale,
                             int first) const {
    hopper::hold(x);
    const int64_t row = walk.tile * Tile::keys + group_ * 64 + first_row();
    store(x, to.at(walk.b, walk.kv) + row * to.row, to.row, scale, row);
    check_finite(x, a_.sizes.heads + walk.kv, row);
    sum_columns(x, scale, walk.b, walk.tile, a_.sizes.heads + first + walk.kv);
  }

  // `head`: among those of q, k and v.
  template <int N>
  __device__ void sum_columns(const float (&x)[N], float scale, int64_t b, int tile,
                              int head) const {
    if constexpr (Sums) {
      static_assert(Tile::Dim == 64 && Tile::queries == Tile::keys);
      const int tiles = Walk(a_).key_tiles(), heads = a_.sizes.heads + 2 * a_.sizes.kv_heads;
      const int64_t part = (b * tiles + tile) * Tile::warps + group_ * 4 + warp_;
      store_column_sums(x, scale, a_.column_sums + (part * heads + head) * Tile::Dim);
    }
  }

  // `row`: the first of the thread's two, which begins at `at`.
  template <int N>
  __device__ void store(const float (&x)[N], T* at, int64_t row_stride, float scale,
                        int64_t row) const {
    const int rows = documents ? a_.documents.spans.rows - static_cast<int>(row) : 16;
    store_rows(x, at, row_stride, {scale, scale}, lane_, rows);
  }
  // Marks 16 rows of a head that may have numbers of pairs that are hidden.
  template <int N>
  __device__ void check_finite(const float (&x)[N], int head, int64_t row) const {
    if constexpr (documents) {
      if (!warp_is_finite(x) && lane_ == 0)
        a_.documents.suspects[(int64_t{head} * a_.documents.padded_rows + row) / 16] = 1;
    }
  }
  __device__ int first_row() const { return warp_ * 16 + lane_ / 4; }

  const HopperArguments<T>& a_;
  const uint32_t shared_;
  const BackwardBarriers barriers_;
  IndexReader<Tile> indices_;
  const int group_, warp_, lane_;
  hopper::Ring<2> k_, q_;  // v is in the stage of k
  DqTile part_;            // of the step before
};

}  // namespace binade::backend::cuda::native
