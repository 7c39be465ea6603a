#include "binade/backend/exchange.h"

#include <gtest/gtest.h>

#include <limits>

#include "binade/backend/backend.h"
#include "binade/backend/gpu.h"
#include "binade/backend/transfer.h"

namespace binade::backend::exchange_test {
namespace {

// Scalars of all types there and back, on a device.
void expect_round_trip(Device device) {
  std::vector<Tensor> scalars;
  for (int i = 0; i < 300; ++i) {
    const DType dtype = i % 3 == 0 ? DType::f64 : i % 3 == 1 ? DType::f32 : DType::i32;
    scalars.push_back(Tensor::empty({1}, dtype, device));
    of(device).elementwise.fill(scalars.back(), i - 150);
  }
  of(device).elementwise.fill(scalars[2], std::numeric_limits<int32_t>::max());
  const std::vector<TensorView> views(scalars.begin(), scalars.end());
  const Tensor numbers = Tensor::empty({300}, DType::f64, device);
  collect(views, numbers);
  const Tensor host = device.is_cpu() ? numbers : transfer(numbers, Device::cpu());
  EXPECT_EQ(host.data<double>()[2], 2147483647.0);
  for (int i = 3; i < 300; ++i) EXPECT_EQ(host.data<double>()[i], i - 150) << i;
  for (const Tensor& one : scalars) of(device).elementwise.fill(one, 0);
  distribute(numbers, views);
  EXPECT_EQ(scalars[2].item(), 2147483647.0);
  for (size_t i = 3; i < scalars.size(); ++i)
    EXPECT_EQ(scalars[i].item(), static_cast<double>(i) - 150) << i;
}

TEST(Exchange, ScalarsOfAllTypesAreCollectedAndDistributed) { expect_round_trip(Device::cpu()); }

TEST(ExchangeGpu, ScalarsOfAllTypesAreCollectedAndDistributed) {
  if (gpus().empty()) GTEST_SKIP() << "there is no GPU";
  expect_round_trip(Device::cuda());
}

// Parts of gradients, wherever they begin, give the norm of the whole gradients bit for bit.
TEST(ExchangeGpu, PartsOfTheNormHaveTheBitsOfTheWhole) {
  if (gpus().empty()) GTEST_SKIP() << "there is no GPU";
  constexpr int64_t sizes[] = {5, 40001, 16384, 100000};
  const auto& kernels = of(Device::cuda());
  std::vector<Tensor> whole, shifted;
  int64_t parts = 0;
  for (const int64_t size : sizes) {
    const Tensor host = Tensor::empty({size}, DType::f32);
    for (int64_t i = 0; i < size; ++i)
      host.mutable_data<float>()[i] = static_cast<float>((i * 7919) % 10007) * 0.37f - 900;
    whole.push_back(transfer(host, Device::cuda()));
    shifted.push_back(
        Tensor::empty({size + 1}, DType::f32, Device::cuda()).strided({size}, {1}, 1));
    kernels.elementwise.copy(whole.back(), shifted.back());
    parts += (size + gpu_norm_piece - 1) / gpu_norm_piece;
  }
  const Tensor found_inf = Tensor::empty({1}, DType::f32, Device::cuda());
  const Tensor expected = Tensor::empty_like(found_inf), found = Tensor::empty_like(found_inf);
  kernels.elementwise.fill(found_inf, 0);
  const Tensor numbers = Tensor::empty({parts}, DType::f64, Device::cuda());
  kernels.optimizer.gradient_norm(std::vector<TensorView>(whole.begin(), whole.end()), 2, expected,
                                  found_inf);
  // Half of them aligned, so that two lists of tensors run.
  std::swap(shifted[1], whole[1]);
  kernels.optimizer.gradient_norm_parts(std::vector<TensorView>(shifted.begin(), shifted.end()),
                                        numbers, found_inf);
  kernels.optimizer.join_norm_parts(numbers, found);
  EXPECT_GT(expected.item(), 0);
  EXPECT_EQ(found.item(), expected.item());
  EXPECT_EQ(found_inf.item(), 0);
}

}  // namespace
}  // namespace binade::backend::exchange_test
