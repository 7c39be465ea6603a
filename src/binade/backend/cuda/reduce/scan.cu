#include "binade/backend/cuda/reduce/scan.cuh"

#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/kernels.h"
#include "binade/backend/scan.h"

// Products are double, as on the CPU: memory limits the speed anyway.
namespace binade::backend::cuda {
namespace {

struct Product {
  using Value = double;
  static __device__ double identity() { return 1; }
  static __device__ double join(double a, double b) { return a * b; }
};

struct RunningProduct : Product {
  Lines x, y;

  RunningProduct(const Lines& from, const Lines& to) : x(from), y(to) {}

  struct Ends {
    Line x, y;
    __device__ double load(int64_t i) const { return x.load<double>(i); }
    __device__ void store(int64_t i, double, double now) const { y.store(i, now); }
  };
  __device__ Ends line(int64_t i) const { return {Line(x, i), Line(y, i)}; }
};

// The product of all elements before each.
struct ProductBefore : Product {
  Lines x;
  double* products;  // [lines, count]
  int64_t count;

  ProductBefore(const Lines& from, double* to, int64_t length)
      : x(from), products(to), count(length) {}

  struct Ends {
    Line x;
    double* products;
    __device__ double load(int64_t i) const { return x.load<double>(i); }
    __device__ void store(int64_t i, double before, double) const { products[i] = before; }
  };
  __device__ Ends line(int64_t i) const { return {Line(x, i), products + i * count}; }
};

// s -> add + factor * s
struct Affine {
  double factor, add;
};

// s[i] = dy[i] + x[i + 1] * s[i + 1], from the back: position 0 is the last element. The recurrence
// itself is not associative, but the composition of affine functions of s is.
struct Tail {
  using Value = Affine;
  Lines x, dy, dx;
  const double* products;
  int64_t count;

  struct Ends {
    Line x, dy, dx;
    const double* products;
    int64_t count;
    __device__ Affine load(int64_t i) const {
      return {i > 0 ? x.load<double>(i - 1) : 0.0, dy.load<double>(i)};
    }
    __device__ void store(int64_t i, const Affine&, const Affine& now) const {
      dx.store(i, products[count - 1 - i] * now.add);
    }
  };

  static __device__ Affine identity() { return {1, 0}; }
  static __device__ Affine join(const Affine& earlier, const Affine& later) {
    // An infinite factor times the identity's 0 would not be 0.
    if (earlier.factor == 1 && earlier.add == 0) return later;
    return {later.factor * earlier.factor, later.add + later.factor * earlier.add};
  }
  __device__ Ends line(int64_t i) const {
    return {Line(x, i), Line(dy, i), Line(dx, i), products + i * count, count};
  }
};

void cumprod(TensorView x, int axis, TensorView y) {
  if (y.numel() == 0) return;
  const int64_t count = x.shape[axis], lines = x.numel() / count;
  run_scan(RunningProduct(Lines(x, axis, false), Lines(y, axis, false)), lines, count,
           lines_beside(x, axis));
}

void cumprod_backward(TensorView dy, TensorView x, int axis, TensorView dx) {
  if (dx.numel() == 0) return;
  const int64_t count = x.shape[axis], lines = x.numel() / count;
  const bool beside = lines_beside(x, axis);
  const Tensor before = workspace({lines, count}, DType::f64);
  double* products = static_cast<double*>(before.raw_data());
  run_scan(ProductBefore(Lines(x, axis, false), products, count), lines, count, beside);
  run_scan(
      Tail{Lines(x, axis, true), Lines(dy, axis, true), Lines(dx, axis, true), products, count},
      lines, count, beside);
}

}  // namespace

const ScanKernels scan_kernels{.cumprod = cumprod, .cumprod_backward = cumprod_backward};

}  // namespace binade::backend::cuda
