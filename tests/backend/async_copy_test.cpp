#include "binade/backend/async_copy.h"

#include <gtest/gtest.h>

#include <future>

#include "binade/backend/backend.h"
#include "binade/backend/gpu.h"
#include "binade/backend/transfer.h"
#include "support/values.h"

namespace binade::backend::async_copy_test {
namespace {

TEST(AsyncCopy, OfACpuTensorIsThatTensor) {
  const Tensor x = Tensor::empty({3}, DType::f32);
  test::write(x, {1, 2, 3});
  EXPECT_FALSE(AsyncCopy().defined());
  EXPECT_TRUE(AsyncCopy(x).get().same_as(x));
}

class AsyncCopyGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (gpus().empty()) GTEST_SKIP() << "there is no GPU";
  }
};

// The memory of each tensor is overwritten before its copy is read, on another thread.
TEST_F(AsyncCopyGpu, KeepsTheValuesOfItsConstruction) {
  const Tensor host = Tensor::empty({2, 1000}, DType::f32);
  std::vector<double> values(2000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) - 700;
  test::write(host, values);
  const Tensor x = transfer(host, Device::cuda());
  for (int i = 0; i < 3; ++i) {
    const AsyncCopy copy(x);
    of(x).elementwise.fill(x, i);
    const Tensor found = std::async(std::launch::async, [&] { return copy.get(); }).get();
    EXPECT_EQ(found.shape(), x.shape());
    EXPECT_EQ(test::read(found),
              i == 0 ? values : std::vector<double>(values.size(), static_cast<double>(i - 1)));
  }
}

}  // namespace
}  // namespace binade::backend::async_copy_test
