#include "binade/backend/reduce.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "binade/backend/cpu/reduce/axes.h"
#include "binade/backend/cpu/rows/strided.h"
#include "binade/backend/cuda/common/block_reduce.cuh"
#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/common/element_access.cuh"
#include "binade/backend/cuda/elementwise/elementwise.cuh"
#include "binade/backend/cuda/kernels.h"
#include "binade/backend/cuda/reduce/argmax_cumsum.h"

// Two kernels: columns_kernel computes results side by side (one thread per result and part of the
// reduced axes), rows_kernel one result per warp or block. If there are too few results to fill the
// GPU, the reduced axes are cut into chunks and the chunks' results are reduced by columns_kernel
// again. All sizes depend on the shapes only, and so does the order of additions.
namespace binade::backend::cuda {
namespace {

constexpr int threads = 256;
constexpr int loads_ahead = 4;
constexpr int64_t filling_blocks = 4096;
constexpr int64_t max_chunks = 1024;

// How two values are combined; `deviations` adds the squared distances from a result's center.
enum class ReduceOp { sum, prod, max, min, deviations };

template <ReduceOp known>
struct StaticOp {
  static constexpr ReduceOp op = known;
};
struct RuntimeOp {
  ReduceOp op;
};

template <class C, class Op>
struct Combine {
  Op selected;

  __device__ C operator()(C a, C b) const {
    // Integers wrap around.
    using U = std::conditional_t<std::is_integral_v<C>, uint64_t, C>;
    switch (selected.op) {
      case ReduceOp::prod:
        return static_cast<C>(static_cast<U>(a) * static_cast<U>(b));
      case ReduceOp::max:
        return a > b || a != a ? a : b;
      case ReduceOp::min:
        return a < b || a != a ? a : b;
      default:
        return static_cast<C>(static_cast<U>(a) + static_cast<U>(b));
    }
  }

  __device__ C identity() const {
    using Limits = std::numeric_limits<C>;
    constexpr C lowest = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    constexpr C highest = Limits::has_infinity ? Limits::infinity() : Limits::max();
    switch (selected.op) {
      case ReduceOp::prod:
        return 1;
      case ReduceOp::max:
        return lowest;
      case ReduceOp::min:
        return highest;
      default:
        return 0;
    }
  }

  // The value an element contributes.
  __device__ C term(C x, C center) const {
    if (selected.op != ReduceOp::deviations) return x;
    return (x - center) * (x - center);
  }
};

// The destination of results: y, divided and perhaps added to what it holds, or, for the results of
// a chunk, `partial` [chunks, results].
template <class C>
struct Results {
  AnyView y;
  bool accumulate;
  C divisor;
  C* partial;
  int64_t count;

  __device__ void put(int64_t result, int64_t chunk, C value) const {
    if (partial != nullptr) {
      partial[chunk * count + result] = value;
      return;
    }
    value = value / divisor;
    const int64_t offset = offset_of(y.layout, result);
    if (accumulate) value += load_as<C>(y.data, y.dtype, offset);
    store_as(y.data, y.dtype, offset, value);
  }
};

// x split into kept and reduced axes.
struct Extent {
  Layout kept, reduced;
  int64_t results, count;
  int64_t per_chunk;  // elements of `count` in a chunk
};

// Several packs, all fetched before any is used; their offsets are computed first.
template <class Reader>
struct Ahead {
  typename Reader::Fetched fetched[loads_ahead];

