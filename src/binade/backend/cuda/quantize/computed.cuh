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
  static constexpr bool vectorized = true, stored_in_fp8 = false;
  using Chunk = Words<T>;
  const T* data;

  explicit VectorReader(const StoredMatrix& x) : data(x.data.as<const T>()) {}
  // The operands' dtype, which is `given` or known at compile time.
  static __device__ constexpr DType dtype(DType) { return dtype_of<T>; }
  // The first `count` exist: all 16 or none.
  __device__ void load(int64_t at, int64_t count, Chunk& chunk) const {
    chunk.load(data + at, count > 0);
  }
  static __device__ void widen(const Chunk& chunk, float (&out)[chunk_bytes]) {
#pragma unroll
    for (int i = 0; i < chunk_bytes; ++i) out[i] = chunk[i];
  }
};

// A VectorReader of e4m3 data that stand for values of type T.
template <class T>
struct Fp8Reader {
  static constexpr bool vectorized = true, stored_in_fp8 = true;
  struct Chunk {
    uint4 bytes;
    float scale_inv;
  };
  const uint8_t* data;
  const float* scale_inv;

  explicit Fp8Reader(const StoredMatrix& x)
      : data(x.data.as<const uint8_t>()), scale_inv(x.scale_inv.as<const float>()) {}
  static __device__ constexpr DType dtype(DType) { return dtype_of<T>; }
  __device__ void load(int64_t at, int64_t count, Chunk& chunk) const {
    chunk.bytes = {};
    if (count > 0) chunk.bytes = *reinterpret_cast<const uint4*>(data + at);
    chunk.scale_inv = __ldg(scale_inv);
  }
  static __device__ void widen(const Chunk& chunk, float (&out)[chunk_bytes]) {
    const uint32_t words[] = {chunk.bytes.x, chunk.bytes.y, chunk.bytes.z, chunk.bytes.w};
#pragma unroll
    for (int i = 0; i < chunk_bytes; i += 2)
      decode_two(words[i / 4] >> i % 4 * 8, out[i], out[i + 1]);
#pragma unroll
    for (int i = 0; i < chunk_bytes; ++i) out[i] *= chunk.scale_inv;
    // A power of two times e4m3 is exact in bf16, but may be denormal in f16.
    if constexpr (std::is_same_v<T, f16>) round_to(DType::f16, out);
  }
};

// One by one, for any dtype.
struct ElementReader {
  static constexpr bool vectorized = false, stored_in_fp8 = false;
  struct Chunk {
    float values[chunk_bytes];
    __device__ float operator[](int i) const { return values[i]; }
  };
  Operand x;

  explicit ElementReader(const StoredMatrix& values) : x(values.data) {}
  static __device__ DType dtype(DType given) { return given; }
  // The first `count` exist; the others are 0.
  __device__ void load(int64_t at, int64_t count, Chunk& chunk) const {
#pragma unroll 1
    for (int i = 0; i < chunk_bytes; ++i)
      chunk.values[i] = i < count ? load_one<float>(x, at + i) : 0;
  }
  static __device__ void widen(const Chunk& chunk, float (&out)[chunk_bytes]) {
#pragma unroll
    for (int i = 0; i < chunk_bytes; ++i) out[i] = chunk[i];
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
