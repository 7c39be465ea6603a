#include "binade/train/run/prometheus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "binade/train/run/loop.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// The samples of a text by "name{labels}", read by the rules of the format: each family has HELP,
// TYPE and then all its samples; names, labels and numbers are well formed; counters, and nothing
// else, end in _total; no sample comes twice.
std::map<std::string, double> samples_in(const std::string& text) {
  static const std::regex help("# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) ([^\\\\]|\\\\\\\\|\\\\n)+"),
      type("# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge)"),
      line(
          "([a-zA-Z_:][a-zA-Z0-9_:]*)(\\{[a-zA-Z_][a-zA-Z0-9_]*=\"([^\"\\\\]|\\\\[\\\\\"n])*\""
          "(,[a-zA-Z_][a-zA-Z0-9_]*=\"([^\"\\\\]|\\\\[\\\\\"n])*\")*\\})? (\\S+)");
  std::map<std::string, double> samples;
  std::set<std::string> families;
  std::string helped, family;
  EXPECT_TRUE(text.ends_with('\n'));
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const std::string one = text.substr(begin, end - begin);
    begin = end + 1;
    std::smatch match;
    if (std::regex_match(one, match, help)) {
      helped = match[1];
      EXPECT_TRUE(families.insert(helped).second) << one;
    } else if (std::regex_match(one, match, type)) {
      family = match[1];
      EXPECT_EQ(family, helped) << one;
      EXPECT_EQ(family.ends_with("_total"), match[2] == "counter") << one;
    } else if (std::regex_match(one, match, line)) {
      EXPECT_EQ(match[1], family) << one;
      const std::string number = match[6];
      const double value = number == "NaN"    ? NAN
                           : number == "+Inf" ? INFINITY
                           : number == "-Inf" ? -INFINITY
                                              : std::stod(number);
      EXPECT_TRUE(samples.emplace(match[1].str() + match[2].str(), value).second) << one;
    } else {
      ADD_FAILURE() << "not in the format: " << one;
    }
  }
  return samples;
}

PrometheusNumbers numbers() {
  PrometheusNumbers n;
  n.record = {.step = 12,
              .loss = 2.625,
              .validation_loss = {},
              .lr = 3e-5,
              .gradient_norm = 0.75,
              .scale = 1024,
              .tokens_per_second = 5120.5,
              .seconds = 7.25,
              .tokens = 98304};
  n.validation_loss = 2.5;
  n.skipped = {.by_loss = 1, .by_gradient = 3};
  n.steps = 400;
  n.epoch = 0.375;
  n.full_speed = 20482;
  n.memory.live = {10, 20, 30, 40, 50, 60};
  n.memory.cached = 70;
  n.memory.peak = 300;
  n.checkpoint_time = 1.75e9;
  n.shares = {{amp::Role::input, 0.25, 0.125}, {amp::Role::gradient, 0.0625, 0.5}};
  n.precision = "fp8";
  n.recipe = "a \"quoted\\ name\"\nof two lines";
  return n;
}

TEST(Prometheus, TextHasEveryNumberUnderItsName) {
  const std::map<std::string, double> expected = {
      {R"(binade_build_info{version="0.1.0",precision="fp8",)"
       R"(recipe="a \"quoted\\ name\"\nof two lines"})",
       1},
      {"binade_steps_total", 12},
      {"binade_planned_steps", 400},
      {"binade_tokens_total", 98304},
      {"binade_epochs", 0.375},
      {"binade_training_seconds_total", 7.25},
      {R"(binade_skipped_steps_total{reason="loss"})", 1},
      {R"(binade_skipped_steps_total{reason="gradient"})", 3},
      {"binade_validation_loss", 2.5},
      {"binade_last_checkpoint_timestamp_seconds", 1.75e9},
      {"binade_loss", 2.625},
      {"binade_learning_rate", 3e-5},
      {"binade_gradient_norm", 0.75},
      {"binade_loss_scale", 1024},
      {"binade_tokens_per_second", 5120.5},
      {"binade_mfu_ratio", 0.25},
      {R"(binade_quantization_saturated_ratio{tensor="input"})", 0.25},
      {R"(binade_quantization_saturated_ratio{tensor="gradient"})", 0.0625},
      {R"(binade_quantization_flushed_ratio{tensor="input"})", 0.125},
      {R"(binade_quantization_flushed_ratio{tensor="gradient"})", 0.5},
      {R"(binade_memory_bytes{kind="parameters"})", 10},
      {R"(binade_memory_bytes{kind="gradients"})", 20},
      {R"(binade_memory_bytes{kind="optimizer"})", 30},
      {R"(binade_memory_bytes{kind="activations"})", 40},
      {R"(binade_memory_bytes{kind="logits"})", 50},
      {R"(binade_memory_bytes{kind="workspace"})", 60},
      {R"(binade_memory_bytes{kind="cached"})", 70},
      {"binade_memory_peak_bytes", 300}};
  EXPECT_EQ(samples_in(prometheus_text(numbers())), expected);
}

