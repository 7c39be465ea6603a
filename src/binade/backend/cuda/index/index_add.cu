#include "binade/backend/cuda/index/index_add.h"

#include <limits>
#include <string>

#include "binade/backend/cpu/rows/strided.h"
#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/common/element_access.cuh"
#include "binade/backend/cuda/index/check.cuh"
#include "binade/backend/cuda/index/sort.h"

// Entries are sorted stably by their target position, so that those of one target are contiguous
// and in the order of their indices; a warp or a thread then sums each of these runs. No two
// threads write one element, and the order of additions is fixed.
namespace binade::backend::cuda {
namespace {

constexpr int threads = 256;

// A scatter with its axis separated from the others. The index varies over `lines` but not over
// `rest`. Entry line * count + i of x is added to position line * targets + index of y.
struct Scatter {
  Layout x_lines, index_lines, y_lines;
  Layout x_rest, y_rest;
  int64_t x_step, index_step, y_step;
  int64_t lines, count, targets, width;

  BINADE_HD int64_t entries() const { return lines * count; }
  BINADE_HD int64_t positions() const { return lines * targets; }

  __device__ int64_t x_offset(int64_t entry) const {
    if (lines == 1) return entry * x_step;
    return offset_of(x_lines, entry / count) + entry % count * x_step;
  }
  __device__ int64_t y_offset(int64_t position) const {
    if (lines == 1) return position * y_step;
    return offset_of(y_lines, position / targets) + position % targets * y_step;
  }
};

// Each entry's target position; one past the last position means none.
template <class Key>
__global__ void __launch_bounds__(threads)
    positions_kernel(const __grid_constant__ Scatter s, const void* index, DType dtype,
                     NegativeIndex negative, Key* positions, Key* entries) {
  for (int64_t entry = first_item(); entry < s.entries(); entry += item_step()) {
    const int64_t line = entry / s.count, i = entry - line * s.count;
    const int64_t offset = offset_of(s.index_lines, line) + i * s.index_step;
    const int64_t target = dtype == DType::i64 ? static_cast<const int64_t*>(index)[offset]
                                               : static_cast<const int32_t*>(index)[offset];
    const bool skipped = negative == NegativeIndex::skip && target < 0;
    positions[entry] = static_cast<Key>(
        skipped ? s.positions() : line * s.targets + checked_index(target, s.targets));
    entries[entry] = static_cast<Key>(entry);
  }
}

// A thread for each run and column.
template <class C, class Key>
__global__ void __launch_bounds__(threads)
    add_elements_kernel(const __grid_constant__ Scatter s, const Key* positions, const Key* entries,
                        Elements<C> x, Elements<C> y) {
  const int64_t count = s.entries();
  for (int64_t item = first_item(); item < count * s.width; item += item_step()) {
    const int64_t first = item / s.width, column = item - first * s.width;
    const Key position = positions[first];
    if (static_cast<int64_t>(position) == s.positions()) continue;
    if (first > 0 && positions[first - 1] == position) continue;
    const int64_t from = offset_of(s.x_rest, column);
    const int64_t to = s.y_offset(static_cast<int64_t>(position)) + offset_of(s.y_rest, column);
    C sum = y.fetch(to);
    for (int64_t at = first; at < count && positions[at] == position; ++at) {
      sum += x.fetch(s.x_offset(static_cast<int64_t>(entries[at])) + from);
    }
    store_as(y.data, y.dtype, to, sum);
  }
}

// ---- rows of floats ----

// A warp processes 32 sorted entries (a group) and a stretch of columns. A run within one group is
// added to y directly. A longer one leaves a sum in each of its groups, as the tail of its first
// and the head of the others, and a second kernel adds these up: long runs are divided among warps.
constexpr int pack = 4;
constexpr int rows_ahead = 8;

struct Sums {
  float *heads, *tails;  // [groups, width]
};

// The columns of one lane. Lanes past the end read the last columns again and write nothing.
struct Columns {
  int64_t first;
  bool mine;

