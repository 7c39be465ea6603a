// Training runs recorded from PyTorch and transformers (tests/golden), repeated here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "binade/base/json.h"
#include "binade/binade.h"
#include "binade/io/huggingface.h"
#include "io/temporary_folder.h"

namespace binade {
namespace {

using ::binade::testing::golden;

double largest(const std::vector<double>& values) {
  double result = 0;
  for (const double value : values) result = std::max(result, std::fabs(value));
  return result;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = to_vector(a), y = to_vector(b);
  if (x.size() != y.size()) return INFINITY;
  double result = 0;
  for (size_t i = 0; i < x.size(); ++i) result = std::max(result, std::fabs(x[i] - y[i]));
  return result;
}

StateDict without_run(const io::SafetensorsFile& file) {
  StateDict weights;
  for (const io::TensorEntry& entry : file.entries()) {
    if (!entry.name.starts_with("run/")) weights[entry.name] = file.load(entry);
  }
  return weights;
}

// Sum and norm of each tensor, in the order of names, against recorded ones.
void expect_final(const StateDict& weights, const std::vector<double>& sums,
                  const std::vector<double>& norms, const std::string& what) {
  ASSERT_EQ(weights.size(), sums.size());
  size_t i = 0;
  for (const auto& [name, weight] : weights) {
    const std::vector<double> values = to_vector(weight);
    double sum = 0, squares = 0;
    for (const double value : values) {
      sum += value;
      squares += value * value;
    }
    // A bias on all keys cancels in the softmax: its gradient is rounding noise, which Adam scales
    // to full steps.
    if (!name.ends_with("c_attn.bias")) {
      EXPECT_NEAR(std::sqrt(squares), norms[i], 1e-5 * norms[i]) << what << name;
      EXPECT_NEAR(sum, sums[i], 1e-5 * norms[i] * std::sqrt(values.size())) << what << name;
    }
    ++i;
  }
}

struct Batch {
  Tensor tokens, targets;
};

// One recorded run of a language model.
class LanguageRun {
 public:
  explicit LanguageRun(const std::string& name)
      : file(golden(name)), tokens_(file.load("run/tokens")) {
    const testing::TemporaryFolder folder;
    config = io::read_config(folder.put("config.json", file.metadata().at("config")));
  }

  std::unique_ptr<nn::LanguageModel> model(bool recompute = false) const {
    nn::LanguageModelConfig with = config;
    with.activations = nn::Activations::recompute(recompute);
    auto model = std::make_unique<nn::LanguageModel>(with);
    io::load_huggingface(*model, without_run(file));
    return model;
  }

  Batch batch(int64_t step) const {
    const Tensor rows = select(tokens_, 0, step);
    return {contiguous(slice(rows, 1, 0, 16)), contiguous(slice(rows, 1, 1, 17))};
  }

  std::vector<double> values(const std::string& name) const {
    return to_vector(file.load("run/" + name));
  }

  io::SafetensorsFile file;
  nn::LanguageModelConfig config;

