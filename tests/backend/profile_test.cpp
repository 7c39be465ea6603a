#include "binade/backend/profile.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

#include "binade/backend/backend.h"
#include "binade/backend/gpu.h"

namespace binade::backend::profile_test {
namespace {

int ticks = 0;
double tick() { return ++ticks; }
std::unique_ptr<WorkClock> ticking_clock() { return work_clock(Device::cpu(), tick); }

double total(const WorkSeconds& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

// Each call of a kernel takes one tick of this clock.
TEST(Profiler, CountsEachKernelUnderItsCategory) {
  const Tensor a = Tensor::empty({1, 2, 3}, DType::f32), b = Tensor::empty({1, 3, 2}, DType::f32),
               y = Tensor::empty({1, 2, 2}, DType::f32);
  const Profiler profiler(Device::cpu(), ticking_clock());
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
    const Profiler profiler(Device::cpu(), ticking_clock());
    EXPECT_NE(profiled(Device::cpu()), nullptr);
    EXPECT_EQ(profiled(Device::meta()), nullptr);
    EXPECT_EQ(total(profiler.seconds()), 0);  // a session starts from nothing
  }
  EXPECT_EQ(profiled(Device::cpu()), nullptr);
  const int before = ticks;
  of(x).elementwise.fill(x, 1);
  EXPECT_EQ(ticks, before);
}

// Kernels take time, and together no more than the host waits for them.
TEST(ProfilerGpu, TimesKernelsInTheirStream) {
  if (gpus().empty()) GTEST_SKIP() << "there is no GPU";
  using Clock = std::chrono::steady_clock;
  const Tensor x = Tensor::empty({int64_t{1} << 24}, DType::f32, Device::cuda());
  of(x).elementwise.fill(x, 0);
  synchronize(Device::cuda());
  const auto begin = Clock::now();
  const Profiler profiler(Device::cuda(), work_clock(Device::cuda(), nullptr));
  for (int i = 0; i < 10; ++i) of(x).elementwise.fill(x, i);
  const double filling = profiler.seconds()[static_cast<size_t>(Work::elementwise)];
  const double waited = std::chrono::duration<double>(Clock::now() - begin).count();
  EXPECT_GT(filling, 10 * x.numel() * 4 / 20e12);  // no memory writes 20 TB/s
  EXPECT_LT(filling, waited);
  EXPECT_EQ(total(profiler.seconds()), filling);
}

}  // namespace
}  // namespace binade::backend::profile_test
