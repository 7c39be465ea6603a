#include "binade/backend/profile.h"

#include <gtest/gtest.h>

#include <numeric>

#include "binade/backend/backend.h"

namespace binade::backend {
namespace {

int ticks = 0;
double ticking_clock(Device) { return ++ticks; }

double total(const WorkSeconds& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

// Each call of a kernel takes one tick of this clock.
TEST(Profiler, CountsEachKernelUnderItsCategory) {
  const Tensor a = Tensor::empty({1, 2, 3}, DType::f32), b = Tensor::empty({1, 3, 2}, DType::f32),
               y = Tensor::empty({1, 2, 2}, DType::f32);
  const Profiler profiler(Device::cpu(), ticking_clock);
  of(a).elementwise.fill(a, 2);
  of(b).elementwise.fill(b, 3);
  of(y).matmul.matmul(a, b, y, {});
  of(Device::meta()).elementwise.fill(a, 0);  // another device
  EXPECT_EQ(profiler.seconds()[static_cast<size_t>(Work::elementwise)], 2);
  EXPECT_EQ(profiler.seconds()[static_cast<size_t>(Work::matrix)], 1);
  EXPECT_EQ(total(profiler.seconds()), 3);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(y.data<float>()[i], 18);  // the kernels did their work
}

TEST(Profiler, EndsWithItsScope) {
  const Tensor x = Tensor::empty({4}, DType::f32);
  {
    const Profiler profiler(Device::cpu(), ticking_clock);
    EXPECT_NE(profiled(Device::cpu()), nullptr);
    EXPECT_EQ(profiled(Device::meta()), nullptr);
    EXPECT_EQ(total(profiler.seconds()), 0);  // a session starts from nothing
  }
  EXPECT_EQ(profiled(Device::cpu()), nullptr);
  const int before = ticks;
  of(x).elementwise.fill(x, 1);
  EXPECT_EQ(ticks, before);
}

}  // namespace
}  // namespace binade::backend
