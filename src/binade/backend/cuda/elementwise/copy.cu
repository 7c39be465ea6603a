#include <cstring>
#include <type_traits>

#include "binade/backend/cpu/rows/strided.h"
#include "binade/backend/cuda/elementwise/elementwise.cuh"

// Moving and converting elements. Elements of one type are moved as bits of its size.
namespace binade::backend::cuda {
namespace {

// ---- one type ----

template <class T>
__global__ void __launch_bounds__(elementwise_threads)
    move_kernel(int64_t count, const T* x, const __grid_constant__ Layout x_layout, T* y,
                const __grid_constant__ Layout y_layout) {
  constexpr int ahead = 4;
  const int64_t step = item_step();
  for (int64_t first = first_item(); first < count; first += ahead * step) {
    T values[ahead];
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      const int64_t at = first + k * step;
      if (at < count) values[k] = x[offset_of(x_layout, at)];
    }
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      const int64_t at = first + k * step;
      if (at < count) y[offset_of(y_layout, at)] = values[k];
    }
  }
}

template <class T>
void move(const TensorView& x, const TensorView& y) {
  const int64_t count = y.numel();
  launch(move_kernel<T>, grid_for(count, elementwise_threads), elementwise_threads, 0, count,
         x.as<T>(), Layout(x), y.as<T>(), Layout(y));
}

// Whether a view consists of units of `n` elements, without a rest.
bool moves_in_units(const TensorView& view, int64_t n) {
  return view.shape.back() % n == 0 && lies_in_packs(view, n, access_bytes);
}

// ---- transposed ----

// A view as a batch of matrices: y runs along columns, x along rows.
struct Matrices {
  Layout batch;
  int64_t row_stride, column_stride;

  Matrices(const TensorView& view, int row)
      : batch(cpu::without_axis(cpu::without_axis(view, view.rank() - 1), row)),
        row_stride(view.strides[row]),
        column_stride(view.strides.back()) {}
};

constexpr int tile = 32, tile_lines = 8;

template <class T>
struct Transpose {
  int64_t tiles, rows, columns;
  const T* x;
  Matrices from;
  T* y;
  Matrices to;
};

// Copies one tile at a time through shared memory, so that reads and writes are both contiguous.
template <class T>
__global__ void __launch_bounds__(tile* tile_lines)
    transpose_kernel(const __grid_constant__ Transpose<T> a) {
  __shared__ T values[tile][tile + 1];
  const Matrices &from = a.from, &to = a.to;
  const int64_t down = divide_up(a.rows, tile), across = divide_up(a.columns, tile);
  for (int64_t i = blockIdx.x; i < a.tiles; i += gridDim.x) {
    const int64_t matrix = i / (down * across);
    const int64_t row = i / across % down * tile, column = i % across * tile;
    const T* source = a.x + offset_of(from.batch, matrix);
    T* target = a.y + offset_of(to.batch, matrix);
#pragma unroll
    for (int line = threadIdx.y; line < tile; line += tile_lines) {
      const int64_t r = row + threadIdx.x, c = column + line;
      if (r < a.rows && c < a.columns)
        values[line][threadIdx.x] = source[r * from.row_stride + c * from.column_stride];
    }
    __syncthreads();
#pragma unroll
    for (int line = threadIdx.y; line < tile; line += tile_lines) {
      const int64_t r = row + line, c = column + threadIdx.x;
      if (r < a.rows && c < a.columns)
        target[r * to.row_stride + c * to.column_stride] = values[threadIdx.x][line];
    }
    __syncthreads();  // before the next tile overwrites this one
  }
}

// `row` is the axis along which x is contiguous.
template <class T>
void transpose(const TensorView& x, const TensorView& y, int row) {
  const int64_t rows = y.shape[row], columns = y.shape.back();
  const int64_t batch = y.numel() / (rows * columns);
  const int64_t tiles = batch * divide_up(rows, tile) * divide_up(columns, tile);
  launch(transpose_kernel<T>, grid_for(tiles, 1, 64), dim3(tile, tile_lines), 0,
         Transpose<T>{.tiles = tiles,
                      .rows = rows,
                      .columns = columns,
                      .x = x.as<T>(),
                      .from = Matrices(x, row),
                      .y = y.as<T>(),
                      .to = Matrices(y, row)});
}

