#include "binade/backend/matmul.h"

#include <utility>

#include "binade/backend/loss.h"
#include "binade/backend/quantize.h"

#ifdef BINADE_CUDA
#include "binade/backend/cuda/device.h"
#include "binade/backend/cuda/matmul/fused_cross_entropy.h"
#include "binade/backend/cuda/matmul/fused_forward.h"
#endif

namespace binade::backend {
namespace {

TensorView require_one_matrix(const char* argument, const TensorView& x) {
  const TensorView matrix = only_matrix(x);
  if (x.shape[0] != 1 || !matrix.is_dense()) {
    fail("matmul", {.argument = argument,
                    .expected = "one dense matrix (an operand along the summed axis) beside scales",
                    .found = to_string(x.shape) + " with strides " + to_string(x.strides)});
  }
  return matrix;
}

}  // namespace

bool fuses_swiglu([[maybe_unused]] const LinearSwiGlu& args, [[maybe_unused]] Device device) {
#ifdef BINADE_CUDA
  if (device.is_cuda()) {
    cuda::activate(device);
    return cuda::fused_swiglu.supports(args);
  }
#endif
  return false;
}

bool fuses_cross_entropy([[maybe_unused]] const LinearCrossEntropy& args,
                         [[maybe_unused]] Device device) {
#ifdef BINADE_CUDA
  if (device.is_cuda()) {
    cuda::activate(device);
    return cuda::fused_cross_entropy.supports(args);
  }
#endif
  return false;
}

bool has_groups(const Epilogue& epilogue) {
  return epilogue.group_a != ScaleGroup{} || epilogue.group_b != ScaleGroup{};
}

void require_floating(const TensorView& a, const TensorView& b, const TensorView& y,
                      const Epilogue& epilogue) {
  for (const auto& [argument, x] :
       {std::pair("a", &a), std::pair("b", &b), std::pair("y", &y),
        std::pair("bias", &epilogue.bias), std::pair("pre_activation", &epilogue.pre_activation)}) {
    if (is_floating(x->dtype)) continue;
    fail("matmul", {.argument = argument,
                    .expected = "a floating type",
                    .found = std::string(name(x->dtype))});
  }
}

TensorView transposed(TensorView x) {
  std::swap(x.shape[1], x.shape[2]);
  std::swap(x.strides[1], x.strides[2]);
  return x;
}

TensorView batch_of_one(TensorView x) {
  x.shape = {1, x.shape[0], x.shape[1]};
  x.strides = {0, x.strides[0], x.strides[1]};
  return x;
}

TensorView only_matrix(TensorView batch) {
  batch.shape = {batch.shape[1], batch.shape[2]};
  batch.strides = {batch.strides[1], batch.strides[2]};
  return batch;
}

void matmul_quantized(const MatmulDevice& on, TensorView a, TensorView b, TensorView y,
                      Epilogue epilogue) {
  const memory::CategoryGuard category(memory::Category::workspace);
  const TensorView matrix = require_one_matrix("y", y);
  const QuantizedOutput out{.scale = epilogue.scale_y, .data = matrix, .amax = epilogue.amax_y};
  epilogue.scale_y = epilogue.amax_y = {};
  const Tensor values = Tensor::empty(matrix.shape, DType::f32, on.device);
  on.matmul.matmul(a, b, batch_of_one(values), epilogue);
  on.quantize.quantize(values, out);
}

void matmul_dequantized(const MatmulDevice& on, TensorView a, TensorView b, TensorView y,
                        Epilogue epilogue) {
  const memory::CategoryGuard category(memory::Category::workspace);
  Tensor held[2];
  const auto values = [&](const char* argument, const TensorView& quantized, TensorView& scale,
                          ScaleGroup& group, Tensor& result) {
    const TensorView matrix = require_one_matrix(argument, quantized);
    result = Tensor::empty(quantized.shape, DType::f32, on.device);
    on.quantize.dequantize({matrix, scale, group}, require_one_matrix(argument, result));
    scale = {};
    group = {};
    return TensorView(result);
  };
  if (epilogue.group_a != ScaleGroup{})
    a = values("a", a, epilogue.scale_a, epilogue.group_a, held[0]);
  if (epilogue.group_b != ScaleGroup{})
    b = transposed(values("b", transposed(b), epilogue.scale_b, epilogue.group_b, held[1]));
  on.matmul.matmul(a, b, y, epilogue);
}

}  // namespace binade::backend
