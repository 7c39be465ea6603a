#include "binade/backend/matmul.h"

#include "binade/backend/cpu/gemm/element.h"
#include "binade/backend/cpu/kernels.h"

namespace binade::backend::cpu {
namespace {

Activation activation_of(backend::Activation activation) {
  switch (activation) {
    case backend::Activation::none:
      return Activation::none;
    case backend::Activation::relu:
      return Activation::relu;
    case backend::Activation::gelu:
      return Activation::gelu;
    case backend::Activation::gelu_tanh:
      return Activation::gelu_tanh;
    case backend::Activation::silu:
      return Activation::silu;
  }
  fail("matmul", {.argument = "activation", .found = "a value outside Activation"});
}

float scale_or_one(const TensorView& scale) { return scale.present ? *scale.as<float>() : 1.0f; }

void matmul(TensorView a, TensorView b, TensorView y, const backend::Epilogue& epilogue) {
  if (has_groups(epilogue)) {
    return matmul_dequantized(Device::cpu(), matmul_kernels, quantize_kernels, a, b, y, epilogue);
  }
  Epilogue e{
      .alpha = epilogue.alpha * scale_or_one(epilogue.scale_a) * scale_or_one(epilogue.scale_b),
      .beta = epilogue.beta,
      .activation = activation_of(epilogue.activation),
      .round_tf32 = epilogue.tf32};
  if (epilogue.bias.present) {
    e.bias = epilogue.bias.data;
    e.bias_type = element_of("matmul", "bias", epilogue.bias.dtype);
  }
  const TensorView& pre = epilogue.pre_activation;
  if (pre.present) {
    if (pre.shape[2] > 1 && pre.strides[2] != 1) {
      fail("matmul", {.argument = "pre_activation",
                      .expected = "dense rows",
                      .found = to_string(pre.strides)});
    }
    e.pre_activation = pre.data;
    e.pre_activation_type = element_of("matmul", "pre_activation", pre.dtype);
    e.pre_row_stride = pre.strides[1];
    e.pre_batch_stride = pre.strides[0];
  }
  const Operand left{a.data, element_of("matmul", "a", a.dtype), a.strides[1], a.strides[2]};
  const Operand right{b.data, element_of("matmul", "b", b.dtype), b.strides[1], b.strides[2]};
  const Output out{y.data, element_of("matmul", "y", y.dtype), y.strides[1], y.strides[2]};
  gemm_batched(y.shape[0], y.shape[1], y.shape[2], a.shape[2], left, a.strides[0], right,
               b.strides[0], out, y.strides[0], e);
}

}  // namespace

const MatmulKernels matmul_kernels{.matmul = matmul};

}  // namespace binade::backend::cpu
