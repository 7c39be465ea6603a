#include "binade/backend/cuda/quantize/fused.h"

#include "binade/backend/cuda/elementwise/activation_math.cuh"
#include "binade/backend/cuda/norm/math.cuh"
#include "binade/backend/cuda/quantize/computed.cuh"

namespace binade::backend::cuda {
namespace {

// ---- sources. Except for a norm, zero operands give zero ----

template <class Reader>
struct SwiGlu : Bounds {
  static constexpr bool vectorized = Reader::vectorized;
  static constexpr int parts = 1, others = 0;
  static constexpr int in_flight = vectorized ? 2 : 1, blocks = vectorized ? 3 : 1;
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
  __device__ void values(NoColumns, const Chunk& chunk, float (&out)[parts][chunk_bytes]) const {
    float gate[chunk_bytes];
#pragma unroll
    for (int i = 0; i < chunk_bytes; ++i) {
      gate[i] = chunk.gate[i];
      out[0][i] = chunk.up[i];
    }
    swiglu_values(Reader::dtype(dtype), gate, out[0]);
    round_to(dtype, out[0]);
  }
};

// With swiglu(x) itself as the second matrix if `gated`.
template <class Reader, bool gated>
struct SwiGluBackward : Bounds {
  static constexpr bool vectorized = Reader::vectorized;
  static constexpr int parts = 2, others = gated ? 1 : 0;
  // More loads in flight gain more than a third block.
  static constexpr int in_flight = vectorized ? 2 : 1, blocks = vectorized ? 2 : 1;
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
  __device__ void values(NoColumns, const Chunk& chunk,
                         float (&out)[parts + others][chunk_bytes]) const {
    float d[chunk_bytes];
#pragma unroll
    for (int i = 0; i < chunk_bytes; ++i) {
      d[i] = chunk.dy[i];
      out[0][i] = chunk.gate[i];
      out[1][i] = chunk.up[i];
    }
    swiglu_gradients(Reader::dtype(dtype), d, out[0], out[1]);
    round_to(dtype, out[0]);
    round_to(dtype, out[1]);
    if constexpr (gated) {
      round_to(dtype, d);
#pragma unroll
      for (int i = 0; i < chunk_bytes; ++i) out[2][i] = d[i];
    }
  }
};

template <class Reader>
struct ActivationBackward : Bounds {
  static constexpr bool vectorized = Reader::vectorized;
  static constexpr int parts = 1, others = 0, in_flight = 1, blocks = vectorized ? 3 : 1;
  struct Chunk {
    typename Reader::Chunk dy, x;
  };
  Activation activation;
  Reader dy, x;
  DType dtype, x_dtype;

  ActivationBackward(Activation activation, const TensorView& dy, const TensorView& x)
      : Bounds{dy.shape[0], dy.shape[1]},
        activation(activation),
        dy(dy),
        x(x),
        dtype(dy.dtype),
        x_dtype(x.dtype) {}

  __device__ void load(int64_t row, int64_t column, Chunk& chunk) const {
    const int64_t at = row * columns + column;
    dy.load(at, count(row, column), chunk.dy);
    x.load(at, count(row, column), chunk.x);
  }
  __device__ void values(NoColumns, const Chunk& chunk, float (&out)[parts][chunk_bytes]) const {
    float v[chunk_bytes];
#pragma unroll
    for (int i = 0; i < chunk_bytes; ++i) {
      out[0][i] = chunk.dy[i];
      v[i] = chunk.x[i];
    }
    multiply_by_derivative(activation, Reader::dtype(x_dtype), out[0], v);
    round_to(dtype, out[0]);
  }
};

// `affine`: with means or a bias, which rms norm does not have.
template <class Reader, bool affine>
struct Norm : Bounds {
  static constexpr bool vectorized = Reader::vectorized;
  static constexpr int parts = 1, others = 0;
  static constexpr int in_flight = vectorized ? 2 : 1;
  static constexpr int blocks = !vectorized ? 1 : affine ? 2 : 3;  // the bias takes registers
  struct Columns {
    float weight[chunk_bytes], bias[affine ? chunk_bytes : 1];
  };
  struct Chunk {
    typename Reader::Chunk x;
    float center, scale;
    bool exists;
  };
  Reader x;
  Operand weight, bias;
  const float *mean, *rstd;  // mean is null for rms
  DType dtype;

