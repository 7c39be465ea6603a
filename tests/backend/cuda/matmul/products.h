#pragma once

#include <gtest/gtest.h>

#include "backend/cpu/values.h"
#include "binade/backend/gpu.h"
#include "binade/backend/matmul.h"

// Products on a GPU beside the CPU's, for tests that each have a Product of their own.
namespace binade::backend {

class ProductsGpu : public testing::Test {
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

// run(p, device, of_magnitudes) gives a product's results in the host's memory, of its operands or
// of their magnitudes. An element may differ from the CPU's by bound(sum of its terms' magnitudes);
// those come from `plain`, which is p with an exact enough result.
template <class Product, class Bound>
void expect_near_the_cpus(const Product& p, Product plain,
                          Results (*run)(const Product&, Device, bool), Bound bound,
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