  __device__ Ahead(const Reader& x, int64_t base, const Layout& layout, int64_t first,
                   int64_t step) {
    int64_t offsets[loads_ahead];
#pragma unroll
    for (int k = 0; k < loads_ahead; ++k) offsets[k] = base + offset_of(layout, first + k * step);
#pragma unroll
    for (int k = 0; k < loads_ahead; ++k) fetched[k] = x.fetch(offsets[k]);
  }
  __device__ typename Reader::Value at(int k, int i) const { return Reader::value(fetched[k], i); }
};

template <class Reader, class Op>
__global__ void __launch_bounds__(threads)
    columns_kernel(Reader x, Op op, const __grid_constant__ Extent extent,
                   const typename Reader::Value* centers,
                   const __grid_constant__ Results<typename Reader::Value> out) {
  using C = typename Reader::Value;
  constexpr int n = Reader::width;
  __shared__ C shared[n][threads];
  const Combine<C, Op> join{op};
  const int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * n;
  C joined[n], center[n] = {};
#pragma unroll
  for (int i = 0; i < n; ++i) joined[i] = join.identity();
  if (first < extent.results) {
    if (centers != nullptr) {
#pragma unroll
      for (int i = 0; i < n; ++i) center[i] = centers[first + i];
    }
    const int64_t base = offset_of(extent.kept, first), step = blockDim.y;
    const int64_t begin = blockIdx.y * extent.per_chunk;
    const int64_t end = min(begin + extent.per_chunk, extent.count);
    int64_t row = begin + threadIdx.y;
    for (; row + (loads_ahead - 1) * step < end; row += loads_ahead * step) {
      const Ahead<Reader> values(x, base, extent.reduced, row, step);
#pragma unroll
      for (int k = 0; k < loads_ahead; ++k) {
#pragma unroll
        for (int i = 0; i < n; ++i)
          joined[i] = join(joined[i], join.term(values.at(k, i), center[i]));
      }
    }
    for (; row < end; row += step) {
      const auto fetched = x.fetch(base + offset_of(extent.reduced, row));
#pragma unroll
      for (int i = 0; i < n; ++i)
        joined[i] = join(joined[i], join.term(x.value(fetched, i), center[i]));
    }
  }
  const int me = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
  for (int i = 0; i < n; ++i) shared[i][me] = joined[i];
  for (int half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y >= half) continue;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      joined[i] = join(joined[i], shared[i][me + half * blockDim.x]);
      shared[i][me] = joined[i];
    }
  }
  if (threadIdx.y != 0 || first >= extent.results) return;
#pragma unroll
  for (int i = 0; i < n; ++i) out.put(first + i, blockIdx.y, joined[i]);
}

// `group` threads (a warp or the block) compute one result.
template <class Reader, class Op>
__global__ void __launch_bounds__(threads)
    rows_kernel(Reader x, Op op, const __grid_constant__ Extent extent, int group,
                const typename Reader::Value* centers,
                const __grid_constant__ Results<typename Reader::Value> out) {
  using C = typename Reader::Value;
  constexpr int n = Reader::width;
  __shared__ C shared[warp_size];
  const Combine<C, Op> join{op};
  const int lane = threadIdx.x % group;
  const int64_t result = int64_t{blockIdx.x} * (blockDim.x / group) + threadIdx.x / group;
  if (result >= extent.results) return;  // all threads of a group or none
  const C center = centers != nullptr ? centers[result] : C{};
  const int64_t base = offset_of(extent.kept, result), step = int64_t{group} * n;
  const int64_t begin = blockIdx.y * extent.per_chunk;
  const int64_t end = min(begin + extent.per_chunk, extent.count);
  C joined[n];
#pragma unroll
  for (int i = 0; i < n; ++i) joined[i] = join.identity();
  int64_t at = begin + lane * n;
  for (; at + (loads_ahead - 1) * step < end; at += loads_ahead * step) {
    const Ahead<Reader> values(x, base, extent.reduced, at, step);
#pragma unroll
    for (int k = 0; k < loads_ahead; ++k) {
#pragma unroll
      for (int i = 0; i < n; ++i) joined[i] = join(joined[i], join.term(values.at(k, i), center));
    }
  }
  for (; at < end; at += step) {
    const auto fetched = x.fetch(base + offset_of(extent.reduced, at));
#pragma unroll
    for (int i = 0; i < n; ++i) joined[i] = join(joined[i], join.term(x.value(fetched, i), center));
  }
  C value = joined[0];
#pragma unroll
  for (int i = 1; i < n; ++i) value = join(value, joined[i]);
  value = group == warp_size ? reduce_warp(value, join)
                             : reduce_block(value, join, join.identity(), shared);
  if (lane == 0) out.put(result, blockIdx.y, value);
}

// ---- launching ----

int64_t power_of_two_from(int64_t x, int64_t most) {
  int64_t power = 1;
  while (power < x && power < most) power *= 2;
  return power;
}

