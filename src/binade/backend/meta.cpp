#include "binade/backend/meta.h"

namespace binade::backend::meta {

const Backend& table() {
  static constexpr Backend backend{.elementwise = idle<ElementwiseKernels>(),
                                   .reduce = idle<ReduceKernels>(),
                                   .scan = idle<ScanKernels>(),
                                   .index = idle<IndexKernels>(),
                                   .matmul = idle<MatmulKernels>(),
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
