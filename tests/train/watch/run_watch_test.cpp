#include "binade/train/watch/run_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "binade/train/watch/first_loss.h"

namespace binade::train {
namespace {

using ::testing::HasSubstr;

// A course of losses and gradient norms as functions of the step, and what must be said of it.
struct Course {
  const char* name;
  RunFacts run;
  int64_t steps;
  std::function<double(int64_t)> loss;
  std::function<double(int64_t)> gradient;
  std::vector<std::pair<Cause, int64_t>> alarms = {};  // with their steps
  bool failed = false;
  std::function<bool(int64_t)> applied = [](int64_t) { return true; };
};

const RunFacts bytes{.vocabulary = 256, .clip = 1, .eps = 1e-8, .beta2 = 0.95, .elements = 100'000};

RunFacts with(std::function<void(RunFacts&)> change) {
  RunFacts run = bytes;
  change(run);
  return run;
}

// Noise of single batches: +-15%, the same in every run of the test.
double noise(int64_t step) { return 1 + 0.15 * std::sin(12.9898 * static_cast<double>(step)); }

// From `first` to `last`, most of it in the first fifth.
double decaying(int64_t step, double first, double last, double steps) {
  return last + (first - last) * std::exp(-5 * static_cast<double>(step - 1) / steps);
}

std::function<double(int64_t)> constant(double value) {
  return [value](int64_t) { return value; };
}

std::vector<Course> healthy() {
  const auto learns = [](int64_t i) { return decaying(i, 5.6, 1.5, 300) * noise(i); };
  const auto gradient = [](int64_t i) { return decaying(i, 2, 0.3, 300) * noise(i + 7); };
  return {
      {"learning", bytes, 300, learns, gradient},
      {"two_steps", bytes, 2, learns, gradient},
      {"plateau_at_guessing", bytes, 200, constant(5.545), constant(1.5)},
      {"small_gradients_at_the_start", bytes, 50, constant(5.545), constant(2e-2)},
      {"overshoot_of_a_high_rate", bytes, 60,
       [](int64_t i) { return i > 4 && i < 9 ? 7.1 : decaying(i, 5.6, 3.5, 60); }, gradient},
      {"single_spikes", bytes, 300,
       [=](int64_t i) { return i % 50 == 0 ? 9.0 : decaying(i, 5.6, 1.5, 300); }, gradient},
      {"by_heart", bytes, 300, [](int64_t i) { return decaying(i, 5.6, 1e-6, 100); },
       [](int64_t i) { return decaying(i, 2, 1e-9, 60); }},
      {"by_heart_exactly", bytes, 300,
       [](int64_t i) { return i < 200 ? decaying(i, 5, 0, 90) : 0; },
       [](int64_t i) { return i < 200 ? 1.0 : 0.0; }},
      {"noise_of_small_batches_by_heart", bytes, 400,
       [](int64_t i) { return i % 3 == 0 ? 0.4 : 0.05 * noise(i); }, gradient},
      {"fine_tuning", with([](RunFacts& run) { run.is_loaded = true; }), 100,
       [](int64_t i) { return decaying(i, 2.1, 1.7, 100) * noise(i); }, gradient},
      {"fine_tuning_on_foreign_text", with([](RunFacts& run) {
         run.vocabulary = 50257;
         run.is_loaded = true;
       }),
       100, [](int64_t i) { return decaying(i, 12, 3, 100); }, gradient},
      {"two_tokens", with([](RunFacts& run) { run.vocabulary = 2; }), 200,
       [](int64_t i) { return i % 20 == 0 ? 1.4 : decaying(i, 0.7, 0.2, 200) * noise(i); },
       gradient},
      {"large_vocabulary", with([](RunFacts& run) { run.vocabulary = 128'256; }), 200,
       [](int64_t i) { return decaying(i, 12.4, 4, 200) * noise(i); }, gradient},
      {"large_initial_logits", with([](RunFacts& run) { run.vocabulary = 50257; }), 200,
       [](int64_t i) { return decaying(i, 19, 5, 200); }, gradient},
      {"always_clipped", with([](RunFacts& run) { run.clip = 1e-3; }), 200, learns, gradient},
      {"eight_billion", with([](RunFacts& run) { run.elements = 8'000'000'000; }), 100, learns,
       constant(0.05)},
      {"no_clipping", with([](RunFacts& run) { run.clip = 0; }), 100, learns, gradient},
      {"one_batch_without_labels", bytes, 50, [=](int64_t i) { return i == 20 ? 0 : learns(i); },
       [=](int64_t i) { return i == 20 ? 0 : gradient(i); }},
      {"scaler_skips",
       bytes,
       50,
       learns,
       [](int64_t i) { return i % 6 == 1 ? NAN : 1; },
       {},
       false,
       [](int64_t i) { return i % 6 != 1; }},
      {"last_step_skipped",
       bytes,
       30,
       learns,
       [](int64_t i) { return i == 30 ? NAN : 1; },
       {},
       false,
       [](int64_t i) { return i != 30; }},
      {"overshoot_to_guessing", bytes, 60,
       [](int64_t i) { return i > 8 && i < 15 ? 5.6 : decaying(i, 5.6, 3.5, 60); }, gradient},
      {"noise_about_guessing", with([](RunFacts& run) { run.vocabulary = 2; }), 200,
       [](int64_t i) { return 0.693 * noise(i); }, gradient},
      {"slow_drift", bytes, 500, [](int64_t i) { return 2.0 + 0.0015 * static_cast<double>(i); },
       gradient},
  };
}

std::vector<Course> faulty() {
  using enum Cause;
  const auto learns = [](int64_t i) { return decaying(i, 5.6, 1.5, 300) * noise(i); };
  return {
      {"head_times_1000",
       bytes,
       5,
       [](int64_t i) { return decaying(i, 1414, 1300, 5); },
       constant(900),
       {{first_loss, 1}}},
      {"foreign_tokenizer",
       with([](RunFacts& run) { run.is_loaded = true; }),
       5,
       constant(17.2),
       constant(3),
       {{first_loss, 1}}},
      {"one_step_of_history",
       bytes,
       2,
       [](int64_t i) { return i == 1 ? 5.6 : 400; },
       constant(9),
       {{divergence, 2}},
       true},
      {"two_steps_of_history",
       bytes,
       3,
       [](int64_t i) { return i == 1   ? 5.6
                              : i == 2 ? 7.4
                                       : 21.7; },
       constant(9),
       {{divergence, 3}},
       true},
      // As Adafactor does at a rate of 10: gradients are as large as before.
      {"back_to_guessing",
       bytes,
       60,
       [](int64_t i) { return i > 2 && i < 6 ? 4.0 : 5.54; },
       constant(0.7),
       {{collapse, 14}},
       true},
      {"climb_to_253190",
       bytes,
       60,
       [](int64_t i) { return 5.6 * std::exp(0.18 * static_cast<double>(i)); },
       constant(1e3),
       {{divergence, 8}},
       true},
      {"climb_that_recovers",
       bytes,
       200,
       [](int64_t i) { return i > 2 && i < 50 ? 60 : decaying(i, 5.6, 3, 200); },
       constant(2),
       {{divergence, 3}}},
      {"somewhat_above_guessing",
       bytes,
       30,
       [](int64_t i) { return i < 10 ? 5.5 : 7.0; },
       constant(1),
       {{divergence, 14}},
       true},
      {"leaves_its_minimum",
       bytes,
       200,
       [=](int64_t i) { return i < 120 ? learns(i) : 4.5 * noise(i); },
       constant(1),
       {{divergence, 129}},
       true},
      {"tiny_vocabulary",
       with([](RunFacts& run) { run.vocabulary = 2; }),
       10,
       [](int64_t i) { return 0.7 * static_cast<double>(i * i); },
       constant(1),
       {{divergence, 3}},
       true},
      {"climb_with_overflowing_gradients",
       bytes,
       6,
       [](int64_t i) { return i < 3 ? 5.6 : 1e6; },
       [](int64_t i) { return i < 3 ? 1 : INFINITY; },
       {{divergence, 3}},
       true,
       [](int64_t i) { return i < 3; }},
      {"collapse",
       bytes,
       60,
       [=](int64_t i) { return i < 30 ? learns(i) : 5.55; },
       [](int64_t i) { return i < 30 ? 1 : 1e-6; },
       {{collapse, 32}},
       true},
      {"zeros", bytes, 5, constant(5.545), constant(0), {{no_gradient, 2}}, true},
      {"dies_later",
       bytes,
       40,
       [=](int64_t i) { return i < 20 ? learns(i) : 4.0; },
       [](int64_t i) { return i < 20 ? 1 : 0; },
       {{no_gradient, 21}},
       true},
      {"no_labels", bytes, 4, constant(0), constant(0), {{no_gradient, 2}}, true},
      {"clip_swallows",
       with([](RunFacts& run) { run.clip = 1e-12; }),
       20,
       constant(5.6),
       constant(1.9),
       {{small_gradient, 5}}},
      {"eps_rules", bytes, 20, constant(5.5), constant(1e-6), {{small_gradient, 5}}},
      {"only_skips",
       bytes,
       20,
       constant(5.6),
       constant(NAN),
       {},
       true,
       [](int64_t) { return false; }},
      {"ends_in_nan",
       bytes,
       20,
       [=](int64_t i) { return i < 10 ? learns(i) : NAN; },
       constant(1),
       {},
       true},
  };
}

class Courses : public ::testing::TestWithParam<Course> {};

TEST_P(Courses, RaiseTheAlarmsOfTheirFaultsOnce) {
  const Course& course = GetParam();
  RunWatch watch(course.run);
  std::vector<std::pair<Cause, int64_t>> alarms;
  for (int64_t step = 1; step <= course.steps; ++step) {
    for (const Alarm& alarm : watch.add({.step = step,
                              .loss = course.loss(step),
                              .gradient_norm = course.gradient(step),
                              .lr = 1e-3,
                              .applied = course.applied(step)}))
      alarms.emplace_back(alarm.cause, alarm.step);
  }
  EXPECT_EQ(alarms, course.alarms);
  EXPECT_EQ(!watch.failure().empty(), course.failed) << watch.failure();
}

const auto name_of = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Healthy, Courses, ::testing::ValuesIn(healthy()), name_of);
INSTANTIATE_TEST_SUITE_P(Faulty, Courses, ::testing::ValuesIn(faulty()), name_of);

std::string text_of(const RunFacts& run, std::vector<StepFacts> steps) {
  RunWatch watch(run);
  std::string text;
  for (const StepFacts& step : steps) {
    for (const Alarm& alarm : watch.add(step)) text += to_text(alarm) + "\n";
  }
  return text;
}

TEST(RunWatch, SaysWhatToDo) {
  const std::vector<StepFacts> runaway{{1, 5.6, 2, 1.5}, {2, 900, 70, 3}};
  EXPECT_EQ(text_of(bytes, runaway),
            "divergence: the loss is 900 after 5.6 at the start, and guessing costs 5.55; lower "
            "--lr (now 3) or lengthen --warmup\n");
  EXPECT_THAT(text_of(with([](RunFacts& run) { run.beta2 = 0; }), runaway),
              HasSubstr("raise --beta2 (now 0)"));
  // Nine losses of which none is far above, and the last one is not above at all.
  std::vector<StepFacts> above{{1, 5.6, 2, 1e-2}};
  for (int64_t step = 2; step <= 9; ++step) above.push_back({step, 7.5, 2, 1e-2});
  above.push_back({10, 4.6, 2, 1e-2});
  EXPECT_THAT(text_of(bytes, above),
              HasSubstr("the loss is 7.5 (the median of 9 steps) after 5.6"));
  EXPECT_EQ(text_of(bytes, {{1, 1414, 2, 1e-3}}),
            "first loss: the first loss is 1414, and guessing among 256 tokens costs 5.55; check "
            "the scale of the initial weights, of the output layer first\n");
  const std::vector<StepFacts> small(5, {3, 5.5, 1.9, 1e-3});
  EXPECT_THAT(text_of(with([](RunFacts& run) { run.clip = 1e-12; }), small),
              HasSubstr("clipped from a norm of 1.9 to 1e-12"));
  EXPECT_THAT(text_of(with([](RunFacts& run) { run.clip = 1e-12; }), small),
              HasSubstr("raise --clip"));
  EXPECT_THAT(text_of(bytes, {{1, 0, 0, 1}, {2, 0, 0, 1}}), HasSubstr("labels"));
  const RunFacts loaded = with([](RunFacts& run) { run.is_loaded = true; });
  EXPECT_THAT(text_of(loaded, {{1, 17.2, 2, 1e-3}}), HasSubstr("check that the tokenizer"));
  EXPECT_THAT(text_of(loaded, {{1, 1659, 2, 1e-3}}), HasSubstr("check the scale of the weights"));
}

TEST(RunWatch, NamesTheParameter) {
  const Alarm alarm{Cause::first_loss, 1, "too large", "shrink it", "head.weight"};
  EXPECT_EQ(to_text(alarm), "first loss: too large; head.weight stands out; shrink it");
}

TEST(RunWatch, AdvisesAboutTheParameter) {
  Alarm alarm{Cause::first_loss, 1, "too large", "check the tokenizer"};
  name_parameter(alarm, "");
  EXPECT_EQ(to_text(alarm), "first loss: too large; check the tokenizer");
  name_parameter(alarm, "head.weight");
  EXPECT_EQ(to_text(alarm),
            "first loss: too large; head.weight stands out; check the scale of head.weight");
  Alarm other{Cause::divergence, 2, "it climbs", "lower --lr"};
  name_parameter(other, "head.weight");
  EXPECT_EQ(to_text(other), "divergence: it climbs; head.weight stands out; lower --lr");
}

// Muon divides by the norm of a matrix, and a sign is lost where nothing is left.
TEST(RunWatch, KnowsWhatEachOptimizerLoses) {
  const std::vector<StepFacts> steps(5, {3, 5.5, 1.9, 1e-3});
  RunFacts muon = with([](RunFacts& run) { run.eps = 1e-7; });
  muon.eps_is_of_norm = true;
  muon.clip = 1e-6;
  EXPECT_EQ(text_of(muon, steps), "");
  muon.clip = 1e-12;
  EXPECT_THAT(text_of(muon, steps), HasSubstr("gradients of norm 1e-12, clipped"));
  RunFacts lion = with([](RunFacts& run) { run.eps = 1.18e-38; });
  lion.eps_name = "f32's smallest normal number";
  lion.clip = 1e-30;
  EXPECT_EQ(text_of(lion, steps), "");
  lion.clip = 1e-44;
  EXPECT_THAT(text_of(lion, steps), HasSubstr("are below f32's smallest normal number, 1.2e-38"));
}

TEST(RunWatch, StatesTheFailureOfTheLastStep) {
  RunWatch watch(bytes);
  EXPECT_EQ(watch.failure(), "");
  watch.add({.step = 1, .loss = NAN, .gradient_norm = NAN, .applied = false});
  EXPECT_EQ(watch.failure(), "all 1 steps were skipped, so nothing was learned");
  watch.add({.step = 2, .loss = 5.5, .gradient_norm = 1});
  EXPECT_EQ(watch.failure(), "");
  watch.add({.step = 3, .loss = NAN, .gradient_norm = NAN});
  EXPECT_EQ(watch.failure(), "the loss is not finite");
}

}  // namespace
}  // namespace binade::train