 private:
  Tensor tokens_;
};

struct Recorded {
  std::vector<double> losses, norms;
};

constexpr optim::AdamOptions adam{
    .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};

Recorded train(const LanguageRun& run, nn::LanguageModel& model, bool clip) {
  optim::AdamW optimizer(model.parameters(), adam);
  Recorded recorded;
  for (int64_t step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    const Batch batch = run.batch(step);
    const Tensor loss = model.loss(batch.tokens, batch.targets);
    loss.backward();
    const Tensor norm = clip ? optim::clip_grad_norm(model.parameters(), 1.0)
                             : optim::grad_norm(model.parameters());
    optimizer.step();
    recorded.losses.push_back(loss.item());
    recorded.norms.push_back(norm.item());
  }
  return recorded;
}

class GoldenLanguageRun : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, GoldenLanguageRun,
                         ::testing::Values("gpt2_run.safetensors", "llama_run.safetensors"));

TEST_P(GoldenLanguageRun, LogitsOfTheFirstStep) {
  const LanguageRun run(GetParam());
  const Tensor logits = run.model()->logits(run.batch(0).tokens);
  const Tensor expected = run.file.load("run/step0/logits");
  ASSERT_EQ(logits.shape(), expected.shape());
  // About thirty f32 roundings lie on the longest path through two blocks; their errors add like a
  // random walk.
  EXPECT_LE(largest_difference(logits, expected),
            32 * epsilon(DType::f32) * largest(to_vector(expected)));
}

TEST_P(GoldenLanguageRun, GradientsOfTheFirstStep) {
  const LanguageRun run(GetParam());
  const auto model = run.model();
  const Batch batch = run.batch(0);
  model->loss(batch.tokens, batch.targets).backward();
  // The recorded gradients in this project's layout: loaded as if they were weights.
  StateDict recorded;
  for (const auto& [name, weight] : without_run(run.file))
    recorded[name] = run.file.load("run/step0/grad/" + name);
  nn::LanguageModel gradients(run.config);
  io::load_huggingface(gradients, recorded);
  StateDict expected = gradients.state_dict();
  for (const auto& [name, parameter] : model->named_parameters()) {
    ASSERT_TRUE(parameter.grad().defined()) << name;
    const double size = largest(to_vector(expected.at(name)));
    EXPECT_LE(largest_difference(parameter.grad(), expected.at(name)),
              64 * epsilon(DType::f32) * size)
        << name;
  }
}

TEST_P(GoldenLanguageRun, TwentyStepsOfAdamW) {
  const LanguageRun run(GetParam());
  for (const bool clip : {false, true}) {
    const std::string kind = clip ? "clip/" : "plain/";
    const auto model = run.model();
    const Recorded recorded = train(run, *model, clip);
    for (const char* precision : {"", "_f64"}) {
      const std::vector<double> losses = run.values(kind + "loss" + precision),
                                norms = run.values(kind + "grad_norm" + precision);
      for (size_t step = 0; step < 20; ++step) {
        EXPECT_NEAR(recorded.losses[step], losses[step], 2e-6 * losses[step])
            << kind << "step " << step;
        EXPECT_NEAR(recorded.norms[step], norms[step], 2e-5 * norms[step])
            << kind << "step " << step;
      }
    }
    expect_final(io::to_huggingface(*model), run.values(kind + "final_sum"),
                 run.values(kind + "final_norm"), kind);
  }
}

TEST_P(GoldenLanguageRun, RecomputeChangesNoBit) {
  const LanguageRun run(GetParam());
  const auto plain = run.model(false), recomputed = run.model(true);
  const Recorded a = train(run, *plain, true), b = train(run, *recomputed, true);
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  const StateDict x = plain->state_dict(), y = recomputed->state_dict();
  for (const auto& [name, weight] : x) EXPECT_EQ(to_vector(weight), to_vector(y.at(name))) << name;
}

TEST_P(GoldenLanguageRun, ThreadsChangeNoBit) {
  const LanguageRun run(GetParam());
  const int before = threads();
  std::vector<std::vector<double>> losses;
  for (const int count : {1, 2, 8}) {
    set_threads(count);
    const auto model = run.model();
    losses.push_back(train(run, *model, true).losses);
  }
  set_threads(before);
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(losses[0], losses[2]);
}

// Trains by SGD as PyTorch did in the golden file.
void expect_resnet_run(const std::string& name, const nn::ResNetConfig& config) {
  const io::SafetensorsFile file(golden(name));
  nn::ResNet model(config);
  model.load_state_dict(without_run(file));
  optim::SGD optimizer(model.parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4});
  const Tensor images = file.load("run/images"), targets = file.load("run/targets");
  const std::vector<double> losses = to_vector(file.load("run/loss")),
                            exact = to_vector(file.load("run/loss_f64"));
  for (int64_t step = 0; step < images.size(0); ++step) {
    optimizer.zero_grad();
    const Tensor logits = model(select(images, 0, step));
    if (step == 0) {
      const Tensor expected = file.load("run/step0/logits");
      EXPECT_LE(largest_difference(logits, expected),
                32 * epsilon(DType::f32) * largest(to_vector(expected)));
    }
    const Tensor loss = cross_entropy(logits, select(targets, 0, step));
    loss.backward();
    optimizer.step();
    const auto i = static_cast<size_t>(step);
    EXPECT_NEAR(loss.item(), losses[i], 2e-6 * losses[i]) << step;
    EXPECT_NEAR(loss.item(), exact[i], 2e-6 * exact[i]) << step;
  }
  // Running statistics are among these, the count of batches is not.
  StateDict state = model.state_dict();
  EXPECT_EQ(state.at("bn1.num_batches_tracked").item(), images.size(0));
  std::erase_if(state,
                [](const auto& entry) { return entry.first.ends_with("num_batches_tracked"); });
  expect_final(state, to_vector(file.load("run/final_sum")), to_vector(file.load("run/final_norm")),
               "");
  model.eval();
  const Tensor expected = file.load("run/eval_logits");
  const Tensor logits = model(select(images, 0, 0));
  EXPECT_LE(largest_difference(logits, expected), 1e-5 * largest(to_vector(expected)));
}

TEST(GoldenResNetRun, BasicBlocks) {
  expect_resnet_run("resnet_run.safetensors",
                    {.widths = {8, 16}, .blocks = {2, 2}, .classes = 10, .large_stem = false});
}

TEST(GoldenResNetRun, Bottlenecks) {
  expect_resnet_run(
      "resnet_bottleneck_run.safetensors",
      {.block = nn::ResNetBlock::bottleneck, .widths = {4, 8}, .blocks = {2, 1}, .classes = 10});
}

}  // namespace
}  // namespace binade
