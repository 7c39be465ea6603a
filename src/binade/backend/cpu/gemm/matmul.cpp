#include "binade/backend/matmul.h"

#include "binade/backend/activation.h"
#include "binade/backend/cpu/gemm/gemm.h"
#include "binade/backend/cpu/kernels.h"

namespace binade::backend::cpu {
namespace {

float scale_or_one(const TensorView& scale) { return scale.present ? *scale.as<float>() : 1.0f; }

void matmul(TensorView a, TensorView b, TensorView y, const Epilogue& epilogue) {
  require_floating(a, b, y, epilogue);
  const MatmulDevice cpu{Device::cpu(), matmul_kernels, quantize_kernels};
  if (epilogue.scale_y.present) return matmul_quantized(cpu, a, b, y, epilogue);
  if (has_groups(epilogue)) return matmul_dequantized(cpu, a, b, y, epilogue);
  const TensorView& pre = epilogue.pre_activation;
  if (pre.present && pre.shape[2] > 1 && pre.strides[2] != 1) {
    fail("matmul",
         {.argument = "pre_activation", .expected = "dense rows", .found = to_string(pre.strides)});
  }
  GemmProblem problem{.batch = y.shape[0],
                      .m = y.shape[1],
                      .n = y.shape[2],
                      .k = a.shape[2],
                      .a = {a.data, a.dtype, a.strides[1], a.strides[2], a.strides[0]},
                      .b = {b.data, b.dtype, b.strides[1], b.strides[2], b.strides[0]},
                      .c = {y.data, y.dtype, y.strides[1], y.strides[2], y.strides[0]},
                      .epilogue = epilogue};
  problem.epilogue.alpha =
      epilogue.alpha * scale_or_one(epilogue.scale_a) * scale_or_one(epilogue.scale_b);
  gemm(problem);
}

void matmul_activation_backward(TensorView a, TensorView b, const ActivationBackward& args) {
  matmul(batch_of_one(a), batch_of_one(b), batch_of_one(args.dy), {});
  activation_kernels.activation_backward(args);
}

void matmul_swiglu_backward(TensorView a, TensorView b, const SwiGluBackward& args) {
  matmul(batch_of_one(a), batch_of_one(b), batch_of_one(args.dy), {});
  activation_kernels.swiglu_backward(args);
}

}  // namespace

const MatmulKernels matmul_kernels{.matmul = matmul,
                                   .matmul_activation_backward = matmul_activation_backward,
                                   .matmul_swiglu_backward = matmul_swiglu_backward};

}  // namespace binade::backend::cpu
