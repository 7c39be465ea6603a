#include "binade/backend/activation.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "binade/backend/cpu/elementwise/activation_rows.h"
#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cpu/rows/dense_rows.h"
#include "binade/base/division.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {
namespace {

// Elements converted and computed on at a time, so that the scratch stays in the L1 cache. A
// multiple of the four draws of a random block.
constexpr int64_t piece = 1024;
constexpr int64_t grain = 16 * piece;

// Calls body(offset, count) for pieces of [0, n).
template <class F>
void for_each_piece(int64_t n, F body) {
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += piece) body(at, std::min(piece, end - at));
  });
}

// Calls body(row, column, count) for pieces of the rows of [rows, width].
template <class F>
void for_each_row_piece(int64_t rows, int64_t width, F body) {
  parallel_for(rows, std::max<int64_t>(1, grain / std::max<int64_t>(1, width)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   for (int64_t at = 0; at < width; at += piece)
                     body(row, at, std::min(piece, width - at));
                 }
               });
}

template <class T>
void swiglu_as(const TensorView& x, const TensorView& y) {
  const ActivationRows<T>& math = activation_rows<T>();
  const int64_t width = y.shape.back();
  for_each_row_piece(width == 0 ? 0 : y.numel() / width, width,
                     [&](int64_t row, int64_t at, int64_t n) {
                       T gate_scratch[piece], up_scratch[piece], y_scratch[piece];
                       const T* gate = load(x, row * 2 * width + at, n, gate_scratch);
                       const T* up = load(x, (row * 2 + 1) * width + at, n, up_scratch);
                       T* out = row_target(y, row * width + at, y_scratch);
                       math.swiglu(gate, up, n, out);
                       store(out, y, row * width + at, n);
                     });
}

void swiglu(TensorView x, TensorView y) {
  with_compute_type("swiglu", x.dtype,
                    [&](auto tag) { swiglu_as<typename decltype(tag)::type>(x, y); });
}

template <class T>
void swiglu_backward_as(const TensorView& dy, const TensorView& x, const TensorView& dx) {
  const ActivationRows<T>& math = activation_rows<T>();
  const int64_t width = dy.shape.back();
  for_each_row_piece(width == 0 ? 0 : dy.numel() / width, width,
                     [&](int64_t row, int64_t at, int64_t n) {
                       T dy_scratch[piece], gate_scratch[piece], up_scratch[piece],
                           dgate[piece] = {}, dup[piece] = {};
                       const int64_t gate_at = row * 2 * width + at, up_at = gate_at + width;
                       const T* g = load(dy, row * width + at, n, dy_scratch);
                       const T* gate = load(x, gate_at, n, gate_scratch);
                       const T* up = load(x, up_at, n, up_scratch);
                       math.swiglu_backward(g, gate, up, n, dgate, dup);
                       store(dgate, dx, gate_at, n);
                       store(dup, dx, up_at, n);
                     });
}

void swiglu_backward(const SwiGluBackward& args) {
  if (args.y.present) swiglu(args.x, args.y);  // first: dx may be x
  with_compute_type("swiglu_backward", args.x.dtype, [&](auto tag) {
    swiglu_backward_as<typename decltype(tag)::type>(args.dy, args.x, args.dx);
  });
}

// act' of every bf16, indexed by its bits, as ActivationRows::backward computes it.
template <Activation activation>
const float* derivatives() {
  static const std::vector<float> table = [] {
    constexpr size_t codes = 1 << 16;
    std::vector<float> x(codes), derivative(codes, 1.0f);
    for (size_t i = 0; i < codes; ++i) x[i] = bf16::from_bits(static_cast<uint16_t>(i));
    activation_rows<float>().backward(activation, derivative.data(), x.data(), codes,
                                      derivative.data());
    return derivative;
  }();
  return table.data();
}

// The table of derivatives if a lookup is faster than computing them: for long functions on vectors
// of only four lanes. Else null.
const float* derivative_table(Activation activation, DType x) {
  if (x != DType::bf16 || activation_rows<float>().lanes > 4) return nullptr;
  switch (activation) {
    case Activation::gelu:
      return derivatives<Activation::gelu>();
    case Activation::gelu_tanh:
      return derivatives<Activation::gelu_tanh>();
    case Activation::silu:
      return derivatives<Activation::silu>();
    default:
      return nullptr;
  }
}

// dx = dy * derivatives[x]. Four at a time: dx may be dy, so each load would wait for the store
// before it.
template <class T>
void multiply_by_derivatives(const T* dy, const bf16* x, const float* derivatives, int64_t n,
                             T* dx) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    uint64_t codes;
    std::memcpy(&codes, x + i, sizeof codes);
    const T first = dy[i] * derivatives[codes & 0xffff],
            second = dy[i + 1] * derivatives[codes >> 16 & 0xffff],
            third = dy[i + 2] * derivatives[codes >> 32 & 0xffff],
            fourth = dy[i + 3] * derivatives[codes >> 48];
    dx[i] = first;
    dx[i + 1] = second;
    dx[i + 2] = third;
    dx[i + 3] = fourth;
  }
  for (; i < n; ++i) dx[i] = dy[i] * derivatives[x[i].bits];
}

// The backward of some elements at a time.
template <class T>
struct BackwardPiece {
  Activation activation;
  TensorView dy, x, dx;
  const float* derivatives;  // of every bf16, or null

  explicit BackwardPiece(const ActivationBackward& args)
      : activation(args.activation),
        dy(args.dy),
        x(args.pre_activation),
        dx(args.dx),
        derivatives(derivative_table(activation, x.dtype)) {}

