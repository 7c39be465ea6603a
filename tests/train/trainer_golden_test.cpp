// trainer_run.safetensors: the same runs in PyTorch, with its autocast, GradScaler, clip_grad_norm_
// and AdamW.
#include <gtest/gtest.h>

#include <cmath>

#include "binade/io/huggingface.h"
#include "binade/io/safetensors.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/train/trainer.h"
#include "io/temporary_folder.h"

namespace binade::train {
namespace {

struct GoldenRun {
  const char* name;
  const char* precision;
  int64_t accumulate;
  double clip;
  const char* schedule;
  // How far from PyTorch's, relatively. f32 sums 20 steps' roundings; 16-bit products are rounded
  // at other places there, so that a loss is good to some epsilons of the type.
  double loss, norm, weights;
};

constexpr GoldenRun golden_runs[] = {
    {"fp32", "fp32", 3, 0.5, "cosine", 2e-6, 2e-5, 2e-4},
    {"unclipped", "fp32", 1, 0, "linear", 2e-6, 2e-5, 2e-4},
    {"bf16", "bf16", 2, 0.5, "cosine", 0x1p-8, 0x1p-5, 0.15},
    {"fp16", "fp16", 2, 0.5, "cosine", 0x1p-11, 0x1p-8, 0.03},
};

class TrainerGolden : public ::testing::TestWithParam<GoldenRun> {
 protected:
  TrainerGolden() : file_(testing::golden("trainer_run.safetensors")) {
    StateDict start;
    for (const io::TensorEntry& entry : file_.entries()) {
      if (!entry.name.starts_with("run/")) start[entry.name] = file_.load(entry);
    }
    io::save_safetensors(folder_ / "model.safetensors", start);
    folder_.put("config.json", file_.metadata().at("config"));
    start_ = start;
    const Tensor text = file_.load("run/text");
    tokens_ = data::Tokens::of_bytes(
        {static_cast<const char*>(text.raw_data()), static_cast<size_t>(text.numel())});
  }

  double number(const char* key) const { return std::stod(file_.metadata().at(key)); }
  std::vector<double> recorded(const std::string& what) const {
    return to_vector(file_.load("run/" + std::string(GetParam().name) + "/" + what));
  }

  Config config() const {
    const GoldenRun& run = GetParam();
    Config config;
    config.model.family = ModelFamily::gpt2;
    config.precision.matmul = parse_precision(run.precision);
    config.train.device = Device::cpu();
    config.model.layers = 2;
    config.model.width = 16;
    config.model.heads = config.model.kv_heads = 2;
    config.model.hidden = 64;
    config.model.context = 8;
    config.train.batch = 2;
    config.train.accumulate = run.accumulate;
    config.train.clip = run.clip;
    config.train.schedule = optim::parse_schedule(run.schedule);
    config.train.steps = static_cast<int64_t>(number("steps"));
    config.train.warmup = static_cast<int64_t>(number("warmup"));
    config.train.lr = number("lr");
    config.train.weight_decay = number("weight_decay");
    config.train.seed = static_cast<int64_t>(number("data_seed"));
    config.precision.scale_init = 0x1p4;
    config.precision.scale_growth_interval = 2;
    return config;
  }

  // A step that is to be skipped meets an infinite weight, as PyTorch's did.
  StepResult step(Trainer& trainer, bool poisoned) {
    const Tensor element = trainer.model().head_weight().detach().strided({1}, {1}, 5);
    const double kept = element.item();
    if (poisoned) fill_(element, std::numeric_limits<double>::infinity());
    const StepResult result = trainer.step(*tokens_);
    if (poisoned) fill_(element, kept);
    return result;
  }

  // How far each weight is from the recorded one, as a fraction of the way it came.
  void expect_final(const StateDict& weights) const {
    for (const auto& [name, start] : start_) {
      const std::vector<double> from = to_vector(start), found = to_vector(weights.at(name)),
                                expected = recorded("final/" + name);
      ASSERT_EQ(found.size(), expected.size()) << name;
      double off = 0, way = 0;
      for (size_t i = 0; i < found.size(); ++i) {
        // A bias on all keys cancels in the softmax: its gradient is rounding noise, which Adam
        // makes steps of.
        const bool is_key = name.ends_with("c_attn.bias") && i / 16 == 1;
        if (is_key) continue;
        off += (found[i] - expected[i]) * (found[i] - expected[i]);
        way += (expected[i] - from[i]) * (expected[i] - from[i]);
      }
      EXPECT_LE(std::sqrt(off), GetParam().weights * std::sqrt(way)) << name;
    }
  }

  const testing::TemporaryFolder folder_;
  const io::SafetensorsFile file_;
  StateDict start_;
  std::optional<data::Tokens> tokens_;
};

TEST_P(TrainerGolden, TwentySteps) {
  Trainer trainer(config());
  trainer.init_from(folder_.path());
  const std::vector<double> losses = recorded("loss"), norms = recorded("gradient_norm"),
                            rates = recorded("lr"), scales = recorded("scale"),
                            applied = recorded("applied");
  for (size_t i = 0; i < losses.size(); ++i) {
    SCOPED_TRACE("step " + std::to_string(i + 1));
    const StepResult found = step(trainer, applied[i] == 0);
    EXPECT_EQ(found.applied, applied[i] != 0);
    EXPECT_NEAR(found.lr, rates[i], 1e-15);
    EXPECT_EQ(found.scale, scales[i]);
    if (applied[i] != 0) {
      EXPECT_NEAR(found.loss, losses[i], GetParam().loss * losses[i]);
      EXPECT_NEAR(found.gradient_norm, norms[i], GetParam().norm * norms[i]);
    }
  }
  expect_final(io::to_huggingface(trainer.model()));
}

INSTANTIATE_TEST_SUITE_P(Runs, TrainerGolden, ::testing::ValuesIn(golden_runs),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace binade::train
