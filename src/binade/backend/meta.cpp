#include "binade/backend/meta.h"

namespace binade::backend::meta {
namespace {

// Allocates the memory that a matmul of dequantized operands needs.
void matmul(TensorView a, TensorView b, TensorView y, const Epilogue& epilogue) {
  static constexpr MatmulKernels matmuls = idle<MatmulKernels>();
  static constexpr QuantizeKernels quantize = idle<QuantizeKernels>();
  if (has_groups(epilogue))
    matmul_dequantized({Device::meta(), matmuls, quantize}, a, b, y, epilogue);
}

}  // namespace

const Backend& table() {
  static constexpr Backend backend{.elementwise = idle<ElementwiseKernels>(),
                                   .reduce = idle<ReduceKernels>(),
                                   .scan = idle<ScanKernels>(),
                                   .index = idle<IndexKernels>(),
                                   .matmul = {.matmul = matmul,
                                              .matmul_activation_backward = DoNothing{},
                                              .matmul_swiglu_backward = DoNothing{},
                                              .matmul_swiglu = DoNothing{},
                                              .matmul_cross_entropy = DoNothing{}},
                                   .conv = idle<ConvKernels>(),
                                   .pool = idle<PoolKernels>(),
                                   .norm = idle<NormKernels>(),
                                   .softmax = idle<SoftmaxKernels>(),
                                   .attention = idle<AttentionKernels>(),
                                   .activation = idle<ActivationKernels>(),
                                   .loss = idle<LossKernels>(),
                                   .optimizer = idle<OptimizerKernels>(),
                                   .scaler = idle<ScalerKernels>(),
                                   .quantize = idle<QuantizeKernels>()};
  return backend;
}

}  // namespace binade::backend::meta