  // Writes dx of n elements from `at`. Returns them before rounding; they may be in scratch.
  const T* operator()(int64_t at, int64_t n, T* scratch) const {
    T dy_scratch[piece], x_scratch[piece];
    const T* g = load(dy, at, n, dy_scratch);
    T* out = row_target(dx, at, scratch);
    if (derivatives != nullptr) {
      multiply_by_derivatives(g, x.as<bf16>() + at, derivatives, n, out);
    } else {
      activation_rows<T>().backward(activation, g, load(x, at, n, x_scratch), n, out);
    }
    store(out, dx, at, n);
    return out;
  }
};

// Rows per partial sum; the partial sums are added in order.
constexpr int64_t summed_rows = 64;

// Runs `backward` on all rows and sums its results.
template <class T>
void sum_backward(const BackwardPiece<T>& backward, const Target& dbias) {
  const int64_t width = dbias.view.numel(), rows = width == 0 ? 0 : backward.dx.numel() / width;
  const int64_t chunks = divide_up(rows, summed_rows), pieces = divide_up(width, piece);
  std::vector<T> sums(static_cast<size_t>(chunks * width));
  parallel_for(chunks * pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t chunk = item / pieces, column = item % pieces * piece,
                    n = std::min(piece, width - column);
      T* sum = sums.data() + chunk * width + column;
      for (int64_t row = chunk * summed_rows; row < std::min(rows, (chunk + 1) * summed_rows);
           ++row) {
        T scratch[piece];
        const T* values = backward(row * width + column, n, scratch);
        for (int64_t i = 0; i < n; ++i) sum[i] += values[i];
      }
    }
  });
  parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin * piece; at < std::min(width, end * piece); at += piece) {
      const int64_t n = std::min(piece, width - at);
      T total[piece] = {};
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        const T* sum = sums.data() + chunk * width + at;
        for (int64_t i = 0; i < n; ++i) total[i] += sum[i];
      }
      store(total, dbias, at, n);
    }
  });
}

// The elementwise function of an activation; a copy for none.
void apply(Activation activation, const TensorView& x, const TensorView& y) {
  switch (activation) {
    case Activation::none:
      return elementwise_kernels.copy(x, y);
    case Activation::relu:
      return elementwise_kernels.unary(Unary::relu, {}, x, y);
    case Activation::gelu:
      return elementwise_kernels.unary(Unary::gelu, {}, x, y);
    case Activation::gelu_tanh:
      return elementwise_kernels.unary(Unary::gelu_tanh, {}, x, y);
    case Activation::silu:
      return elementwise_kernels.unary(Unary::silu, {}, x, y);
  }
}

void activation_backward(const ActivationBackward& args) {
  if (args.y.present) apply(args.activation, args.pre_activation, args.y);
  with_compute_type("activation_backward", args.pre_activation.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const BackwardPiece<T> backward(args);
    if (args.dbias.present()) return sum_backward(backward, args.dbias);
    for_each_piece(args.dx.numel(), [&](int64_t at, int64_t n) {
      T scratch[piece];
      backward(at, n, scratch);
    });
  });
}

// random::uniform(key.seed, key.stream, at + i), four draws per block. `at` is a multiple of four.
void draw_uniform(random::Key key, int64_t at, int64_t n, float* out) {
  for (int64_t i = 0; i < n; i += 4) {
    const std::array<uint32_t, 4> words =
        random::block(key.seed, key.stream, static_cast<uint64_t>(at + i) / 4);
    for (int64_t k = 0; k < std::min<int64_t>(4, n - i); ++k)
      out[i + k] = static_cast<float>(words[k] >> 8) * 0x1p-24f;
  }
}

void dropout(TensorView x, double p, random::Key key, TensorView y) {
  with_compute_type("dropout", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const float threshold = static_cast<float>(p);
    const T scale = p < 1 ? static_cast<T>(1 / (1 - p)) : T{0};
    for_each_piece(x.numel(), [&](int64_t at, int64_t n) {
      T x_scratch[piece], y_scratch[piece];
      float draws[piece];
      draw_uniform(key, at, n, draws);
      const T* in = load(x, at, n, x_scratch);
      T* out = row_target(y, at, y_scratch);
      for (int64_t i = 0; i < n; ++i) out[i] = draws[i] >= threshold ? in[i] * scale : T{0};
      store(out, y, at, n);
    });
  });
}

// Fills y with value(index), computed in y's compute type.
template <class F>
void fill_by_index(const TensorView& y, const char* op, F value) {
  with_compute_type(op, y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_piece(y.numel(), [&](int64_t at, int64_t n) {
      T scratch[piece];
      T* out = row_target(y, at, scratch);
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(value(static_cast<uint64_t>(at + i)));
      store(out, y, at, n);
    });
  });
}

void fill_normal(double mean, double deviation, random::Key key, TensorView y) {
  fill_by_index(y, "fill_normal", [&](uint64_t i) {
    return mean + deviation * static_cast<double>(random::normal(key.seed, key.stream, i));
  });
}

void fill_uniform(double low, double high, random::Key key, TensorView y) {
  fill_by_index(y, "fill_uniform", [&](uint64_t i) {
    return low + (high - low) * static_cast<double>(random::uniform(key.seed, key.stream, i));
  });
}

}  // namespace

const ActivationKernels activation_kernels{.swiglu = swiglu,
                                           .swiglu_backward = swiglu_backward,
                                           .activation_backward = activation_backward,
                                           .dropout = dropout,
                                           .fill_normal = fill_normal,
                                           .fill_uniform = fill_uniform};

}  // namespace binade::backend::cpu