// The axis along which x is contiguous if it is not y's last one and both are long enough for tiles
// to pay off; else -1.
int transposed_axis(const TensorView& x, const TensorView& y) {
  const int last = y.rank() - 1;
  if (last < 1 || x.shape[last] < 8 || y.strides[last] != 1) return -1;
  if (x.strides[last] == 0 || x.strides[last] == 1) return -1;
  for (int axis = 0; axis < last; ++axis) {
    if (x.strides[axis] == 1 && x.shape[axis] >= 8) return axis;
  }
  return -1;
}

void copy_bits(const TensorView& x, const TensorView& y) {
  const int64_t size = static_cast<int64_t>(size_of(y.dtype));
  if (y.rank() == 1 && (y.numel() == 1 || (x.strides[0] == 1 && y.strides[0] == 1))) {
    check(cudaMemcpyAsync(y.data, x.data, static_cast<size_t>(y.numel() * size),
                          cudaMemcpyDeviceToDevice, stream()),
          "cudaMemcpyAsync");
    return;
  }
  const int64_t n = static_cast<int64_t>(access_bytes) / size;
  if (moves_in_units(x, n) && moves_in_units(y, n)) {
    return move<Sixteen>(in_units(x, n), in_units(y, n));
  }
  const int row = transposed_axis(x, y);
  cpu::with_bits(y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (row >= 0) {
      transpose<T>(x, y, row);
    } else {
      move<T>(x, y);
    }
  });
}

// ---- between types ----

template <class C>
struct Same {
  using Value = C;
  __device__ C operator()(const C (&x)[1], C) const { return x[0]; }
};

bool convert_dense(const TensorView& x, const TensorView& y) {
  return map_packs<float, bf16, Same<float>, 1, 2>({}, {x}, {y}) ||
         map_packs<float, f16, Same<float>, 1, 2>({}, {x}, {y}) ||
         map_packs<bf16, float, Same<float>, 1, 2>({}, {x}, {y}) ||
         map_packs<f16, float, Same<float>, 1, 2>({}, {x}, {y});
}

// ---- constants ----

template <class T>
__global__ void __launch_bounds__(elementwise_threads)
    fill_kernel(int64_t count, T value, T* y, const __grid_constant__ Layout layout) {
  for (int64_t at = first_item(); at < count; at += item_step()) y[offset_of(layout, at)] = value;
}

template <class T>
void fill_with(T value, const TensorView& y) {
  const int64_t count = y.numel();
  launch(fill_kernel<T>, grid_for(count, elementwise_threads), elementwise_threads, 0, count, value,
         y.as<T>(), Layout(y));
}

}  // namespace

void copy(TensorView x, TensorView y) {
  if (y.numel() == 0) return;
  if (x.data == y.data && x.dtype == y.dtype && x.strides == y.strides) return;
  simplify({&x, &y});
  if (x.dtype == y.dtype) return copy_bits(x, y);
  if (convert_dense(x, y)) return;
  cpu::with_exact_type(x.dtype, [&](auto tag) {
    map_elements<Same<typename decltype(tag)::type>, 1>({}, {x}, {y});
  });
}

void fill(TensorView y, double value) {
  if (y.numel() == 0) return;
  simplify({&y});
  dispatch(y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T element = cast<T>(value);
    cpu::with_bits(y.dtype, [&](auto bits_tag) {
      using Bits = typename decltype(bits_tag)::type;
      if constexpr (sizeof(Bits) == sizeof(T)) {
        Bits bits;
        std::memcpy(&bits, &element, sizeof(T));
        if (bits == 0 && y.rank() == 1 && y.strides[0] == 1) {
          check(cudaMemsetAsync(y.data, 0, static_cast<size_t>(y.numel()) * sizeof(T), stream()),
                "cudaMemsetAsync");
          return;
        }
        constexpr int n = static_cast<int>(access_bytes / sizeof(Bits));
        if (!moves_in_units(y, n)) return fill_with(bits, y);
        Sixteen unit;
        for (int i = 0; i < n; ++i) {
          std::memcpy(reinterpret_cast<Bits*>(&unit) + i, &bits, sizeof(Bits));
        }
        fill_with(unit, in_units(y, n));
      }
    });
  });
}

}  // namespace binade::backend::cuda
