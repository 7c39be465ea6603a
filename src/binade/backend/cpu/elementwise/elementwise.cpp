#include "binade/backend/elementwise.h"

#include "binade/backend/cast.h"
#include "binade/backend/cpu/elementwise/blocks.h"
#include "binade/backend/cpu/elementwise/copy.h"
#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cpu/rows/strided.h"
#include "binade/base/parallel.h"

// All kernels work alike: convert a block of each operand to the compute type, run a function of
// blocks.h on it, and convert the result to the output's type.
namespace binade::backend::cpu {
namespace {

bool is_integer(DType dtype) { return !is_floating(dtype); }
bool is_f64(DType dtype) { return dtype == DType::f64; }

template <class F>
void with_floating_type(bool wide, F&& f) {
  if (wide) {
    f(TypeTag<double>{});
  } else {
    f(TypeTag<float>{});
  }
}

template <class T>
void unary_as(Unary op, UnaryParams params, const TensorView& x, const TensorView& y) {
  parallel_for(y.numel(), elementwise_grain, [&](int64_t begin, int64_t end) {
    Source<T> source(x);
    Sink<T> sink(y);
    for_blocks(begin, end, [&](int64_t at, int64_t n) {
      const T* in = source.read(at, n);
      unary_block(op, params, in, sink.target(at, n), n);
      sink.commit(at, n);
    });
  });
}

void unary(Unary op, UnaryParams params, TensorView x, TensorView y) {
  sort_axes({&x, &y});
  if (is_integer(x.dtype) && is_integer(y.dtype)) {
    if (computes_on_integers(op, params)) return unary_as<int64_t>(op, params, x, y);
    // double holds more integers than float does.
    return unary_as<double>(op, params, x, y);
  }
  const bool wide = is_f64(x.dtype) || (is_integer(x.dtype) && is_f64(y.dtype));
  with_floating_type(wide,
                     [&](auto tag) { unary_as<typename decltype(tag)::type>(op, params, x, y); });
}

void unary_backward(Unary op, UnaryParams params, TensorView dy, TensorView saved, Target target) {
  TensorView& dx = target.view;
  const bool accumulate = target.accumulate;
  sort_axes({&dy, &saved, &dx});
  const bool wide = is_f64(dy.dtype) || is_f64(saved.dtype) || (accumulate && is_f64(dx.dtype));
  with_floating_type(wide, [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(dx.numel(), elementwise_grain, [&](int64_t begin, int64_t end) {
      Source<T> incoming(dy), point(saved), present(dx);
      Sink<T> sink(dx);
      T gradient[block_size];
      for_blocks(begin, end, [&](int64_t at, int64_t n) {
        T* out = sink.target(at, n);
        T* product = accumulate ? gradient : out;
        gradient_block(op, params, incoming.read(at, n), point.read(at, n), product, n);
        if (accumulate) binary_block(Binary::add, present.read(at, n), product, out, n);
        sink.commit(at, n);
      });
    });
  });
}

template <class T>
void binary_as(Binary op, const TensorView& a, const TensorView& b, const TensorView& y) {
  parallel_for(y.numel(), elementwise_grain, [&](int64_t begin, int64_t end) {
    Source<T> left(a), right(b);
    Sink<T> sink(y);
    for_blocks(begin, end, [&](int64_t at, int64_t n) {
      const T* l = left.read(at, n);
      const T* r = right.read(at, n);
      binary_block(op, l, r, sink.target(at, n), n);
      sink.commit(at, n);
    });
  });
}

// Ops whose results on integers have a fraction, kept if the output can hold it.
bool has_fraction(Binary op) {
  return op == Binary::div || op == Binary::pow || op == Binary::atan2;
}

void binary(Binary op, TensorView a, TensorView b, TensorView y) {
  sort_axes({&a, &b, &y});
  const bool integers = is_integer(a.dtype) && is_integer(b.dtype);
  if (integers && !(has_fraction(op) && is_floating(y.dtype)) && op != Binary::atan2) {
    return binary_as<int64_t>(op, a, b, y);
  }
  const bool wide = is_f64(a.dtype) || is_f64(b.dtype) || (integers && is_f64(y.dtype));
  with_floating_type(wide, [&](auto tag) { binary_as<typename decltype(tag)::type>(op, a, b, y); });
}

template <class T>
void where_as(const TensorView& condition, const TensorView& a, const TensorView& b,
              const TensorView& y) {
  parallel_for(y.numel(), elementwise_grain, [&](int64_t begin, int64_t end) {
    Source<bool> test(condition);
    Source<T> yes(a), no(b);
    Sink<T> sink(y);
    for_blocks(begin, end, [&](int64_t at, int64_t n) {
      const bool* choice = test.read(at, n);
      const T* l = yes.read(at, n);
      const T* r = no.read(at, n);
      T* out = sink.target(at, n);
      for (int64_t i = 0; i < n; ++i) out[i] = choice[i] ? l[i] : r[i];
      sink.commit(at, n);
    });
  });
}

void where(TensorView condition, TensorView a, TensorView b, TensorView y) {
  sort_axes({&condition, &a, &b, &y});
  if (is_integer(a.dtype) && is_integer(b.dtype)) return where_as<int64_t>(condition, a, b, y);
  with_floating_type(is_f64(a.dtype) || is_f64(b.dtype),
                     [&](auto tag) { where_as<typename decltype(tag)::type>(condition, a, b, y); });
}

template <class T>
void axpby_as(double alpha, const TensorView& x, double beta, const TensorView& y) {
  parallel_for(y.numel(), elementwise_grain, [&](int64_t begin, int64_t end) {
    Source<T> source(x), present(y);
    Sink<T> sink(y);
    for_blocks(begin, end, [&](int64_t at, int64_t n) {
      const T* in = source.read(at, n);
      T* out = sink.target(at, n);
      if (beta == 0) {
        unary_block(Unary::scale, {.a = alpha, .b = 0}, in, out, n);
      } else {
        axpby_block(alpha, in, beta, present.read(at, n), out, n);
      }
      sink.commit(at, n);
    });
  });
}

void axpby(double alpha, TensorView x, double beta, TensorView y) {
  if (alpha == 1 && beta == 0) return copy(x, y);
  sort_axes({&x, &y});
  const bool integers = is_integer(x.dtype) && is_integer(y.dtype);
  if (integers && computes_on_integers(Unary::scale, {alpha, beta})) {
    return axpby_as<int64_t>(alpha, x, beta, y);
  }
  const bool wide = integers || is_f64(x.dtype) || is_f64(y.dtype);
  with_floating_type(wide,
                     [&](auto tag) { axpby_as<typename decltype(tag)::type>(alpha, x, beta, y); });
}

void fill(TensorView y, double value) {
  sort_axes({&y});
  dispatch(y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T element = cast<T>(value);
    const Layout layout(y);
    parallel_for(y.numel(), elementwise_grain, [&](int64_t begin, int64_t end) {
      layout.for_runs(begin, end - begin, [&](int64_t, int64_t offset, int64_t stride, int64_t n) {
        T* out = y.as<T>() + offset;
        for (int64_t i = 0; i < n; ++i) out[i * stride] = element;
      });
    });
  });
}

}  // namespace

const ElementwiseKernels elementwise_kernels{
    .unary = unary,
    .unary_backward = unary_backward,
    .binary = binary,
    .where = where,
    .axpby = axpby,
    .copy = copy,
    .fill = fill,
};

}  // namespace binade::backend::cpu