// Threads along the results and along the reduced axes.
dim3 column_block(int64_t packs, int64_t rows, int64_t widest) {
  int64_t across = power_of_two_from(packs, widest);
  int64_t down = threads / across;
  for (; down > 1 && down / 2 >= rows; down /= 2) across *= 2;
  return dim3(static_cast<unsigned>(across), static_cast<unsigned>(down));
}

// The number of chunks, of at least `least` elements, that `count` is cut into so that `blocks`
// times as many fill the GPU.
int64_t chunks_for(int64_t blocks, int64_t count, int64_t least) {
  return std::clamp<int64_t>(std::min(filling_blocks / blocks, count / least), 1, max_chunks);
}

template <class C>
struct Reducer {
  Extent extent;
  bool side_by_side;
  const C* centers;  // one per result, or null
  Results<C> out;

  template <class Reader, class Op>
  void run(Reader x, Op op) {
    if (side_by_side) {
      columns(x, op);
    } else {
      rows(x, op);
    }
  }

  template <class Reader, class Op>
  void columns(Reader x, Op op) {
    const int64_t packs = extent.results / Reader::width;
    const dim3 block = column_block(packs, extent.count, warp_size);
    const int64_t across = divide_up(packs, block.x);
    const int64_t chunks = chunks_for(across, extent.count, int64_t{block.y} * 2 * loads_ahead);
    in_chunks(chunks, 1, op, [&](int64_t pieces) {
      launch(columns_kernel<Reader, Op>,
             dim3(static_cast<unsigned>(across), static_cast<unsigned>(pieces)), block, 0, x, op,
             extent, centers, out);
    });
  }

  template <class Reader, class Op>
  void rows(Reader x, Op op) {
    constexpr int64_t n = Reader::width;
    const bool small = extent.count <= 2 * threads * n;
    const int group = small ? warp_size : threads;
    const int64_t blocks = divide_up(extent.results, threads / group);
    const int64_t chunks = small ? 1 : chunks_for(blocks, extent.count, threads * n * loads_ahead);
    in_chunks(chunks, n, op, [&](int64_t pieces) {
      launch(rows_kernel<Reader, Op>,
             dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(pieces)), threads, 0, x, op,
             extent, group, centers, out);
    });
  }

  // Launches a kernel over chunks (multiples of packs of n) and combines their results.
  template <class Op, class Launch>
  void in_chunks(int64_t chunks, int64_t n, Op op, Launch&& start) {
    extent.per_chunk = round_up(divide_up(extent.count, chunks), n);
    if (chunks == 1) return start(1);
    chunks = divide_up(extent.count, extent.per_chunk);
    const Tensor partial = workspace({chunks, extent.results}, dtype_of<C>);
    const Results<C> final = out;
    out.partial = static_cast<C*>(partial.raw_data());
    start(chunks);
    out = final;
    join_partial(partial, op);
  }

  template <class Op>
  void join_partial(const Tensor& partial, Op op) {
    TensorView rows = partial, columns = partial;
    rows.shape = {partial.size(0)}, rows.strides = {extent.results};
    columns.shape = {extent.results}, columns.strides = {1};
    extent.kept = Layout(columns), extent.reduced = Layout(rows);
    extent.count = extent.per_chunk = partial.size(0);
    const ReduceOp joining = op.op == ReduceOp::deviations ? ReduceOp::sum : op.op;
    // Narrow blocks: many threads share the few rows.
    const dim3 block = column_block(extent.results, extent.count, 8);
    launch(columns_kernel<Packs<C, 1, C>, RuntimeOp>,
           static_cast<unsigned>(divide_up(extent.results, block.x)), block, 0,
           Packs<C, 1, C>(columns), RuntimeOp{joining}, extent, static_cast<const C*>(nullptr),
           out);
  }
};

// Whether the last axis of one view consists of packs of n at every offset of the other view.
bool packs_along(const TensorView& view, const TensorView& other, int64_t n) {
  if (view.shape.back() % n != 0 || !lies_in_packs(view, n, access_bytes)) return false;
  return std::all_of(other.strides.begin(), other.strides.end(),
                     [n](int64_t stride) { return stride % n == 0; });
}

