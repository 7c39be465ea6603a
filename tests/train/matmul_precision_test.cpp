#include <gtest/gtest.h>

#include "binade/train/trainer.h"
#include "support/tensors.h"
#include "train/small_run.h"

// The precision of f32 matmuls is a trainer's own, though threads hold it.
namespace binade::train {
namespace {

// What a run leaves: losses, weights and optimizer state.
std::vector<Tensor> left_by_trainer(Trainer& trainer) {
  std::vector<Tensor> left;
  for (const auto& [name, tensor] : trainer.model().state_dict()) left.push_back(tensor);
  for (const auto& [name, tensor] : trainer.state_dict()) left.push_back(tensor);
  left.push_back(full({1}, trainer.evaluate(small_tokens()).loss, DType::f64));
  return left;
}

bool same_run(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i)
    same = static_cast<bool>(test::same_bits(a[i], b[i]));
  return same;
}

TEST(TrainersMatmulPrecision, TwoInOneProcessKeepTheirOwn) {
  constexpr int steps = 3;
  for (const bool recompute : {false, true}) {
    const auto config = [&](const char* precision) {
      Config result = small_config(precision);
      result.train.activations = nn::Activations::recompute(recompute);
      return result;
    };
    const auto alone = [&](const char* precision) {
      Trainer trainer(config(precision));
      for (int i = 0; i < steps; ++i) trainer.step(small_tokens());
      return left_by_trainer(trainer);
    };
    const std::vector<Tensor> tf32_alone = alone("tf32"), f32_alone = alone("fp32");
    EXPECT_FALSE(same_run(tf32_alone, f32_alone));
    Trainer tf32(config("tf32")), f32(config("fp32"));
    for (int i = 0; i < steps; ++i) {
      tf32.step(small_tokens());
      f32.step(small_tokens());
    }
    EXPECT_TRUE(same_run(left_by_trainer(tf32), tf32_alone)) << "recompute " << recompute;
    EXPECT_TRUE(same_run(left_by_trainer(f32), f32_alone)) << "recompute " << recompute;
  }
}

}  // namespace
}  // namespace binade::train
