#include "binade/backend/cuda/quantize/fused.h"

#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/elementwise/activation_math.cuh"
#include "binade/backend/cuda/norm/math.cuh"
#include "binade/backend/cuda/quantize/tile.cuh"

namespace binade::backend::cuda {
namespace {

// ---- readers: 16 neighbours of a dense operand ----

// In whole accesses, of a type known when the kernel is compiled.
template <class T>
struct WholeReader {
  static constexpr bool whole = true;
  using Chunk = Words<T>;
  const T* data;

  explicit WholeReader(const TensorView& x) : data(x.as<const T>()) {}
  // The first `count` exist: all or none.
  __device__ void load(int64_t at, int64_t count, Chunk& chunk) const {
    chunk.load(data + at, count > 0);
  }
};

// One by one, of any type.
struct AnyReader {
  static constexpr bool whole = false;
  struct Chunk {
    float values[chunk_bytes];
    __device__ float operator[](int i) const { return values[i]; }
  };
  Operand x;

  explicit AnyReader(const TensorView& view) : x(view) {}
  // The first `count` exist; the others are 0.
  __device__ void load(int64_t at, int64_t count, Chunk& chunk) const {
#pragma unroll 1
    for (int i = 0; i < chunk_bytes; ++i)
      chunk.values[i] = i < count ? load_one<float>(x, at + i) : 0;
  }
};

// Where a made matrix, or each of its parts, ends.
struct Bounds {
  int64_t rows, columns;

  // How many columns from `column` on exist in a row.
  __device__ int64_t count(int64_t row, int64_t column) const {
    return row < rows ? columns - column : 0;
  }
};

// ---- sources; but for a norm, each is 0 where its operands are ----

template <class Reader>
struct SwiGlu : Bounds {
  static constexpr bool whole = Reader::whole;
  static constexpr int parts = 1, in_flight = 1;
  struct Chunk {
    typename Reader::Chunk gate, up;
  };
  Reader x;
  DType dtype;

  SwiGlu(const TensorView& x, int64_t width) : Bounds{x.shape[0], width}, x(x), dtype(x.dtype) {}

  __device__ void load(int64_t row, int64_t column, Chunk& chunk) const {
    const int64_t at = row * 2 * columns + column;
    x.load(at, count(row, column), chunk.gate);
    x.load(at + columns, count(row, column), chunk.up);
  }
  __device__ void values(int64_t, int64_t, const Chunk& chunk,
                         float (&out)[parts][chunk_bytes]) const {
#pragma unroll
    for (int i = 0; i < chunk_bytes; ++i) out[0][i] = swiglu_value(chunk.gate[i], chunk.up[i]);
    round_to(dtype, out[0]);
  }
};

template <class Reader>
struct SwiGluBackward : Bounds {
  static constexpr bool whole = Reader::whole;
  static constexpr int parts = 2, in_flight = 1;
  struct Chunk {
    typename Reader::Chunk dy, gate, up;
  };
  Reader dy, x;
  DType dtype;

  SwiGluBackward(const TensorView& dy, const TensorView& x)
      : Bounds{dy.shape[0], dy.shape[1]}, dy(dy), x(x), dtype(x.dtype) {}

  __device__ void load(int64_t row, int64_t column, Chunk& chunk) const {
    const int64_t at = row * columns + column, gate_at = row * 2 * columns + column;
    dy.load(at, count(row, column), chunk.dy);
    x.load(gate_at, count(row, column), chunk.gate);
    x.load(gate_at + columns, count(row, column), chunk.up);
  }
  __device__ void values(int64_t, int64_t, const Chunk& chunk,
                         float (&out)[parts][chunk_bytes]) const {
#pragma unroll
    for (int i = 0; i < chunk_bytes; ++i) {
      out[0][i] = chunk.gate[i];
      out[1][i] = chunk.up[i];
      swiglu_gradient(chunk.dy[i], out[0][i], out[1][i]);
    }
    round_to(dtype, out[0]);
    round_to(dtype, out[1]);
  }
};

template <class Reader>
struct ActivationBackward : Bounds {
  static constexpr bool whole = Reader::whole;
  static constexpr int parts = 1, in_flight = 1;
  struct Chunk {
    typename Reader::Chunk dy, x;
  };
  Activation activation;
  Reader dy, x;
  DType dtype;

  ActivationBackward(Activation activation, const TensorView& dy, const TensorView& x)
      : Bounds{dy.shape[0], dy.shape[1]}, activation(activation), dy(dy), x(x), dtype(dy.dtype) {}

