#include "binade/backend/meta.h"

namespace binade::backend::meta {
namespace {

// Allocates the memory that a matmul of dequantized operands needs, on the meta device of this
// index.
template <int index>
void matmul(TensorView a, TensorView b, TensorView y, const Epilogue& epilogue) {
  static constexpr MatmulKernels matmuls = idle<MatmulKernels>();
  static constexpr QuantizeKernels quantize = idle<QuantizeKernels>();
  if (has_groups(epilogue))
    matmul_dequantized({Device{Device::Kind::meta, index}, matmuls, quantize}, a, b, y, epilogue);
}

template <int index>
const Backend& table_of() {
  static constexpr Backend backend{.elementwise = idle<ElementwiseKernels>(),
                                   .reduce = idle<ReduceKernels>(),
                                   .scan = idle<ScanKernels>(),
                                   .index = idle<IndexKernels>(),
                                   .matmul = {.matmul = matmul<index>,
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

}  // namespace

const Backend& table(Device device) {
  return device == Device::meta_gpu() ? table_of<Device::meta_gpu().index>()
                                      : table_of<Device::meta().index>();
}

}  // namespace binade::backend::meta