TEST(Prometheus, TextWritesNumbersThatAreNotFinite) {
  PrometheusNumbers n = numbers();
  n.record.loss = NAN;
  n.record.gradient_norm = INFINITY;
  n.record.scale = -INFINITY;
  const std::string text = prometheus_text(n);
  samples_in(text);
  EXPECT_THAT(text, HasSubstr("\nbinade_loss NaN\n"));
  EXPECT_THAT(text, HasSubstr("\nbinade_gradient_norm +Inf\n"));
  EXPECT_THAT(text, HasSubstr("\nbinade_loss_scale -Inf\n"));
}

TEST(Prometheus, TextLeavesOutWhatIsNotKnown) {
  PrometheusNumbers n;
  n.precision = "bf16";
  const std::string text = prometheus_text(n);
  samples_in(text);
  for (const char* name : {"binade_loss", "binade_validation_loss", "binade_mfu", "quantization",
                           "binade_epochs", "checkpoint", "recipe"})
    EXPECT_THAT(text, Not(HasSubstr(name)));
  EXPECT_THAT(text, HasSubstr("\nbinade_steps_total 0\n"));
}

TEST(Prometheus, FileIsReplacedAtMostOnceASecondUnlessNow) {
  const testing::TemporaryFolder folder;
  const fs::path path = folder / "run.prom";
  PrometheusNumbers n = numbers();
  PrometheusFile file(path, n);
  int asked = 0;
  const auto next = [&] {
    ++asked;
    ++n.record.step;
    return n;
  };
  EXPECT_EQ(file.update(next, false), "");
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(file.update(next, true), "");
  EXPECT_EQ(samples_in(testing::content_of(path)).at("binade_steps_total"), 13);
  EXPECT_FALSE(fs::exists(folder / "run.prom.tmp"));
}

TEST(Prometheus, FailuresAreRefusedFirstAndWarnedOfOnceLater) {
  const testing::TemporaryFolder folder;
  const fs::path below = folder / "gone", path = below / "run.prom";
  EXPECT_THAT(test::error_of([&] { PrometheusFile(path, numbers()); }),
              HasSubstr("--metrics-file " + path.string() +
                        ": expected a file to write to, found No such file"));
  EXPECT_THAT(test::error_of([&] { check_metrics_file(path); }), HasSubstr("No such file"));
  EXPECT_THAT(test::error_of([&] { check_metrics_file(io::Path(folder / ".")); }),
              HasSubstr("found a folder"));
  fs::create_directory(below);
  check_metrics_file(path);
  EXPECT_TRUE(fs::is_empty(below));
  PrometheusFile file(path, numbers());
  fs::remove_all(below);
  EXPECT_THAT(file.update([] { return numbers(); }, true),
              HasSubstr("training continues without it"));
  EXPECT_EQ(file.update([] { return numbers(); }, true), "");
  fs::create_directory(below);
  EXPECT_EQ(file.update([] { return numbers(); }, true), "");
  EXPECT_TRUE(fs::exists(path));
}

// Overflows of f16 gradients are skipped steps; a resumed run counts those before.
TEST(Prometheus, FileOfARunHasItsCountsAlsoWhenResumed) {
  const testing::TemporaryFolder folder;
  Config config = small_config("fp16");
  config.precision.scale_init = 0x1p40;
  config.data.source = folder.put("text.txt", small_text()).string();
  config.run.out = (folder / "run").string();
  config.run.metrics_file = (folder / "run.prom").string();
  run(config, Progress::Mode::quiet);
  auto samples = samples_in(testing::content_of(folder / "run.prom"));
  const Record last = read_metrics(folder / "run/metrics.jsonl").back();
  EXPECT_EQ(samples.at("binade_steps_total"), 6);
  EXPECT_EQ(samples.at("binade_loss"), last.loss);
  EXPECT_EQ(samples.at("binade_validation_loss"), *last.validation_loss);
  EXPECT_EQ(samples.at("binade_tokens_total"), static_cast<double>(*last.tokens));
  const double skipped = samples.at("binade_skipped_steps_total{reason=\"gradient\"}");
  EXPECT_GT(skipped, 0);
  EXPECT_EQ(skipped + samples.at("binade_skipped_steps_total{reason=\"loss\"}"),
            static_cast<double>(last.skipped));
  EXPECT_GT(samples.at("binade_last_checkpoint_timestamp_seconds"), 1.7e9);
  EXPECT_GT(samples.at("binade_memory_bytes{kind=\"parameters\"}"), 0);

  config.run.resume = true;
  config.train.steps = 8;
  run(config, Progress::Mode::quiet);
  samples = samples_in(testing::content_of(folder / "run.prom"));
  EXPECT_EQ(samples.at("binade_steps_total"), 8);
  EXPECT_GE(samples.at("binade_skipped_steps_total{reason=\"gradient\"}"), skipped);
  EXPECT_EQ(samples.at("binade_skipped_steps_total{reason=\"gradient\"}") +
                samples.at("binade_skipped_steps_total{reason=\"loss\"}"),
            static_cast<double>(read_metrics(folder / "run/metrics.jsonl").back().skipped));
}

}  // namespace
}  // namespace binade::train
