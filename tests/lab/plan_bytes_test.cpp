#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "binade/lab/plan.h"
#include "binade/ops/create/create.h"
#include "binade/train/trainer.h"
#include "train/small_run.h"

// Plans to the byte, and to the operation.
namespace binade::lab {
namespace {

using memory::Category;
using ::testing::HasSubstr;

constexpr int64_t layers = 3, width = 32, hidden = 96, context = 24, batch = 4, accumulate = 2,
                  vocab = 256;

using train::ParameterStorage;

train::Config planned(const std::string& precision,
                      ParameterStorage params = ParameterStorage::autocast) {
  train::Config config = train::small_config(precision);
  config.precision.params = params;
  config.model.layers = layers;
  config.model.width = width;
  config.model.heads = config.model.kv_heads = 4;
  config.model.hidden = hidden;
  config.model.context = context;
  config.train.batch = batch;
  config.train.accumulate = accumulate;
  config.model.vocab = vocab;
  return config;
}

// GPT-2 by hand: the matrices of a block, and everything.
constexpr int64_t block_matrices = width * 3 * width + width * width + 2 * width * hidden;
constexpr int64_t block_vectors = 3 * width + width + hidden + width + 4 * width;
constexpr int64_t all_parameters =
    (vocab + context) * width + layers * (block_matrices + block_vectors) + 2 * width;

// Gradients at the peak of a step, which is in the last micro-batch, beside the sums of all earlier
// ones. The peak is in the head's forward, while the logits exist: they take more than the head's
// backward, which has its f32 gradient once more, as the gradient of the tied embedding, a leaf
// that is not added to its sum before the embedding's own backward. All other leaves begin later.
int64_t gradients_at_peak(const std::string& precision) {
  const bool wide = precision == "fp32" || precision == "tf32";
  const int64_t size = wide ? 4 : 2;
  EXPECT_GT(size * batch * context * vocab, 4 * vocab * width + size * batch * context * width);
  return 4 * all_parameters;
}

TEST(PlanBytes, OfParametersGradientsAndOptimizerAreKnown) {
  struct Expected {
    const char* precision;
    ParameterStorage params;
    DType moments;
    int64_t parameter, optimizer;  // bytes of each
  };
  const Expected all[] = {{"fp32", ParameterStorage::autocast, DType::f32, 4, 8},
                          {"bf16", ParameterStorage::autocast, DType::f32, 4, 8},
                          {"bf16", ParameterStorage::masters, DType::f32, 2, 12},
                          {"bf16", ParameterStorage::autocast, DType::bf16, 4, 4},
                          {"bf16", ParameterStorage::masters, DType::bf16, 2, 8},
                          {"bf16", ParameterStorage::split, DType::f32, 2, 10},
                          {"tf32", ParameterStorage::autocast, DType::f32, 4, 8}};
  for (const Expected& expected : all) {
    SCOPED_TRACE(std::string(expected.precision) + " moments " +
                 std::string(name(expected.moments)));
    train::Config config = planned(expected.precision, expected.params);
    config.precision.moments = expected.moments;
    const Forecast found = forecast(config);
    EXPECT_EQ(found.parameter_count, all_parameters);
    EXPECT_EQ(found.of(Category::parameters), expected.parameter * all_parameters);
    EXPECT_EQ(found.gradients, 4 * all_parameters);
    EXPECT_EQ(found.of(Category::gradients), gradients_at_peak(expected.precision));
    EXPECT_EQ(found.of(Category::optimizer), expected.optimizer * all_parameters);
    const int64_t master = expected.params == ParameterStorage::masters ? 4
                           : expected.params == ParameterStorage::split ? 2
                                                                        : 0;
    EXPECT_EQ(found.masters, master * all_parameters);
  }
}

// The scaler and delayed scales are few, and counted: scale, tracker and hysteresis; three streams
// of a history and four numbers for each linear layer, and its weight in FP8 with one number.
TEST(PlanBytes, IncludeTheStateOfScalersAndScales) {
  const int64_t history = planned("fp8").precision.recipe[amp::Role::input].delayed().history;
  EXPECT_EQ(
      forecast(planned("fp8")).of(Category::parameters),
      4 * all_parameters + layers * 4 * 3 * (history + 4) * 4 + layers * (block_matrices + 4 * 4));
  EXPECT_GE(forecast(planned("fp16")).of(Category::optimizer), 8 * all_parameters + 4 + 2 * 4);
  EXPECT_LT(forecast(planned("fp16")).of(Category::optimizer), 8 * all_parameters + 64);
}

// Two steps of the real thing, category by category.
TEST(PlanBytes, AreThoseThatARunTakes) {
  for (const char* precision : {"fp32", "bf16", "fp16", "fp8"}) {
    for (const bool recompute : {false, true}) {
      train::Config config = planned(precision);
      config.train.activations = nn::Activations::recompute(recompute);
      SCOPED_TRACE(precision + std::string(recompute ? " recompute" : ""));
      const Forecast expected = forecast(config);
      const memory::Statistics before = memory::statistics();
      memory::reset_peak();
      train::Trainer trainer(config);
      for (int i = 0; i < 2; ++i) trainer.step(train::small_tokens());
      const memory::Statistics after = memory::statistics();
      EXPECT_EQ(expected.peak, after.peak - before.allocated);
      int64_t sum = 0;
      for (size_t i = 0; i < memory::category_count; ++i) {
        EXPECT_EQ(expected.at_peak[i], after.at_peak[i] - before.live[i])
            << memory::name(static_cast<Category>(i));
        sum += expected.at_peak[i];
      }
      EXPECT_EQ(expected.peak, sum);
    }
  }
}

// What else lives on the meta device is not the run's.
TEST(PlanBytes, AreTheRunsOwn) {
  const Forecast alone = forecast(planned("bf16"));
  const Tensor other = [] {
    const memory::CategoryGuard category(Category::gradients);
    return Tensor::empty({1000, 1000}, DType::f32, Device::meta());
  }();
  const Forecast beside = forecast(planned("bf16"));
  EXPECT_EQ(alone.peak, beside.peak);
  EXPECT_EQ(alone.at_peak, beside.at_peak);
}

// --- work ---

double flops_of(const train::Config& config) {
  double flops = 0;
  for (const Work& one : forecast(config).work) flops += one.flops;
  return flops;
}

// Each product runs forward and twice backward; attention's two products skip what is masked, half
// of it, and have five gradients' products.
TEST(PlanWork, IsCountedToTheOperation) {
  constexpr int64_t tokens = batch * context;
  constexpr int64_t forward = layers * (2 * tokens * block_matrices + 2 * tokens * width * context);
  constexpr int64_t backward =
      layers * (4 * tokens * block_matrices + 5 * tokens * width * context);
  constexpr int64_t head = 6 * tokens * width * vocab;
  train::Config config = planned("bf16");
  EXPECT_EQ(flops_of(config), static_cast<double>(accumulate * (forward + backward + head)));
  config.train.activations = nn::Activations::recompute();
  EXPECT_EQ(flops_of(config), static_cast<double>(accumulate * (2 * forward + backward + head)));
}

// Recomputing reads and writes what the blocks' forward did once more, and nothing else: each op of
// the forward and of the backward counts by itself, and the recompute around them does not.
TEST(PlanWork, OfRecomputeIsAnotherForward) {
  const auto total = [](const std::vector<Work>& work) {
    double bytes = 0;
    for (const Work& one : work) bytes += one.bytes;
    return bytes;
  };
  train::Config config = planned("fp32");
  config.train.accumulate = 1;
  const std::vector<Work> plain = forecast(config).work;
  config.train.activations = nn::Activations::recompute();
  const std::vector<Work> recomputed = forecast(config).work;
  // The forward is what stands before the loss; the embedding and the last norm are outside blocks.
  const auto loss = std::find_if(plain.begin(), plain.end(),
                                 [](const Work& one) { return one.kind == WorkKind::loss; });
  ASSERT_NE(loss, plain.end());
  const std::vector<Work> forward(plain.begin(), loss);
  EXPECT_GT(recomputed.size(), plain.size());
  EXPECT_LE(recomputed.size(), plain.size() + forward.size());
  EXPECT_GT(total(recomputed), total(plain));
  EXPECT_LE(total(recomputed), total(plain) + total(forward));
}

// An update reads and writes, per parameter: the gradient for its norm and for clipping (12 bytes
// with the write), the gradient and the master (12), and both moments.
TEST(PlanWork, EndsWithTheUpdate) {
  const auto update = [](const train::Config& config) { return forecast(config).work.back(); };
  const auto each = [](const Work& work) { return work.bytes / all_parameters; };
  train::Config config = planned("bf16");
  EXPECT_EQ(each(update(config)), 12 + 12 + 16);
  EXPECT_EQ(update(config).flops, 0);
  config.precision.moments = DType::bf16;
  EXPECT_EQ(each(update(config)), 12 + 12 + 8);
  config.precision.params = ParameterStorage::masters;
  EXPECT_EQ(each(update(config)), 12 + 12 + 8 + 2);  // the 16-bit copy
  config.precision.params = ParameterStorage::split;
  EXPECT_EQ(each(update(config)), 12 + 12 + 8);  // which is half of the master here
}

// --- text ---

TEST(PlanText, ShowsEveryCategory) {
  constexpr int64_t mb = 1000 * 1000;
  PlanRow row{.name = "bf16, masters", .config = planned("bf16", ParameterStorage::masters)};
  Forecast& f = row.forecast;
  const auto set = [&](Category category, int64_t bytes) {
    f.at_peak[static_cast<size_t>(category)] = bytes;
  };
  set(Category::parameters, 11 * mb);
  set(Category::gradients, 22 * mb);
  set(Category::optimizer, 100 * mb);
  set(Category::activations, 45 * mb);
  set(Category::workspace, 10 * mb);
  set(Category::logits, 7 * mb);
  f.masters = 33 * mb;
  f.logits = 66 * mb;
  f.weight_copies = 15 * mb;
  f.snapshot = 44 * mb;
  f.peak = 195 * mb;
  f.saves_during_steps = true;
  row.process = 255 * mb;
  row.largest_batch = 8;
  row.speed = {.low = 987, .likely = 1234, .high = 1543};
  const auto words = [&](int64_t memory) {
    const std::string text = plan_text({row}, memory);
    std::istringstream line(text.substr(text.find("masters", text.find('\n')) + 7));
    std::vector<std::string> result;
    for (std::string word; line >> word;) result.push_back(word);
    return result;
  };
  EXPECT_THAT(words(240 * mb),
              ::testing::ElementsAre("11", "MB", "33", "MB", "22", "MB", "67", "MB", "15", "MB",
                                     "40", "MB", "66", "MB", "44", "MB", "239", "MB", "255", "MB",
                                     "yes", "8", "990-1500"));
  EXPECT_THAT(words(238 * mb), ::testing::Contains("no"));
  row.process = 0;  // of a GPU's run
  row.speed = {.low = 0.098, .likely = 0.123, .high = 0.154};
  EXPECT_THAT(words(240 * mb), ::testing::Contains("-"));
  EXPECT_EQ(words(240 * mb).back(), "0.098-0.15");
  // On a narrow terminal in two tables.
  row.name = "fp16, masters, recompute";
  const std::string narrow = plan_text({row}, 240 * mb, 80);
  EXPECT_EQ(std::count(narrow.begin(), narrow.end(), '\n'), 5);
  std::istringstream lines(narrow);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

// A plan has every precision, with and without recompute, and fits where its forecast does.
TEST(PlanRows, AreForecastsOfTheirConfigurations) {
  const int64_t limit = 6'000'000;
  const std::vector<PlanRow> rows = plan(planned("bf16"), limit).rows;
  std::vector<std::string> names;
  for (const PlanRow& row : rows) {
    names.push_back(row.name);
    EXPECT_EQ(row.forecast.peak, forecast(row.config).peak) << row.name;
    const int64_t besides = row.forecast.run_peak() - row.forecast.peak;
    EXPECT_EQ(row.largest_batch, largest_batch(row.config, limit - besides)) << row.name;
    EXPECT_GT(row.speed.likely, row.speed.low) << row.name;
    EXPECT_GT(row.speed.high, row.speed.likely) << row.name;
  }
  EXPECT_THAT(names, ::testing::ElementsAre(
                         "fp32", "fp32, recompute", "tf32", "tf32, recompute", "bf16",
                         "bf16, recompute", "bf16, masters", "bf16, masters, recompute", "fp16",
                         "fp16, recompute", "fp16, masters", "fp16, masters, recompute", "fp8",
                         "fp8, recompute", "fp8, masters", "fp8, masters, recompute"));
}

}  // namespace
}  // namespace binade::lab
