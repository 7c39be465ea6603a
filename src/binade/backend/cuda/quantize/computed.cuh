#pragma once

#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/quantize/tile.cuh"

// What matrices that are quantized as they are computed share: how they read their operands, and
// the choice of the fastest way.
namespace binade::backend::cuda {

// ---- Readers: 16 adjacent elements of a dense operand

// By vectorized accesses, for a dtype known at compile time.
template <class T>
struct VectorReader {
  static constexpr bool vectorized = true;
  using Chunk = Words<T>;
  const T* data;

  explicit VectorReader(const TensorView& x) : data(x.as<const T>()) {}
  // The operands' dtype, which is `given` or known at compile time.
  static __device__ constexpr DType dtype(DType) { return dtype_of<T>; }
  // The first `count` exist: all 16 or none.
  __device__ void load(int64_t at, int64_t count, Chunk& chunk) const {
    chunk.load(data + at, count > 0);
  }
};

// One by one, for any dtype.
struct ElementReader {
  static constexpr bool vectorized = false;
  struct Chunk {
    float values[chunk_bytes];
    __device__ float operator[](int i) const { return values[i]; }
  };
  Operand x;

  explicit ElementReader(const TensorView& view) : x(view) {}
  static __device__ DType dtype(DType given) { return given; }
  // The first `count` exist; the others are 0.
  __device__ void load(int64_t at, int64_t count, Chunk& chunk) const {
#pragma unroll 1
    for (int i = 0; i < chunk_bytes; ++i)
      chunk.values[i] = i < count ? load_one<float>(x, at + i) : 0;
  }
};

// The size of a computed matrix, or of each of its parts.
struct Bounds {
  int64_t rows, columns;

  static __device__ NoColumns columns_at(int64_t) { return {}; }
  // Parts are side by side.
  __device__ int64_t place(int part, int64_t column) const { return part * columns + column; }

  // The number of elements of a row from `column` on.
  __device__ int64_t count(int64_t row, int64_t column) const {
    return row < rows ? columns - column : 0;
  }
};

// ---- On the host

inline void require_single(std::initializer_list<const TensorView*> operands) {
  require_compute("quantize", operands);
  for (const TensorView* x : operands) {
    if (x->present && x->dtype == DType::f64)
      fail("quantize", {.argument = "dtype", .expected = "f32, f16 or bf16", .found = "f64"});
  }
}

// Runs the kernel on make(reader's tag), with the fastest reader that all operands allow. `width`
// columns of the output belong together; parameters may be absent and of other dtypes.
template <class Make>
void quantize_from(std::initializer_list<const TensorView*> operands, int64_t width,
                   const QuantizedOutput& out, Make make,
                   std::initializer_list<const TensorView*> parameters = {},
                   const QuantizedOutput& other = {}) {
  require_single(operands);
  require_single(parameters);
  if (out.rows() * out.columns() == 0) return;
  const TileOutput tiles(out, other);
  const DType dtype = (*operands.begin())->dtype;
  bool vectorized = tiles.is_vectorized(out.rows(), width);
  for (const TensorView* x : operands)
    vectorized = vectorized && x->dtype == dtype && packs_fit<uint8_t, chunk_bytes>(x->data);
  for (const TensorView* x : parameters)
    vectorized = vectorized && (!x->present || packs_fit<uint8_t, chunk_bytes>(x->data));
  const auto start = [&](auto reader) { quantize_tiles(make(reader), out.dtype(), tiles); };
  if (vectorized && dtype == DType::bf16) return start(TypeTag<VectorReader<bf16>>{});
  if (vectorized && dtype == DType::f16) return start(TypeTag<VectorReader<f16>>{});
  if (vectorized) return start(TypeTag<VectorReader<float>>{});
  start(TypeTag<ElementReader>{});
}

}  // namespace binade::backend::cuda
