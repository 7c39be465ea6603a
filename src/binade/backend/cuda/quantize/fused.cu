#include "binade/backend/cuda/quantize/fused.h"

#include "binade/backend/cuda/elementwise/activation_math.cuh"
#include "binade/backend/cuda/norm/math.cuh"
#include "binade/backend/cuda/quantize/computed.cuh"
#include "binade/backend/cuda/quantize/groups.h"

namespace binade::backend::cuda {
namespace {

// ---- sources. Except for a norm, zero operands give zero ----

template <class Reader>
struct SwiGlu : Bounds {
  static constexpr bool vectorized = Reader::vectorized;
  static constexpr int parts = 1, others = 0;
  static constexpr int in_flight = vectorized ? 2 : 1;
  static constexpr int blocks = !vectorized ? 1 : Reader::stored_in_fp8 ? 4 : 3;
  struct Chunk {
    typename Reader::Chunk gate, up;
  };
  Reader x;
  DType dtype;

  SwiGlu(const StoredMatrix& x, int64_t width)
      : Bounds{x.data.shape[0], width}, x(x), dtype(x.dtype) {}

  __device__ void load(int64_t row, int64_t column, Chunk& chunk) const {
    const int64_t at = row * 2 * columns + column;
    x.load(at, count(row, column), chunk.gate);
    x.load(at + columns, count(row, column), chunk.up);
  }
  __device__ void values(NoColumns, const Chunk& chunk, float (&out)[parts][chunk_bytes]) const {
    float gate[chunk_bytes];
    Reader::widen(chunk.gate, gate);
    Reader::widen(chunk.up, out[0]);
    swiglu_values(Reader::dtype(dtype), gate, out[0]);
    round_to(Reader::dtype(dtype), out[0]);
  }
};

// With swiglu(x) itself as the second matrix if `gated`.
template <class GradientReader, class Reader, bool gated>
struct SwiGluBackward : Bounds {
  static constexpr bool vectorized = Reader::vectorized;
  static constexpr int parts = 2, others = gated ? 1 : 0;
  // Without FP8 operands, which take fewer registers, more loads in flight gain more than a block:
  // 232 instead of 262 us for 16384 x 5632 on an H200.
  static constexpr int in_flight = vectorized && !Reader::stored_in_fp8 ? 2 : 1;
  static constexpr int blocks = !vectorized ? 1 : !Reader::stored_in_fp8 ? 2 : gated ? 3 : 4;
  struct Chunk {
    typename GradientReader::Chunk dy;
    typename Reader::Chunk gate, up;
  };
  GradientReader dy;
  Reader x;
  DType dtype;

  SwiGluBackward(const TensorView& dy, const StoredMatrix& x)
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
    GradientReader::widen(chunk.dy, d);
    Reader::widen(chunk.gate, out[0]);
    Reader::widen(chunk.up, out[1]);
    swiglu_gradients(Reader::dtype(dtype), d, out[0], out[1]);
    round_to(Reader::dtype(dtype), out[0]);
    round_to(Reader::dtype(dtype), out[1]);
    if constexpr (gated) {
      round_to(Reader::dtype(dtype), d);
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
    round_to(Reader::dtype(dtype), out[0]);
  }
};

// `affine`: with means or a bias, which rms norm does not have. `same_type`: results are rounded to
// the type of x.
template <class Reader, bool affine, bool same_type>
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
    round_to(same_type ? Reader::dtype(dtype) : dtype, out[0]);
  }
};

// ---- on the host ----

