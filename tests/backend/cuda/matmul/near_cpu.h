#pragma once

#include <gtest/gtest.h>

#include "backend/cpu/values.h"
#include "binade/backend/gpu.h"
#include "binade/backend/matmul.h"

// Compares matmuls on a GPU with the CPU's. Each test defines its own MatmulCase.
namespace binade::backend {

class MatmulGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (gpus().empty()) GTEST_SKIP() << "there is no GPU";
  }
};

struct Results {
  Tensor y, pre;
};

inline Tensor magnitudes(const Tensor& x) {
  Values values = read(x);
  for (double& value : values) value = std::abs(value);
  return make(x.shape(), x.dtype(), values);
}

// run(p, device, of_magnitudes) computes a matmul of the case's operands or of their magnitudes and
// returns host tensors. An element may differ from the CPU's by bound(sum of its terms'
// magnitudes); those come from `plain`, which is p with a result of enough precision.
template <class MatmulCase, class Bound>
void expect_near_the_cpus(const MatmulCase& p, MatmulCase plain,
                          Results (*run)(const MatmulCase&, Device, bool), Bound bound,
                          const std::string& what) {
  const Results expected = run(p, Device::cpu(), false), found = run(p, Device::cuda(), false);
  plain.activation = Activation::none;
  plain.pre = false;
  Values bounds = read(run(plain, Device::cpu(), true).y);
  for (double& size : bounds) size = bound(size);
  expect_within(read(found.y), read(expected.y), bounds, what);
  if (p.pre) expect_within(read(found.pre), read(expected.pre), bounds, what + " pre-activation");
}

}  // namespace binade::backend
