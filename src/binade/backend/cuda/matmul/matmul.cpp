#include "binade/backend/matmul.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "binade/backend/cuda/device.h"
#include "binade/backend/cuda/kernels.h"
#include "binade/backend/cuda/matmul/cublaslt.h"
#include "binade/backend/cuda/matmul/epilogue.h"
#include "binade/backend/cuda/matmul/fused_backward.h"
#include "binade/backend/cuda/matmul/fused_cross_entropy.h"
#include "binade/backend/cuda/matmul/fused_forward.h"
#include "binade/base/division.h"

namespace binade::backend::cuda {
namespace {

constexpr int64_t max_batch = 65535;   // of one launch: CUDA's limit for a grid's y and z axes
constexpr int64_t fp8_multiple = 16;   // cuBLASLt's alignment of FP8 sizes and addresses
constexpr int64_t scale_multiple = 4;  // cuBLASLt's alignment of rows of block scales

// Copies and other scratch of one matmul. A device works in order, so the memory may be reused as
// soon as all kernels are launched.
class Workspace {
 public:
  TensorView get(const Shape& shape, DType dtype) {
    const memory::CategoryGuard category(memory::Category::workspace);
    return held_.emplace_back(Tensor::empty(shape, dtype, device()));
  }

 private:
  std::vector<Tensor> held_;
};

// The type that both operands are multiplied in: their own if they share one, else one that holds
// both exactly. FP8 stays FP8 if `fp8`.
DType operand_type(DType a, DType b, bool fp8) {
  if (a == DType::f64 || b == DType::f64) return DType::f64;
  if (is_quantized(a) && is_quantized(b)) return fp8 ? DType::e4m3 : DType::bf16;
  if (is_quantized(a)) return b;
  if (is_quantized(b)) return a;
  return a == b ? a : DType::f32;
}

// Whether cuBLASLt writes GEMMs of `type` operands as `result`.
bool writes(DType type, DType result) {
  if (type == DType::f64) return result == DType::f64;
  if (result == DType::f32 || type == result) return is_compute(result);
  return is_quantized(type) && (result == DType::bf16 || result == DType::f16);
}

// Whether rows are dense and do not overlap.
bool has_dense_rows(const TensorView& y) {
  return (y.strides[2] == 1 || y.shape[2] == 1) &&
         (y.strides[1] >= y.shape[2] || y.shape[1] == 1) && (y.strides[0] > 0 || y.shape[0] == 1);
}

int64_t row_distance(const TensorView& y) {
  return y.shape[1] == 1 ? std::max<int64_t>(y.shape[2], 1) : y.strides[1];
}

int64_t batch_distance(const TensorView& x) { return x.shape[0] == 1 ? 0 : x.strides[0]; }

// ---- operands: [batch, outer, depth]; b is transposed first ----

// Whether the summed axis or the outer one is contiguous, and the stride of the other.
struct OperandLayout {
  bool along_depth;
  int64_t leading;
};

std::optional<OperandLayout> layout_of(const TensorView& x) {
  const int64_t outer = x.shape[1], depth = x.shape[2];
  if (x.strides[0] < 0 && x.shape[0] > 1) return {};
  if ((x.strides[2] == 1 || depth == 1) && (x.strides[1] >= depth || outer == 1))
    return OperandLayout{true, outer == 1 ? depth : x.strides[1]};
  if ((x.strides[1] == 1 || outer == 1) && (x.strides[2] >= outer || depth == 1))
    return OperandLayout{false, depth == 1 ? outer : x.strides[2]};
  return {};
}

// A batch that repeats one matrix as that matrix alone.
TensorView without_repeats(TensorView x) {
  if (x.strides[0] == 0) x.shape[0] = 1;
  return x;
}

// A dense copy as `type`; a repeated matrix is copied once.
TensorView dense_copy(const TensorView& x, DType type, Workspace& workspace) {
  const TensorView from = without_repeats(x);
  TensorView to = workspace.get(from.shape, type);
  elementwise_kernels.copy(from, to);
  if (x.shape[0] != from.shape[0]) {
    to.shape[0] = x.shape[0];
    to.strides[0] = 0;
  }
  return to;
}

// x itself, or a copy in `type` and in a layout that cuBLASLt can read.
TensorView readable(const TensorView& x, DType type, Workspace& workspace) {
  return x.dtype == type && layout_of(x) ? x : dense_copy(x, type, workspace);
}

bool is_fp8_aligned(int64_t value) { return value % fp8_multiple == 0; }
bool aligned(const TensorView& x) {
  return is_fp8_aligned(static_cast<int64_t>(reinterpret_cast<uintptr_t>(x.data)));
}

// FP8 operands must be contiguous along the summed axis.
TensorView readable_fp8(const TensorView& x, Workspace& workspace) {
  const std::optional<OperandLayout> layout = layout_of(x);
  if (layout && layout->along_depth && is_fp8_aligned(layout->leading) && aligned(x) &&
      is_fp8_aligned(batch_distance(x)))
    return x;
  if (!layout || layout->along_depth) return dense_copy(x, x.dtype, workspace);
  TensorView from = transposed(without_repeats(x));  // [batch, depth, outer], rows dense
  from.strides[1] = layout->leading;
  TensorView to = workspace.get({from.shape[0], x.shape[1], x.shape[2]}, x.dtype);
  transpose_bytes(from, to);
  to.shape[0] = x.shape[0];
  if (from.shape[0] != x.shape[0]) to.strides[0] = 0;
  return to;
}

// Whether cuBLASLt multiplies these FP8 matrices on this GPU.
bool multiplies_fp8(const TensorView& a, const TensorView& b, const TensorView& y) {
  const int64_t unit = fp8_multiple / static_cast<int64_t>(size_of(y.dtype));
  return is_quantized(a.dtype) && is_quantized(b.dtype) && properties().capability() >= 89 &&
         !(a.dtype == DType::e5m2 && b.dtype == DType::e5m2) && is_fp8_aligned(a.shape[2]) &&
         is_fp8_aligned(y.shape[2]) && aligned(y) && row_distance(y) % unit == 0 &&
         batch_distance(y) % unit == 0;
}

// ---- scales finer than a tensor ----

std::optional<BlasScale> scaling_of(ScaleGroup group) {
  if (group == ScaleGroup{}) return BlasScale::tensor;
  if (group == ScaleGroup{1, 0}) return BlasScale::outer;
  if (group == ScaleGroup{1, 128}) return BlasScale::line;
  if (group == ScaleGroup{128, 128}) return BlasScale::block;
  return {};
}

bool has_block_scales(BlasScale scaling) {
  return scaling == BlasScale::line || scaling == BlasScale::block;
}

// Whether cuBLASLt may multiply operands with these scales on this GPU; the final answer depends on
// the shape and is cuBLASLt's. Only Hopper supports all of them.
bool multiplies_groups(const TensorView& a, const TensorView& b, const TensorView& y,
                       const Epilogue& e) {
  const TensorView& pre = e.pre_activation;
  const auto readable = [](const TensorView& scale) {
    return scale.present && scale.dtype == DType::f32 && aligned(scale);
  };
  if (properties().capability() != 90 || y.shape[0] != 1 || a.shape[2] == 0 ||
      !multiplies_fp8(a, b, y) || !writes(DType::e4m3, y.dtype) || !has_dense_rows(y) ||
      (pre.present && (pre.dtype != y.dtype || !has_dense_rows(pre))) || !readable(e.scale_a) ||
      !readable(e.scale_b))
    return false;
  const std::optional<BlasScale> left = scaling_of(e.group_a), right = scaling_of(e.group_b);
  if (!left || !right) return false;
  if (*left == BlasScale::outer || *right == BlasScale::outer) return left == right;
  return has_block_scales(*left) && has_block_scales(*right) &&
         (*left == BlasScale::line || *right == BlasScale::line) &&
         y.shape[1] % scale_multiple == 0;
}

// The scales [rows, columns] of an operand as cuBLASLt reads them.
const float* readable_scales(const TensorView& scale, BlasScale scaling, Workspace& workspace) {
  if (scaling == BlasScale::line) {
    TensorView from = scale;
    std::swap(from.shape[0], from.shape[1]);
    std::swap(from.strides[0], from.strides[1]);
    const TensorView to = workspace.get(from.shape, DType::f32);
    elementwise_kernels.copy(from, to);
    return to.as<const float>();
  }
  if (scaling == BlasScale::block && scale.shape[1] % scale_multiple != 0) {
    const int64_t rows = scale.shape[0], columns = scale.shape[1];
    TensorView to = workspace.get({rows, round_up(columns, scale_multiple)}, DType::f32);
    elementwise_kernels.fill(to, 0);
    to.shape[1] = columns;
    elementwise_kernels.copy(scale, to);
    return to.as<const float>();
  }
  return scale.as<const float>();
}

BlasMatrix matrix(const TensorView& x, int64_t leading) {
  return {x.data, x.dtype, leading, batch_distance(x)};
}

// ---- one GEMM whose result cuBLASLt can write ----

// bias as a dense vector of `type`.
TensorView bias_as(const TensorView& bias, DType type, Workspace& workspace) {
  if (bias.dtype == type && bias.is_dense()) return bias;
  const TensorView copy = workspace.get(bias.shape, type);
  elementwise_kernels.copy(bias, copy);
  return copy;
}

// The GEMM without bias and activation. Row-major y is column-major y^T = b^T a^T.
BlasGemm describe_gemm(const TensorView& a, const TensorView& b, const TensorView& y,
                       const Epilogue& e, Workspace& workspace) {
  const bool fp8 = multiplies_fp8(a, b, y);
  const DType type = operand_type(a.dtype, b.dtype, fp8);
  const TensorView left = fp8 ? readable_fp8(a, workspace) : readable(a, type, workspace);
  const TensorView right =
      fp8 ? readable_fp8(transposed(b), workspace) : readable(transposed(b), type, workspace);
  const OperandLayout left_layout = *layout_of(left), right_layout = *layout_of(right);
  BlasGemm p{.rows = y.shape[2],
             .columns = y.shape[1],
             .depth = a.shape[2],
             .batch = y.shape[0],
             .a = matrix(right, right_layout.leading),
             .b = matrix(left, left_layout.leading),
             .d = matrix(y, row_distance(y)),
             .transpose_a = right_layout.along_depth,
             .transpose_b = !left_layout.along_depth,
             .alpha = e.alpha,
             .beta = e.beta,
             .tf32 = e.tf32 && type == DType::f32,
             .fast_accumulation = fp8 && e.fast_accumulation};
  if (fp8) {
    p.scaling_a = *scaling_of(e.group_b);
    p.scaling_b = *scaling_of(e.group_a);
    if (e.scale_b.present) p.scale_a = readable_scales(e.scale_b, p.scaling_a, workspace);
    if (e.scale_a.present) p.scale_b = readable_scales(e.scale_a, p.scaling_b, workspace);
    // Each block's sum is scaled separately, in f32.
    if (has_block_scales(p.scaling_a)) p.fast_accumulation = false;
  } else if (e.scale_a.present || e.scale_b.present) {
    const TensorView scalars = workspace.get({2}, accumulation_type(type));
    combine_scales(e.alpha, e.scale_a, e.scale_b, e.beta, scalars);
    p.device_scalars = scalars.data;
  }
  return p;
}

bool can_fuse_gelu(const TensorView& y, const Epilogue& e) {
  const TensorView& pre = e.pre_activation;
  return e.activation == Activation::gelu_tanh && size_of(y.dtype) == 2 &&
         (!pre.present ||
          (aligned(pre) && row_distance(pre) % 8 == 0 && batch_distance(pre) % 8 == 0));
}

// Runs the GEMM; if `fused`, cuBLASLt applies bias and GELU as far as it supports them. finish()
// does the rest. False, with nothing written, if cuBLASLt cannot run it.
bool run(BlasGemm p, const TensorView& y, const Epilogue& e, bool fused, Workspace& workspace) {
  const TensorView& pre = e.pre_activation;
  // With FP8 operands and an f32 result, cuBLASLt wants a bf16 bias.
  const bool bias = fused && e.bias.present && !(is_quantized(p.a.type) && y.dtype == DType::f32);
  // With block scales, some of cuBLASLt's GELU epilogues give wrong results.
  const bool gelu = fused && can_fuse_gelu(y, e) && !has_block_scales(p.scaling_a);
  const bool missing_bias = e.bias.present && !bias;
  const bool missing = missing_bias || (!gelu && (pre.present || e.activation != Activation::none));
  // finish() reads the activation's argument: writing it to pre first saves a copy.
  const bool into_pre = fused && missing && pre.present && e.beta == 0;
  const TensorView& result = into_pre ? pre : y;
  p.d = matrix(result, row_distance(result));
  if (bias) p.bias = bias_as(e.bias, y.dtype, workspace).data;
  p.gelu = gelu;
  if (gelu && pre.present) p.aux = matrix(pre, row_distance(pre));
  if (!blas_gemm(p)) return false;
  if (missing) {
    finish(result,
           missing_bias ? bias_as(e.bias, accumulation_type(y.dtype), workspace) : TensorView(),
           into_pre && !missing_bias ? TensorView() : pre, y, e.activation);
  }
  return true;
}

void multiply(const TensorView& a, const TensorView& b, const TensorView& y, const Epilogue& e) {
  Workspace workspace;
  if (a.shape[2] == 0) {
    if (e.beta == 0) {
      elementwise_kernels.fill(y, 0);
    } else {
      elementwise_kernels.axpby(e.beta, y, 0, y);
    }
    const TensorView bias =
        e.bias.present ? bias_as(e.bias, accumulation_type(y.dtype), workspace) : TensorView();
    return finish(y, bias, e.pre_activation, y, e.activation);
  }
  const MatmulCall call{a, b, y, e};
  if (fused_gelu.supports(call)) return fused_gelu.run(call);
  const BlasGemm p = describe_gemm(a, b, y, e, workspace);
  if (run(p, y, e, true, workspace) || run(p, y, e, false, workspace)) return;
  fail("matmul", {.argument = "a, b, y",
                  .expected = "a matmul that cuBLASLt can run",
                  .found = to_string(a.shape) + " " + std::string(name(a.dtype)) + " x " +
                           to_string(b.shape) + " " + std::string(name(b.dtype)) + " into " +
                           std::string(name(y.dtype))});
}

// Operands with scales finer than a tensor. False, with nothing written, if cuBLASLt cannot.
bool multiply_groups(const TensorView& a, const TensorView& b, const TensorView& y,
                     const Epilogue& e) {
  if (!multiplies_groups(a, b, y, e)) return false;
  Workspace workspace;
  const BlasGemm p = describe_gemm(a, b, y, e, workspace);
  return run(p, y, e, true, workspace) || run(p, y, e, false, workspace);
}

// An FP8 result of FP8 operands, scaled per tensor. False, with nothing written, if cuBLASLt
// cannot.
bool multiply_quantized(const TensorView& a, const TensorView& b, const TensorView& y,
                        const Epilogue& e) {
  if (has_groups(e) || e.bias.present || e.activation != Activation::none || e.beta != 0 ||
      y.dtype != DType::e4m3 || y.shape[0] != 1 || a.shape[2] == 0 || !has_dense_rows(y) ||
      !multiplies_fp8(a, b, y))
    return false;
  Workspace workspace;
  BlasGemm p = describe_gemm(a, b, y, e, workspace);
  p.scale_d = e.scale_y.as<const float>();
  if (e.amax_y.present) p.amax_d = e.amax_y.as<float>();
  return blas_gemm(p);
}

// ---- any matmul ----

// Matmuls of a batch that share b and whose rows are evenly spaced throughout become one tall
// matmul.
void join_batch(TensorView& a, TensorView& b, TensorView& y, TensorView& pre) {
  const auto follows = [](const TensorView& x) {
    return !x.present || x.strides[0] == x.shape[1] * x.strides[1];
  };
  if (y.shape[0] == 1 || b.strides[0] != 0 || !follows(a) || !follows(y) || !follows(pre)) return;
  b.shape[0] = 1;
  for (TensorView* x : {&a, &y, &pre}) {
    if (!x->present) continue;
    x->shape[1] *= x->shape[0];
    x->shape[0] = 1;
  }
}

TensorView part_of_batch(TensorView x, int64_t begin, int64_t count) {
  if (!x.present) return x;
  x.data = x.as<char>() + begin * x.strides[0] * static_cast<int64_t>(size_of(x.dtype));
  x.shape[0] = count;
  return x;
}

void matmul(TensorView a, TensorView b, TensorView y, const Epilogue& epilogue);

// Multiplies into dense tensors of the sums' type and copies them to y and the pre-activation.
void multiply_into_copy(const TensorView& a, const TensorView& b, const TensorView& y,
                        const Epilogue& epilogue) {
  Workspace workspace;
  const DType sums = accumulation_type(operand_type(a.dtype, b.dtype, false));
  const TensorView result = workspace.get(y.shape, sums);
  Epilogue e = epilogue;
  if (e.beta != 0) elementwise_kernels.copy(y, result);
  if (e.pre_activation.present) e.pre_activation = workspace.get(y.shape, sums);
  matmul(a, b, result, e);
  if (e.pre_activation.present) elementwise_kernels.copy(e.pre_activation, epilogue.pre_activation);
  elementwise_kernels.copy(result, y);
}

void matmul(TensorView a, TensorView b, TensorView y, const Epilogue& epilogue) {
  require_floating(a, b, y, epilogue);
  if (y.numel() == 0) return;
  const MatmulDevice gpu{device(), matmul_kernels, quantize_kernels};
  if (epilogue.scale_y.present) {
    if (multiply_quantized(a, b, y, epilogue)) return;
    return matmul_quantized(gpu, a, b, y, epilogue);
  }
  if (has_groups(epilogue)) {
    if (multiply_groups(a, b, y, epilogue)) return;
    return matmul_dequantized(gpu, a, b, y, epilogue);
  }
  Epilogue e = epilogue;
  TensorView& pre = e.pre_activation;
  join_batch(a, b, y, pre);
  const bool plain = !e.bias.present && !pre.present && e.activation == Activation::none;
  if (!has_dense_rows(y) && plain && has_dense_rows(transposed(y))) {
    const TensorView left = transposed(b);
    b = transposed(a);
    a = left;
    y = transposed(y);
    std::swap(e.scale_a, e.scale_b);
  }
  const DType type = operand_type(a.dtype, b.dtype, multiplies_fp8(a, b, y));
  if (!writes(type, y.dtype) || !has_dense_rows(y) ||
      (pre.present && (pre.dtype != y.dtype || !has_dense_rows(pre)))) {
    return multiply_into_copy(a, b, y, e);
  }
  if (y.shape[0] <= max_batch) return multiply(a, b, y, e);
  for (int64_t begin = 0; begin < y.shape[0]; begin += max_batch) {
    const int64_t count = std::min(max_batch, y.shape[0] - begin);
    Epilogue part = e;
    part.pre_activation = part_of_batch(pre, begin, count);
    multiply(part_of_batch(a, begin, count), part_of_batch(b, begin, count),
             part_of_batch(y, begin, count), part);
  }
}

void matmul_activation_backward(TensorView a, TensorView b, const ActivationBackward& args) {
  const MatmulBefore<ActivationBackward> call{a, b, args};
  if (fused_activation_backward.supports(call)) return fused_activation_backward.run(call);
  matmul(batch_of_one(a), batch_of_one(b), batch_of_one(args.dy), {});
  activation_kernels.activation_backward(args);
}

void matmul_swiglu_backward(TensorView a, TensorView b, const SwiGluBackward& args) {
  const MatmulBefore<SwiGluBackward> call{a, b, args};
  if (fused_swiglu_backward.supports(call)) return fused_swiglu_backward.run(call);
  matmul(batch_of_one(a), batch_of_one(b), batch_of_one(args.dy), {});
  activation_kernels.swiglu_backward(args);
}

}  // namespace

// These tables are constant before any code runs, so they do not copy pointers of other files.
const MatmulKernels matmul_kernels{
    .matmul = matmul,
    .matmul_activation_backward = matmul_activation_backward,
    .matmul_swiglu_backward = matmul_swiglu_backward,
    .matmul_swiglu = [](const LinearSwiGlu& args) { fused_swiglu.run(args); },
    .matmul_cross_entropy = [](const LinearCrossEntropy& args) { fused_cross_entropy.run(args); }};

}  // namespace binade::backend::cuda
