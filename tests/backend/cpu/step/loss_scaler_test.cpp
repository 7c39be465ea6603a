#include "binade/backend/loss_scaler.h"

#include <gtest/gtest.h>

#include <limits>

#include "backend/cpu/values.h"
#include "binade/backend/cpu/kernels.h"

namespace binade::backend::cpu_loss_scaler_test {
namespace {

const ScalerKernels& scaler = cpu::scaler_kernels;

// Megatron's DynamicGradScaler (core/optimizer/grad_scaler.py), which without hysteresis and
// minimum is PyTorch's.
struct Reference {
  double scale;
  int64_t clean = 0, hysteresis;

  void update(bool overflow, const LossScaleParams& params) {
    if (overflow) {
      clean = 0;
      if (--hysteresis <= 0)
        scale = std::max(static_cast<double>(static_cast<float>(scale * params.backoff)),
                         params.minimum);
    } else if (++clean == params.interval) {
      const auto grown = static_cast<float>(scale * params.growth);
      if (std::isfinite(grown)) scale = grown;
      clean = 0;
      hysteresis = params.hysteresis;
    }
  }
};

struct Scaler {
  Tensor scale, trackers = make({2}, DType::i32, {0, 0});

  Scaler(double start, const LossScaleParams& params) : scale(make({1}, DType::f32, {start})) {
    trackers.mutable_data<int32_t>()[1] = static_cast<int32_t>(params.hysteresis);
  }
  void update(bool overflow, const LossScaleParams& params) const {
    scaler.update(scale, trackers, make({1}, DType::f32, {overflow ? 1.0 : 0.0}), params);
  }
  double value() const { return scale.data<float>()[0]; }
};

TEST(CpuLossScaler, FollowsMegatronsRule) {
  const LossScaleParams all[] = {{},
                                 {.interval = 1},
                                 {.interval = 3},
                                 {.interval = 3, .hysteresis = 2},
                                 {.interval = 2, .hysteresis = 3},
                                 {.growth = 1.5, .backoff = 0.3, .interval = 2, .hysteresis = 2},
                                 {.interval = 4, .hysteresis = 2, .minimum = 16}};
  for (const LossScaleParams& params : all) {
    Reference expected{.scale = 64, .hysteresis = params.hysteresis};
    const Scaler found(64, params);
    for (uint64_t step = 0; step < 300; ++step) {
      const bool overflow = random::uniform(1, 2, step) < 0.3f;
      expected.update(overflow, params);
      found.update(overflow, params);
      ASSERT_EQ(found.value(), expected.scale)
          << "step " << step << ", interval " << params.interval << ", hysteresis "
          << params.hysteresis;
      ASSERT_EQ(found.trackers.data<int32_t>()[0], expected.clean) << "step " << step;
    }
  }
}

// Growth gives back what overflows had used up of the hysteresis.
TEST(CpuLossScaler, GrowthRestoresTheHysteresis) {
  const LossScaleParams params{.interval = 2, .hysteresis = 2};
  const Scaler state(8, params);
  state.update(true, params);
  EXPECT_EQ(state.value(), 8);  // tolerated
  state.update(false, params);
  state.update(false, params);
  EXPECT_EQ(state.value(), 16);
  state.update(true, params);
  EXPECT_EQ(state.value(), 16);  // tolerated again
  state.update(true, params);
  EXPECT_EQ(state.value(), 8);
}

TEST(CpuLossScaler, NeverGrowsToInfinity) {
  const LossScaleParams params{.interval = 1};
  const Scaler state(0x1p127, params);
  state.update(false, params);
  EXPECT_EQ(state.value(), 0x1p127);
  EXPECT_EQ(state.trackers.data<int32_t>()[0], 0);
}

// The inverse is divided in f64: f32's own quotient of some scales is another.
TEST(CpuLossScaler, InvertsInDouble) {
  for (const double scale : {65536.0, 3.0, 0.1, 1e-30, 3e38}) {
    const Tensor x = make({1}, DType::f32, {scale}), inverse = filled({1}, DType::f32, NAN);
    scaler.invert(x, inverse);
    EXPECT_EQ(inverse.data<float>()[0],
              static_cast<float>(1.0 / static_cast<double>(static_cast<float>(scale))));
  }
}

}  // namespace
}  // namespace binade::backend::cpu_loss_scaler_test