  __device__ void load(int64_t row, int64_t column, Chunk& chunk) const {
    const int64_t at = row * columns + column;
    dy.load(at, count(row, column), chunk.dy);
    x.load(at, count(row, column), chunk.x);
  }
  __device__ void values(int64_t, int64_t, const Chunk& chunk,
                         float (&out)[parts][chunk_bytes]) const {
    float v[chunk_bytes];
#pragma unroll
    for (int i = 0; i < chunk_bytes; ++i) {
      out[0][i] = chunk.dy[i];
      v[i] = chunk.x[i];
    }
    multiply_by_derivative(activation, out[0], v);
    round_to(dtype, out[0]);
  }
};

template <class Reader>
struct Norm : Bounds {
  static constexpr bool whole = Reader::whole;
  static constexpr int parts = 1, in_flight = whole ? 2 : 1;
  using Chunk = typename Reader::Chunk;
  Reader x;
  Operand weight, bias;
  const float *mean, *rstd;  // no mean: rms
  DType dtype;

  Norm(const TensorView& x, const TensorView& weight, const TensorView& bias,
       const TensorView& mean, const TensorView& rstd, DType dtype)
      : Bounds{x.shape[0], x.shape[1]},
        x(x),
        weight(weight),
        bias(bias),
        mean(mean.present ? mean.as<const float>() : nullptr),
        rstd(rstd.as<const float>()),
        dtype(dtype) {}

  __device__ void load(int64_t row, int64_t column, Chunk& chunk) const {
    x.load(row * columns + column, count(row, column), chunk);
  }
  __device__ void values(int64_t row, int64_t column, const Chunk& chunk,
                         float (&out)[parts][chunk_bytes]) const {
    constexpr int pack = whole ? 8 : 1;  // of parameters
    const int64_t existing = count(row, column);
    const float center = mean != nullptr && existing > 0 ? mean[row] : 0;
    const float scale = existing > 0 ? rstd[row] : 0;
#pragma unroll
    for (int i = 0; i < chunk_bytes; i += pack) {
      float w[pack] = {}, b[pack] = {};
      if (i < existing) {
        load_parameter(weight, column + i, 1.0f, w);
        load_parameter(bias, column + i, 0.0f, b);
      }
#pragma unroll
      for (int j = 0; j < pack; ++j)
        out[0][i + j] = normed_value(chunk[i + j], center, scale, w[j], b[j]);
    }
    round_to(dtype, out[0]);
  }
};

// ---- on the host ----

void require_single(std::initializer_list<const TensorView*> operands) {
  require_compute("quantize", operands);
  for (const TensorView* x : operands) {
    if (x->present && x->dtype == DType::f64)
      fail("quantize", {.argument = "dtype", .expected = "f32, f16 or bf16", .found = "f64"});
  }
}

// Starts the kernel of make(reader's tag), with the fastest reader that all operands allow.
// `width` columns of the codes belong together; parameters may be absent and of other types.
template <class Make>
void quantize_from(std::initializer_list<const TensorView*> operands, int64_t width,
                   const Codes& codes, Make make,
                   std::initializer_list<const TensorView*> parameters = {}) {
  require_single(operands);
  require_single(parameters);
  if (codes.q.numel() == 0) return;
  auto* q = codes.q.as<uint8_t>();
  auto* transposed = codes.transposed.present ? codes.transposed.as<uint8_t>() : nullptr;
  const DType dtype = (*operands.begin())->dtype;
  bool whole = written_whole(codes.q.shape[0], width, q, transposed);
  for (const TensorView* x : operands)
    whole = whole && x->dtype == dtype && packs_fit<uint8_t, chunk_bytes>(x->data);
  for (const TensorView* x : parameters)
    whole = whole && (!x->present || packs_fit<uint8_t, chunk_bytes>(x->data));
  const auto start = [&](auto reader) {
    quantize_tiles(make(reader), codes.q.dtype, codes.scale, q, transposed, codes.amax);
  };
  if (whole && dtype == DType::bf16) return start(TypeTag<WholeReader<bf16>>{});
  if (whole && dtype == DType::f16) return start(TypeTag<WholeReader<f16>>{});
  if (whole) return start(TypeTag<WholeReader<float>>{});
  start(TypeTag<AnyReader>{});
}

}  // namespace

void quantize_swiglu(TensorView x, const Codes& codes) {
  const int64_t width = codes.q.shape[1];
  quantize_from({&x}, width, codes,
                [&](auto tag) { return SwiGlu<typename decltype(tag)::type>(x, width); });
}

void quantize_swiglu_backward(TensorView dy, TensorView x, const Codes& codes) {
  quantize_from({&dy, &x}, dy.shape[1], codes,
                [&](auto tag) { return SwiGluBackward<typename decltype(tag)::type>(dy, x); });
}

void quantize_activation_backward(Activation activation, TensorView dy, TensorView pre_activation,
                                  const Codes& codes) {
  quantize_from({&dy, &pre_activation}, dy.shape[1], codes, [&](auto tag) {
    return ActivationBackward<typename decltype(tag)::type>(activation, dy, pre_activation);
  });
}

void quantize_norm(TensorView x, TensorView weight, TensorView bias, TensorView mean,
                   TensorView rstd, DType type, const Codes& codes) {
  quantize_from({&x}, x.shape[1], codes,
                [&](auto tag) {
                  return Norm<typename decltype(tag)::type>(x, weight, bias, mean, rstd, type);
                },
                {&weight, &bias});
}

}  // namespace binade::backend::cuda