  explicit Norm(const NormOperands& norm)
      : Bounds{norm.x.shape[0], norm.x.shape[1]},
        x(norm.x),
        weight(norm.weight),
        bias(norm.bias),
        mean(norm.mean.present ? norm.mean.as<const float>() : nullptr),
        rstd(norm.rstd.as<const float>()),
        dtype(norm.dtype) {}

  // The parameters are 0 past the matrix's end.
  __device__ Columns columns_at(int64_t column) const {
    constexpr int pack = vectorized ? 8 : 1;
    Columns result = {};
#pragma unroll
    for (int i = 0; i < chunk_bytes; i += pack) {
      if (column + i >= columns) continue;
      float values[pack];
      load_parameter(weight, column + i, 1.0f, values);
#pragma unroll
      for (int j = 0; j < pack; ++j) result.weight[i + j] = values[j];
      if constexpr (!affine) continue;
      load_parameter(bias, column + i, 0.0f, values);
#pragma unroll
      for (int j = 0; j < pack; ++j) result.bias[affine ? i + j : 0] = values[j];
    }
    return result;
  }
  __device__ void load(int64_t row, int64_t column, Chunk& chunk) const {
    x.load(row * columns + column, count(row, column), chunk.x);
    chunk.exists = count(row, column) > 0;
    chunk.center = affine && mean != nullptr && chunk.exists ? mean[row] : 0;
    chunk.scale = chunk.exists ? rstd[row] : 0;
  }
  __device__ void values(const Columns& parameters, const Chunk& chunk,
                         float (&out)[parts][chunk_bytes]) const {
#pragma unroll
    for (int i = 0; i < chunk_bytes; ++i) {
      const float y = normed_value(chunk.x[i], chunk.center, chunk.scale, parameters.weight[i],
                                   affine ? parameters.bias[i] : 0.0f);
      out[0][i] = chunk.exists ? y : 0;
    }
    round_to(dtype, out[0]);
  }
};

}  // namespace

void quantize_swiglu(TensorView x, const QuantizedOutput& out) {
  const int64_t width = out.columns();
  quantize_from({&x}, width, out,
                [&](auto tag) { return SwiGlu<typename decltype(tag)::type>(x, width); });
}

void quantize_swiglu_backward(TensorView dy, TensorView x, const QuantizedOutput& out,
                              const QuantizedOutput& gated) {
  // The kernel writes transposed data alone, which is all that a backward matmul reads.
  if (gated.data.present) quantize_swiglu(x, gated);
  if (gated.data.present || !gated.transposed.present) {
    quantize_from({&dy, &x}, dy.shape[1], out, [&](auto tag) {
      return SwiGluBackward<typename decltype(tag)::type, false>(dy, x);
    });
    return;
  }
  if (gated.transposed.dtype != DType::e4m3)
    fail("quantize", {.argument = "gated",
                      .expected = "e4m3",
                      .found = std::string(name(gated.transposed.dtype))});
  quantize_from(
      {&dy, &x}, dy.shape[1], out,
      [&](auto tag) { return SwiGluBackward<typename decltype(tag)::type, true>(dy, x); }, {},
      gated);
}

void quantize_activation_backward(Activation activation, TensorView dy, TensorView pre_activation,
                                  const QuantizedOutput& out) {
  quantize_from({&dy, &pre_activation}, dy.shape[1], out, [&](auto tag) {
    return ActivationBackward<typename decltype(tag)::type>(activation, dy, pre_activation);
  });
}

void quantize_norm(const NormOperands& norm, const QuantizedOutput& out) {
  const auto run = [&](auto affine) {
    quantize_from({&norm.x}, norm.x.shape[1], out,
                  [&](auto tag) { return Norm<typename decltype(tag)::type, affine.value>(norm); },
                  {&norm.weight, &norm.bias});
  };
  norm.mean.present || norm.bias.present ? run(std::true_type()) : run(std::false_type());
}

}  // namespace binade::backend::cuda