// Reduces in packs; false, with nothing done, if types or strides do not allow it.
template <class T>
bool run_packs(Reducer<float>& reducer, ReduceOp op, const TensorView& kept,
               const TensorView& reduced) {
  constexpr int n = static_cast<int>(access_bytes / sizeof(T));
  if (kept.dtype != dtype_of<T>) return false;
  if (!(reducer.side_by_side ? packs_along(kept, reduced, n) : packs_along(reduced, kept, n)))
    return false;
  const Packs<T, n> x(kept);
  switch (op) {
    case ReduceOp::sum:
      reducer.run(x, StaticOp<ReduceOp::sum>());
      break;
    case ReduceOp::prod:
      reducer.run(x, StaticOp<ReduceOp::prod>());
      break;
    case ReduceOp::max:
      reducer.run(x, StaticOp<ReduceOp::max>());
      break;
    case ReduceOp::min:
      reducer.run(x, StaticOp<ReduceOp::min>());
      break;
    case ReduceOp::deviations:
      reducer.run(x, StaticOp<ReduceOp::deviations>());
      break;
  }
  return true;
}

// y, which has the kept axes, = the reduction / divisor. `centers`: one per result, or null.
template <class C>
void reduce_as(ReduceOp op, const cpu::ReductionAxes& axes, Target y, double divisor,
               const C* centers = nullptr) {
  TensorView kept = axes.kept, reduced = axes.reduced;
  const int64_t results = kept.numel(), count = reduced.numel();
  cpu::merge_axes({&kept, &y.view});
  cpu::merge_axes({&reduced});
  Reducer<C> reducer{
      .extent = {Layout(kept), Layout(reduced), results, count, count},
      .side_by_side = axes.side_by_side(),
      .centers = centers,
      .out = {.y = AnyView(y.view),
              .accumulate = y.accumulate,
              .divisor = static_cast<C>(divisor),
              .partial = nullptr,
              .count = results},
  };
  if constexpr (std::is_same_v<C, float>) {
    if (run_packs<float>(reducer, op, kept, reduced) ||
        run_packs<bf16>(reducer, op, kept, reduced) || run_packs<f16>(reducer, op, kept, reduced))
      return;
  }
  reducer.run(Elements<C>(kept), RuntimeOp{op});
}

ReduceOp reduce_op(Reduction op) {
  switch (op) {
    case Reduction::prod:
      return ReduceOp::prod;
    case Reduction::max:
      return ReduceOp::max;
    case Reduction::min:
      return ReduceOp::min;
    default:
      return ReduceOp::sum;
  }
}

// double for f64, and for integers whose result may have a fraction.
template <class F>
void with_accumulator(Reduction op, const TensorView& x, const TensorView& y, F&& f) {
  const bool integer = is_integer(x.dtype);
  if (integer && is_integer(y.dtype) && op != Reduction::mean) return f(TypeTag<int64_t>{});
  with_floating_type(integer || x.dtype == DType::f64, f);
}

void reduce(Reduction op, TensorView x, Target y) {
  if (y.view.numel() == 0) return;
  const cpu::ReductionAxes axes(x, y.view);
  const double divisor = op == Reduction::mean ? static_cast<double>(axes.reduced.numel()) : 1.0;
  with_accumulator(op, x, y.view, [&](auto tag) {
    using C = typename decltype(tag)::type;
    reduce_as<C>(reduce_op(op), axes, {axes.kept_y, y.accumulate}, divisor);
  });
}

void variance(TensorView x, double correction, TensorView y, TensorView mean) {
  if (y.numel() == 0) return;
  const cpu::ReductionAxes axes(x, y);
  const double count = static_cast<double>(axes.reduced.numel());
  with_floating_type(is_integer(x.dtype) || x.dtype == DType::f64, [&](auto tag) {
    using C = typename decltype(tag)::type;
    const Tensor means = workspace(axes.kept.shape, dtype_of<C>);
    reduce_as<C>(ReduceOp::sum, axes, {means}, count);
    reduce_as<C>(ReduceOp::deviations, axes, {axes.kept_y}, std::max(0.0, count - correction),
                 static_cast<const C*>(means.raw_data()));
    if (mean.present) copy(means, cpu::ReductionAxes(x, mean).kept_y);
  });
}

}  // namespace

const ReduceKernels reduce_kernels{
    .reduce = reduce,
    .arg = arg,
    .variance = variance,
    .cumsum = cumsum,
};

}  // namespace binade::backend::cuda