  __device__ Columns(int64_t stretch, int64_t width) {
    const int64_t own = (stretch * warp_size + threadIdx.x % warp_size) * pack;
    first = min(own, width - pack);
    mine = own == first;
  }
};

// Lanes of a warp whose entries have one target.
struct Run {
  int lane, count;
};

// sum += the rows of x that the run's lanes have as `entry`, in their order.
template <class Key>
__device__ inline void add_rows(const Scatter& s, const Operand& x, int64_t from, Key entry,
                                Run run, float (&sum)[pack]) {
  for (int done = 0; done < run.count; done += rows_ahead) {
    Fetched<float, pack> fetched[rows_ahead];
#pragma unroll
    for (int k = 0; k < rows_ahead; ++k) {
      const Key row = __shfl_sync(0xffffffffu, entry, (run.lane + done + k) % warp_size);
      if (done + k < run.count)
        fetched[k] = fetch<float, pack>(x, s.x_offset(static_cast<int64_t>(row)) + from);
    }
#pragma unroll
    for (int k = 0; k < rows_ahead; ++k) {
      if (done + k >= run.count) break;
      float values[pack];
      widen(fetched[k], x.dtype, values);
#pragma unroll
      for (int i = 0; i < pack; ++i) sum[i] += values[i];
    }
  }
}

template <class Key>
__global__ void __launch_bounds__(threads)
    add_groups_kernel(const __grid_constant__ Scatter s, const Key* positions, const Key* entries,
                      Operand x, Operand y, Sums sums) {
  const int64_t count = s.entries(), stretches = divide_up(s.width, warp_size * pack);
  const int64_t items = divide_up(count, warp_size) * stretches;
  const Key nowhere = static_cast<Key>(s.positions());
  const int lane = threadIdx.x % warp_size;
  for (int64_t item = first_item() / warp_size; item < items; item += item_step() / warp_size) {
    const int64_t group = item / stretches, first = group * warp_size, at = first + lane;
    const Columns columns(item - group * stretches, s.width);
    const Key mine = at < count ? positions[at] : nowhere, entry = at < count ? entries[at] : 0;
    const Key before = first > 0 ? positions[first - 1] : nowhere;
    const Key after = first + warp_size < count ? positions[first + warp_size] : nowhere;
    const Key previous = __shfl_up_sync(0xffffffffu, mine, 1);
    unsigned starts = __ballot_sync(0xffffffffu, lane == 0 || previous != mine);
    const int64_t from = offset_of(s.x_rest, columns.first),
                  to = offset_of(s.y_rest, columns.first);
    for (; starts != 0; starts &= starts - 1) {
      const int start = __ffs(static_cast<int>(starts)) - 1;
      const Key position = __shfl_sync(0xffffffffu, mine, start);
      if (position == nowhere) break;  // sorted to the end
      const int run = __popc(__ballot_sync(0xffffffffu, mine == position));
      const bool is_head = start == 0 && before == position;
      const bool is_tail = start + run == warp_size && after == position;
      const int64_t target = s.y_offset(static_cast<int64_t>(position)) + to;
      float sum[pack] = {};
      if (!is_head && !is_tail) load(y, target, sum);
      add_rows(s, x, from, entry, {start, run}, sum);
      if (!columns.mine) continue;
      if (is_head || is_tail) {
        store(Operand(is_head ? sums.heads : sums.tails, DType::f32),
              group * s.width + columns.first, sum);
      } else {
        store(y, target, sum);
      }
    }
  }
}

// Adds up the sums of runs that continue after the group they begin in.
template <class Key>
__global__ void __launch_bounds__(threads)
    join_groups_kernel(const __grid_constant__ Scatter s, const Key* positions, Operand y,
                       Sums sums) {
  const int64_t count = s.entries(), stretches = divide_up(s.width, warp_size * pack);
  const int64_t items = divide_up(count, warp_size) * stretches;
  const int lane = threadIdx.x % warp_size;
  for (int64_t item = first_item() / warp_size; item < items; item += item_step() / warp_size) {
    const int64_t group = item / stretches, next = (group + 1) * warp_size;
    if (next >= count) continue;
    const Key position = positions[next];
    if (position != positions[next - 1] || static_cast<int64_t>(position) == s.positions())
      continue;
    if (group > 0 && position == positions[group * warp_size - 1]) continue;  // began earlier
    const Columns columns(item - group * stretches, s.width);
    const int64_t target =
        s.y_offset(static_cast<int64_t>(position)) + offset_of(s.y_rest, columns.first);
    float sum[pack], values[pack];
    load(y, target, sum);
    const auto add = [&](float* from, int64_t which) {
      load(Operand(from, DType::f32), which * s.width + columns.first, values);
#pragma unroll
      for (int i = 0; i < pack; ++i) sum[i] += values[i];
    };
    add(sums.tails, group);
    for (int64_t start = group + 1;; start += warp_size) {
      const int64_t first = (start + lane) * warp_size;
      const bool continues = first < count && positions[first] == position;
      const int run = __popc(__ballot_sync(0xffffffffu, continues));
#pragma unroll 4
      for (int k = 0; k < run; ++k) add(sums.heads, start + k);
      if (run < warp_size) break;
    }
    if (columns.mine) store(y, target, sum);
  }
}

// ---- launching ----

// Whether rows of x and y consist of the packs that the fast kernel reads.
bool rows_in_packs(const Scatter& s, const TensorView& x_rest, const TensorView& y_rest) {
  const auto in_packs = [](const TensorView& rest, const Layout& lines, int64_t step) {
    if (rest.dtype != DType::f32 && rest.dtype != DType::f16 && rest.dtype != DType::bf16)
      return false;
    if (rest.shape.back() % pack != 0 || step % pack != 0) return false;
    for (int axis = 0; axis < lines.rank; ++axis) {
      if (lines.strides[axis] % pack != 0) return false;
    }
    return lies_in_packs(rest, pack, size_of(rest.dtype) * pack);
  };
  return s.width >= warp_size && in_packs(x_rest, s.x_lines, s.x_step) &&
         in_packs(y_rest, s.y_lines, s.y_step);
}

template <class Key>
void run(const Scatter& s, const TensorView& index, NegativeIndex negative, bool packed,
         const TensorView& x, const TensorView& y) {
  constexpr DType type = sizeof(Key) == 4 ? DType::i32 : DType::i64;
  const int64_t count = s.entries();
  // Positions and entries, unsorted and sorted.
  const Tensor keys = workspace({4, count}, type);
  Key* const positions = static_cast<Key*>(keys.raw_data());
  Key *const entries = positions + count, *const sorted = entries + count,
             *const order = sorted + count;
  launch(positions_kernel<Key>, grid_for(count, threads), threads, 0, s, index.data, index.dtype,
         negative, positions, entries);
  int bits = 1;
  while (s.positions() >> bits != 0) ++bits;
  sort_pairs(positions, sorted, entries, order, count, bits);
  if (packed) {
    const int64_t groups = divide_up(count, warp_size);
    const int64_t stretches = divide_up(s.width, warp_size * pack);
    const Tensor partial = workspace({2, groups, s.width}, DType::f32);
    float* const heads = static_cast<float*>(partial.raw_data());
    const Sums sums{heads, heads + groups * s.width};
    const unsigned grid = grid_for(groups * stretches * warp_size, threads);
    launch(add_groups_kernel<Key>, grid, threads, 0, s, sorted, order, Operand(x), Operand(y),
           sums);
    launch(join_groups_kernel<Key>, grid, threads, 0, s, sorted, Operand(y), sums);
    return;
  }
  const auto add = [&](auto tag) {
    using C = typename decltype(tag)::type;
    launch(add_elements_kernel<C, Key>, grid_for(count * s.width, threads), threads, 0, s, sorted,
           order, Elements<C>(x), Elements<C>(y));
  };
  if (!is_floating(y.dtype)) return add(TypeTag<int64_t>{});
  if (y.dtype == DType::f64) return add(TypeTag<double>{});
  add(TypeTag<float>{});
}

void push_axis(TensorView& to, const TensorView& from, int axis, int64_t size) {
  to.shape.push_back(size);
  to.strides.push_back(from.strides[axis]);
}

TensorView without_axes(TensorView view) {
  view.shape = {};
  view.strides = {};
  return view;
}

}  // namespace

void add_at(TensorView x, int axis, TensorView index, TensorView y, NegativeIndex negative) {
  if (x.numel() == 0 || y.numel() == 0) return;
  if (index.dtype != DType::i64 && index.dtype != DType::i32) {
    fail("scatter_add",
         {.argument = "index", .expected = "i64 or i32", .found = std::string(name(index.dtype))});
  }
  TensorView x_lines = without_axes(x), index_lines = without_axes(index),
             y_lines = without_axes(y), x_rest = x_lines, y_rest = y_lines;
  for (int other = 0; other < x.rank(); ++other) {
    if (other == axis) continue;
    const int64_t size = x.shape[other];  // y may be larger
    const bool varies = index.strides[other] != 0 && size > 1;
    push_axis(varies ? x_lines : x_rest, x, other, size);
    push_axis(varies ? y_lines : y_rest, y, other, size);
    if (varies) push_axis(index_lines, index, other, size);
  }
  simplify({&x_lines, &y_lines, &index_lines});
  simplify({&x_rest, &y_rest});
  const Scatter s{.x_lines = Layout(x_lines),
                  .index_lines = Layout(index_lines),
                  .y_lines = Layout(y_lines),
                  .x_rest = Layout(x_rest),
                  .y_rest = Layout(y_rest),
                  .x_step = x.strides[axis],
                  .index_step = index.strides[axis],
                  .y_step = y.strides[axis],
                  .lines = x_lines.numel(),
                  .count = x.shape[axis],
                  .targets = y.shape[axis],
                  .width = x_rest.numel()};
  const bool packed = rows_in_packs(s, x_rest, y_rest);
  constexpr int64_t max_small = std::numeric_limits<int32_t>::max();
  if (s.entries() <= max_small && s.positions() <= max_small) {
    run<uint32_t>(s, index, negative, packed, x, y);
  } else {
    run<uint64_t>(s, index, negative, packed, x, y);
  }
}

}  // namespace binade::backend::cuda
