#include <gtest/gtest.h>

#include "backend/cpu/values.h"
#include "binade/backend/backend.h"
#include "binade/backend/gpu.h"
#include "binade/backend/transfer.h"

namespace binade::backend::cuda_binary_test {
namespace {

class BinaryGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (gpus().empty()) GTEST_SKIP() << "there is no GPU";
  }
};

Tensor multiply(const Tensor& x, const Tensor& factor) {
  const Tensor y = filled(x.shape(), x.dtype(), NAN);
  const Tensor result = transfer(y, x.device());
  backend::of(x).elementwise.binary(Binary::mul, x, TensorView(factor).expanded(x.shape()), result);
  return transfer(result, Device::cpu());
}

// A 16-bit gradient times the gradient of a loss, in f32.
TEST_F(BinaryGpu, ProductsWithOneElementAreTheCpus) {
  const Tensor factor = filled({1}, DType::f32, 1.0 / 3);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    // Whole packs, a rest after the last pack, and less than a pack.
    for (const Shape& shape : {Shape{333, 768}, Shape{1001}, Shape{1}}) {
      const Tensor x = noise(shape, dtype, 1);
      expect_same_bits(multiply(transfer(x, Device::cuda()), transfer(factor, Device::cuda())),
                       multiply(x, factor), std::string(name(dtype)));
    }
  }
}

}  // namespace
}  // namespace binade::backend::cuda_binary_test
