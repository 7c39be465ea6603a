#pragma once

#include "binade/autograd/grad_mode.h"
#include "binade/ops/composed.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"

// Names that programs for LibTorch use for what has another name or a longer form here.
namespace binade {

inline constexpr DType kFloat64 = DType::f64, kDouble = DType::f64, kFloat32 = DType::f32,
                       kFloat = DType::f32, kFloat16 = DType::f16, kHalf = DType::f16,
                       kBFloat16 = DType::bf16, kFloat8_e4m3fn = DType::e4m3,
                       kFloat8_e5m2 = DType::e5m2, kInt64 = DType::i64, kLong = DType::i64,
                       kInt32 = DType::i32, kInt = DType::i32, kUInt8 = DType::u8,
                       kByte = DType::u8, kBool = DType::boolean;
inline constexpr Reduce kMean = Reduce::mean, kSum = Reduce::sum;
inline constexpr Device kCPU = Device::cpu(), kCUDA = Device::cuda(), kMeta = Device::meta();

using NoGradGuard = NoGrad;
using InferenceMode = NoGrad;
using IntArrayRef = Shape;
using TensorList = std::span<const Tensor>;

// torch::AutoGradMode and torch::GradMode.
class AutoGradMode : autograd::GradMode {
 public:
  explicit AutoGradMode(bool enabled) : GradMode(enabled) {}
};
struct GradMode {
  static bool is_enabled() { return autograd::grad_enabled(); }
};

inline Tensor ne(const Tensor& a, const Tensor& b) { return not_equal(a, b); }
inline Tensor ne(const Tensor& a, Scalar b) { return not_equal(a, b); }
inline Tensor lt(const Tensor& a, const Tensor& b) { return less(a, b); }
inline Tensor lt(const Tensor& a, Scalar b) { return less(a, b); }
inline Tensor le(const Tensor& a, const Tensor& b) { return less_equal(a, b); }
inline Tensor le(const Tensor& a, Scalar b) { return less_equal(a, b); }
inline Tensor gt(const Tensor& a, const Tensor& b) { return greater(a, b); }
inline Tensor gt(const Tensor& a, Scalar b) { return greater(a, b); }
inline Tensor ge(const Tensor& a, const Tensor& b) { return greater_equal(a, b); }
inline Tensor ge(const Tensor& a, Scalar b) { return greater_equal(a, b); }
inline Tensor isfinite(const Tensor& x) { return is_finite(x); }
inline Tensor isnan(const Tensor& x) { return is_nan(x); }
inline Tensor isinf(const Tensor& x) { return is_inf(x); }
// Whether isclose() for all elements. Waits for a GPU.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
              bool equal_nan = false);
Tensor clamp_min(const Tensor& x, double low);
Tensor clamp_max(const Tensor& x, double high);

inline Tensor amax(const Tensor& x, const Axes& axes = {}, bool keep = false) {
  return max(x, axes, keep);
}
inline Tensor amin(const Tensor& x, const Axes& axes = {}, bool keep = false) {
  return min(x, axes, keep);
}

// reshape() that copies nothing: refused if x's strides do not allow a view.
Tensor view(const Tensor& x, const Shape& shape);
inline Tensor view_as(const Tensor& x, const Tensor& other) { return view(x, other.shape()); }
inline Tensor reshape_as(const Tensor& x, const Tensor& other) { return reshape(x, other.shape()); }
inline Tensor expand_as(const Tensor& x, const Tensor& other) { return expand(x, other.shape()); }
inline Tensor swapaxes(const Tensor& x, int64_t a, int64_t b) { return transpose(x, a, b); }
// A matrix transposed; fewer than two axes stay as they are.
Tensor t(const Tensor& x);
// Without any axis of size 1.
Tensor squeeze(const Tensor& x);
inline Tensor narrow(const Tensor& x, int64_t axis, int64_t begin, int64_t count) {
  return slice(x, axis, begin, begin + count);
}
// x at each index of an axis, without that axis.
std::vector<Tensor> unbind(const Tensor& x, int64_t axis = 0);

inline Tensor to(const Tensor& x, DType dtype) { return cast(x, dtype); }
inline Tensor to(const Tensor& x, Device device, DType dtype) { return cast(to(x, device), dtype); }

inline Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target) {
  return bce_with_logits(logits, target);
}

}  // namespace binade
