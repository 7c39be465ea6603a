#include "binade/backend/cuda/quantize/fused.h"

#include "binade/backend/cuda/attention/rotation.cuh"
#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/elementwise/activation_math.cuh"
#include "binade/backend/cuda/norm/math.cuh"
#include "binade/backend/cuda/quantize/tile.cuh"

namespace binade::backend::cuda {
namespace {

// ---- readers: 16 adjacent elements of a dense operand ----

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

  // The number of elements of a row from `column` on.
  __device__ int64_t count(int64_t row, int64_t column) const {
    return row < rows ? columns - column : 0;
  }
};

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

// Heads side by side, of which the first ones are rotated.
template <class Reader>
struct Rotated : Bounds {
  static constexpr bool vectorized = Reader::vectorized;
  static constexpr int parts = 1, others = 0;
  static constexpr int in_flight = vectorized ? 2 : 1, blocks = vectorized ? 3 : 1;
  // What an element of a column is rotated with.
  struct Place {
    int to_other;  // the distance of the other element of its pair; 0 if nothing is rotated
    int pair;
    bool second;  // of its pair
  };
  struct Columns {
    Place place;  // of the first one
    int column;
  };
  struct Chunk {
    typename Reader::Chunk own;
    uint32_t row;
  };
  Reader x;
  DType dtype;
  const float *cosine, *sine;
  uint32_t tokens;
  int dim, rotated_columns;
  float sign;

  explicit Rotated(const RotatedHeads& heads)
      : Bounds{heads.x.shape[0] * heads.x.shape[1], heads.x.shape[2] * heads.x.shape[3]},
        x(heads.x),
        dtype(heads.x.dtype),
        cosine(heads.cosine.as<const float>() + heads.start * (heads.x.shape[3] / 2)),
        sine(heads.sine.as<const float>() + heads.start * (heads.x.shape[3] / 2)),
        tokens(static_cast<uint32_t>(heads.x.shape[1])),
        dim(static_cast<int>(heads.x.shape[3])),
        rotated_columns(static_cast<int>(heads.rotated) * dim),
        sign(heads.inverse ? -1.0f : 1.0f) {}

  __device__ Place place_of(int column) const {
    if (column >= rotated_columns) return {};
    const int half = dim / 2, pair = column % half;
    const bool second = column % dim != pair;
    return {second ? -half : half, pair, second};
  }
  __device__ Columns columns_at(int64_t column) const {
    return {place_of(static_cast<int>(column)), static_cast<int>(column)};
  }

  __device__ void load(int64_t row, int64_t column, Chunk& chunk) const {
    x.load(row * columns + column, count(row, column), chunk.own);
    chunk.row = static_cast<uint32_t>(row);
  }
  // Other elements and angles are loaded here: neighbors have brought most of them to the cache.
  __device__ void values(const Columns& at, const Chunk& chunk,
                         float (&out)[parts][chunk_bytes]) const {
#pragma unroll
    for (int i = 0; i < chunk_bytes; ++i) out[0][i] = chunk.own[i];
    if constexpr (vectorized) {  // the columns are of one half of a head
      if (at.place.to_other != 0 && count(chunk.row, at.column) > 0)
        rotate_all(at, chunk.row, out[0]);
    } else {
#pragma unroll 1
      for (int i = 0; i < chunk_bytes && i < count(chunk.row, at.column); ++i)
        rotate_one(place_of(at.column + i), at.column + i, chunk.row, out[0][i]);
    }
    round_to(dtype, out[0]);
  }

 private:
  // What a pair's two elements are multiplied by, with signs: cosine and -sine for the first
  // element of the result, sine and cosine for the second.
  struct Factors {
    const float *of_first, *of_second;
    float first_sign, second_sign;
  };
  __device__ Factors factors_at(const Place& place, uint32_t row) const {
    const uint32_t angle =
        row % tokens * static_cast<uint32_t>(dim / 2) + static_cast<uint32_t>(place.pair);
    if (place.second) return {sine + angle, cosine + angle, sign, 1};
    return {cosine + angle, sine + angle, 1, -sign};
  }

  __device__ void rotate_all(const Columns& at, uint32_t row, float (&own)[chunk_bytes]) const {
    typename Reader::Chunk other;
    x.load(row * columns + at.column + at.place.to_other, chunk_bytes, other);
    const Factors factors = factors_at(at.place, row);
#pragma unroll
    for (int i = 0; i < chunk_bytes; i += 4) {
      const auto of_first = load_pack<float, 4>(factors.of_first + i),
                 of_second = load_pack<float, 4>(factors.of_second + i);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float first = at.place.second ? other[i + j] : own[i + j],
                    second = at.place.second ? own[i + j] : other[i + j];
        own[i + j] = rotated_element(first, factors.first_sign * of_first[j], second,
                                     factors.second_sign * of_second[j]);
      }
    }
  }
  __device__ void rotate_one(const Place& place, int column, uint32_t row, float& own) const {
    if (place.to_other == 0) return;
    const float other = load_one<float>(x.x, row * columns + column + place.to_other);
    const Factors factors = factors_at(place, row);
    own = rotated_element(place.second ? other : own, factors.first_sign * *factors.of_first,
                          place.second ? own : other, factors.second_sign * *factors.of_second);
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

void quantize_rope(const RotatedHeads& heads, const QuantizedOutput& out) {
  // Chunks must not cross from one half of a head to the other.
  quantize_from({&heads.x}, heads.x.shape[3] / 2, out,
                [&](auto tag) { return Rotated<typename decltype(tag)::type>(heads); },
                {&heads.cosine, &heads.sine});
}

}  // namespace binade::backend::cuda