// Runs the kernel on make(type of values) of e4m3 data. False, with nothing written, if something
// is not aligned. `operand`, if present, has the type of the values.
template <class Make>
bool quantize_stored(const StoredMatrix& x, const TensorView& operand, int64_t width,
                     const QuantizedOutput& out, const QuantizedOutput& other, Make make) {
  const auto fits = [](const TensorView& view) {
    return !view.present || packs_fit<uint8_t, chunk_bytes>(view.data);
  };
  const TileOutput tiles(out, other);
  if (x.data.dtype != DType::e4m3 || x.dtype == DType::f64 ||
      !tiles.is_vectorized(out.rows(), width) || !fits(x.data) || !fits(operand) ||
      (operand.present && operand.dtype != x.dtype))
    return false;
  if (out.rows() * out.columns() == 0) return true;
  const auto start = [&](auto type) { quantize_tiles(make(type), out.dtype(), tiles); };
  if (x.dtype == DType::bf16) {
    start(TypeTag<bf16>{});
  } else if (x.dtype == DType::f16) {
    start(TypeTag<f16>{});
  } else {
    start(TypeTag<float>{});
  }
  return true;
}

Tensor dequantized(const StoredMatrix& x) {
  const Tensor values = workspace(x.data.shape, x.dtype);
  dequantize({x.data, x.scale_inv, {}}, values);
  return values;
}

template <bool gated>
void run_swiglu_backward(const TensorView& dy, const StoredMatrix& x, const QuantizedOutput& out,
                         const QuantizedOutput& other) {
  const auto of_stored = [&](auto tag) {
    using T = typename decltype(tag)::type;
    return SwiGluBackward<VectorReader<T>, Fp8Reader<T>, gated>(dy, x);
  };
  if (x.is_quantized() && quantize_stored(x, dy, dy.shape[1], out, other, of_stored)) return;
  if (x.is_quantized()) return run_swiglu_backward<gated>(dy, dequantized(x), out, other);
  quantize_from(
      {&dy, &x.data}, dy.shape[1], out,
      [&](auto tag) {
        using Reader = typename decltype(tag)::type;
        return SwiGluBackward<Reader, Reader, gated>(dy, x);
      },
      {}, other);
}

}  // namespace

void quantize_swiglu(const StoredMatrix& x, const QuantizedOutput& out) {
  const int64_t width = out.columns();
  const auto of_stored = [&](auto tag) {
    return SwiGlu<Fp8Reader<typename decltype(tag)::type>>(x, width);
  };
  if (x.is_quantized() && quantize_stored(x, {}, width, out, {}, of_stored)) return;
  if (x.is_quantized()) return quantize_swiglu(dequantized(x), out);
  quantize_from({&x.data}, width, out,
                [&](auto tag) { return SwiGlu<typename decltype(tag)::type>(x, width); });
}

void quantize_swiglu_backward(TensorView dy, const StoredMatrix& x, const QuantizedOutput& out,
                              const QuantizedOutput& gated) {
  // The kernel writes transposed data alone, which is all that a backward matmul reads.
  if (gated.data.present) quantize_swiglu(x, gated);
  if (gated.data.present || !gated.transposed.present)
    return run_swiglu_backward<false>(dy, x, out, {});
  if (gated.transposed.dtype != DType::e4m3)
    fail("quantize", {.argument = "gated",
                      .expected = "e4m3",
                      .found = std::string(name(gated.transposed.dtype))});
  run_swiglu_backward<true>(dy, x, out, gated);
}

void quantize_activation_backward(Activation activation, TensorView dy, TensorView pre_activation,
                                  const QuantizedOutput& out) {
  quantize_from({&dy, &pre_activation}, dy.shape[1], out, [&](auto tag) {
    return ActivationBackward<typename decltype(tag)::type>(activation, dy, pre_activation);
  });
}

void quantize_norm(const NormOperands& norm, const QuantizedOutput& out) {
  const auto run = [&](auto affine, auto same_type) {
    quantize_from({&norm.x}, norm.x.shape[1], out,
                  [&](auto tag) {
                    using Reader = typename decltype(tag)::type;
                    return Norm<Reader, affine.value, same_type.value>(norm);
                  },
                  {&norm.weight, &norm.bias});
  };
  const auto run_as = [&](auto same_type) {
    norm.mean.present || norm.bias.present ? run(std::true_type(), same_type)
                                           : run(std::false_type(), same_type);
  };
  norm.dtype == norm.x.dtype ? run_as(std::true_type()) : run_as(std::false_type());
}

}  // namespace binade::backend::cuda
