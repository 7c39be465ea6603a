#include "binade/lab/replay/run_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "binade/backend/cpu/gemm/kernel.h"
#include "binade/base/error.h"
#include "binade/io/manifest.h"
#include "binade/io/safetensors.h"
#include "binade/train/checkpoint.h"
#include "binade/train/run/loop.h"
#include "binade/train/run/metrics.h"
#include "io/temporary_folder.h"
#include "train/small_run.h"

namespace binade::lab {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

// Of words that occur once each, so that a changed one is a change of the data.
std::string diff_text_source() {
  std::string text;
  for (int i = 0; i < 90; ++i) text += "line " + std::to_string(i * i * 7919 % 10007) + " ends\n";
  return text;
}

class RunDiffTest : public ::testing::Test {
 protected:
  using Change = std::function<void(train::Config&)>;

  static train::Config base(const std::string& precision) {
    train::Config config = train::small_config(precision);
    config.train.steps = 6;
    config.train.accumulate = 2;
    config.run.checkpoint_every = 3;
    config.run.hash_every = 3;
    config.run.sample = 0;
    return config;
  }

  std::string trained(const std::string& name, train::Config config, const Change& change = {}) {
    if (config.data.source == "builtin")
      config.data.source = folder_.put("text.txt", diff_text_source()).string();
    config.run.out = (folder_ / name).string();
    if (change) change(config);
    train::run(config, train::Progress::Mode::quiet);
    return config.run.out;
  }

  // Of a run and one with one change: the change must be named first, and as tried.
  RunDiff planted(const std::string& precision, const Change& change) {
    const std::string a = trained("a", base(precision)), b = trained("b", base(precision), change);
    RunDiff diff = diff_runs(a, b);
    fs::remove_all(folder_ / "a");
    fs::remove_all(folder_ / "b");
    return diff;
  }

  static void expect_cause(const RunDiff& diff, CauseKind kind, const std::string& what) {
    EXPECT_FALSE(diff.equal);
    ASSERT_FALSE(diff.causes.empty());
    EXPECT_EQ(diff.causes[0].kind, kind)
        << name(diff.causes[0].kind) << ": " << diff.causes[0].what;
    EXPECT_THAT(diff.causes[0].what, HasSubstr(what));
    EXPECT_TRUE(diff.causes[0].confirmed);
    EXPECT_TRUE(diff.replayed);
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(RunDiffTest, EqualRunsAreEqual) {
  const std::string a = trained("a", base("fp16"));
  const std::string b = trained("b", base("fp16"), [](train::Config& config) {
    config.train.threads = 1;
    config.run.checkpoint_every = 2;
    config.run.eval_every = 3;
  });
  const RunDiff diff = diff_runs(a, b);
  EXPECT_TRUE(diff.equal);
  EXPECT_EQ(diff.compared, 3);
  EXPECT_EQ(diff.last_equal, 6);
  EXPECT_THAT(diff_text(diff, "a", "b"), HasSubstr("equal, bit for bit, up to step 6"));
}

TEST_F(RunDiffTest, NamesTheSeed) {
  const RunDiff diff = planted("fp32", [](train::Config& c) { c.train.seed = 5; });
  expect_cause(diff, CauseKind::seed, "seed: 0 and 5");
  EXPECT_EQ(diff.step, 0);
  ASSERT_TRUE(diff.tensor);
  EXPECT_THAT(diff.tensor->name, StartsWith("weight/"));
}

// Each with the first tensor that shows it.
TEST_F(RunDiffTest, NamesSettings) {
  const struct {
    const char *precision, *what, *tensor;
    CauseKind kind;
    Change change;
  } cases[] = {
      {"fp32", "lr: 0.004 and 0.005", "weight/", CauseKind::setting,
       [](train::Config& c) { c.train.lr = 5e-3; }},
      {"fp32", "beta2: 0.95 and 0.9", "", CauseKind::setting,
       [](train::Config& c) { c.train.beta2 = 0.9; }},
      {"bf16", "weight-decay: 0.1 and 0.2", "weight/", CauseKind::setting,
       [](train::Config& c) { c.train.weight_decay = 0.2; }},
      {"fp32", "clip: 1.0 and 0.01", "", CauseKind::setting,
       [](train::Config& c) { c.train.clip = 0.01; }},
      {"fp32", "accumulate: 2 and 3", "", CauseKind::setting,
       [](train::Config& c) { c.train.accumulate = 3; }},
      {"fp32", "batch: 2 and 3", "micro.0/activation/embedding", CauseKind::setting,
       [](train::Config& c) { c.train.batch = 3; }},
      {"bf16", "dropout: 0.0 and 0.3", "micro.0/activation/", CauseKind::setting,
       [](train::Config& c) { c.train.dropout = 0.3; }},
      {"bf16", "norm-eps: 1e-05 and 0.001", "micro.0/activation/blocks.0.", CauseKind::setting,
       [](train::Config& c) { c.model.norm_eps = 1e-3; }},
      {"bf16", "precision: bf16 and fp32", "micro.0/activation/blocks.0.", CauseKind::cast,
       [](train::Config& c) { c.precision.matmul = train::Precision::fp32; }},
      {"bf16", "override: unset and blocks.1.mlp f32", "micro.0/activation/blocks.1.mlp",
       CauseKind::cast,
       [](train::Config& c) {
         c.precision.overrides.push_back({.module = "blocks.1.mlp", .run = CastClass::f32});
       }},
      {"fp8", "recipe", "", CauseKind::recipe,
       [](train::Config& c) { c.precision.recipe = amp::parse_recipe("row"); }},
      {"fp16", "scale-init: 65536.0 and 1024.0", "", CauseKind::setting,
       [](train::Config& c) { c.precision.scale_init = 1024; }},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.what);
    const RunDiff diff = planted(one.precision, one.change);
    expect_cause(diff, one.kind, one.what);
    EXPECT_LE(diff.step, 3);
    ASSERT_TRUE(diff.tensor);
    EXPECT_THAT(diff.tensor->name, StartsWith(one.tensor));
  }
}

// Two changes that only together make the second run; a third has no effect on the step.
TEST_F(RunDiffTest, NamesSettingsThatActTogether) {
  const RunDiff diff = planted("bf16", [](train::Config& c) {
    c.train.lr = 5e-3;
    c.train.dropout = 0.2;
    c.precision.scale_init = 1024;  // of fp16
  });
  ASSERT_EQ(diff.causes.size(), 2u);
  for (const Cause& cause : diff.causes) {
    EXPECT_TRUE(cause.confirmed);
    EXPECT_THAT(cause.what, ::testing::AnyOf(StartsWith("lr:"), StartsWith("dropout:")));
  }
}

TEST_F(RunDiffTest, NamesChangedAndReorderedData) {
  for (const bool reordered : {false, true}) {
    SCOPED_TRACE(reordered);
    const RunDiff diff = planted("fp32", [&](train::Config& c) {
      std::string text = diff_text_source();
      if (reordered) {
        std::rotate(text.begin(), text.begin() + 300, text.begin() + 900);
      } else {
        for (size_t i = 100; i < 900; ++i) text[i] = text[i] == ' ' ? '_' : text[i];
      }
      c.data.source = folder_.put("other.txt", text).string();
    });
    expect_cause(diff, reordered ? CauseKind::order : CauseKind::data, "training tokens from");
    EXPECT_THAT(diff.parts, HasSubstr("data"));
  }
}

// A log without hashes must not make runs equal: their last steps are compared all the same.
TEST_F(RunDiffTest, ComparesStepsWithoutHashes) {
  const Change without = [](train::Config& c) { c.run.hash_every = 0; };
  const Change other = [&](train::Config& c) {
    without(c);
    c.train.beta2 = 0.9;
  };
  const std::string a = trained("a", base("bf16"), without);
  const std::string equal = trained("equal", base("bf16"), without);
  const std::string different = trained("different", base("bf16"), other);
  // Equal by the hashes of their last checkpoints.
  EXPECT_TRUE(diff_runs(a, equal).equal);
  EXPECT_EQ(diff_runs(a, equal).last_equal, 6);
  EXPECT_FALSE(diff_runs(a, equal).replayed);
  expect_cause(diff_runs(a, different), CauseKind::setting, "beta2: ");
  // Without those, by a replay.
  for (const std::string& run : {a, equal, different})
    fs::remove_all(fs::path(run) / "checkpoints");
  const RunDiff replayed = diff_runs(a, equal);
  EXPECT_TRUE(replayed.equal);
  EXPECT_TRUE(replayed.replayed);
  EXPECT_EQ(replayed.last_equal, 6);
  expect_cause(diff_runs(a, different), CauseKind::setting, "beta2: ");
  // And if that cannot be, nothing is said to be equal.
  fs::remove(folder_ / "text.txt");
  const RunDiff unknown = diff_runs(a, different);
  EXPECT_FALSE(unknown.equal);
  EXPECT_FALSE(unknown.is_known());
  EXPECT_THAT(diff_text(unknown, "a", "b"), HasSubstr("not known whether the runs differ"));
}

// Of runs of 6 and 8 steps, the hashes of the start alone are of the same step.
TEST_F(RunDiffTest, ComparesRunsOfDifferentLengths) {
  const auto run = [&](const std::string& name, int64_t steps, double beta2) {
    return trained(name, base("fp32"), [&](train::Config& c) {
      c.train.schedule = optim::ScheduleKind::constant;
      c.train.steps = steps;
      c.train.beta2 = beta2;
      c.run.hash_every = 100;
      c.run.checkpoint_every = 0;
    });
  };
  const std::string a = run("a", 6, 0.95);
  const RunDiff equal = diff_runs(a, run("longer", 8, 0.95));
  EXPECT_TRUE(equal.equal);
  EXPECT_EQ(equal.compared, 1);
  EXPECT_EQ(equal.last_equal, 6);
  EXPECT_THAT(equal.notes, ::testing::Contains(HasSubstr("those after step 6 were not compared")));
  expect_cause(diff_runs(a, run("different", 8, 0.9)), CauseKind::setting, "beta2: ");
}

TEST_F(RunDiffTest, NamesTheKernels) {
  const std::string_view best = backend::cpu::current_level().name;
  if (best == "portable") GTEST_SKIP() << "one level";
  const std::string a = trained("a", base("bf16"));
  backend::cpu::set_level("portable");
  const std::string b = trained("b", base("bf16"));
  backend::cpu::set_level(best);
  const RunDiff diff = diff_runs(a, b);
  backend::cpu::set_level(best);
  expect_cause(diff, CauseKind::kernels, "portable");
  ASSERT_TRUE(diff.tensor);
  // Which result differs first depends on the machine: two levels may agree in the forward.
  EXPECT_THAT(diff.tensor->name, MatchesRegex("micro\\.0/(activation|gradient)/.+"));
}

// A bit of a weight in a checkpoint, with its manifest; the run was then resumed from it.
TEST_F(RunDiffTest, NamesAChangedCheckpoint) {
  train::Config config = base("fp32");
  config.train.steps = 3;
  config.train.schedule = optim::ScheduleKind::constant;
  const std::string plain = trained("plain", base("fp32"), [](train::Config& c) {
    c.train.schedule = optim::ScheduleKind::constant;
  });
  const std::string b = trained("b", config);
  const fs::path checkpoint = folder_ / "b/checkpoints/step-3";
  StateDict weights = io::load_safetensors(checkpoint / "model.safetensors");
  const auto changed = std::next(weights.begin(), 3);
  static_cast<uint32_t*>(changed->second.raw_data())[5] ^= 1u << 20;
  io::save_safetensors(checkpoint / "model.safetensors", weights);
  const auto facts = io::read_manifest(checkpoint, "test").facts;
  fs::remove(checkpoint / "manifest.json");
  const std::string manifest =
      io::manifest_text(checkpoint, {.step = 3, .facts = facts, .files = {}}, "test");
  std::ofstream(checkpoint / "manifest.json") << manifest;
  config.train.steps = 6;
  config.run.resume = true;
  config.data.source = (folder_ / "text.txt").string();
  config.run.out = b;
  train::run(config, train::Progress::Mode::quiet);
  const RunDiff diff = diff_runs(plain, b);
  EXPECT_FALSE(diff.equal);
  ASSERT_FALSE(diff.causes.empty());
  EXPECT_EQ(diff.causes[0].kind, CauseKind::state);
  EXPECT_THAT(diff.causes[0].what, HasSubstr((folder_ / "b").string()));
  EXPECT_THAT(diff.causes[0].what, HasSubstr("checkpoints/step-3"));
  ASSERT_TRUE(diff.tensor);
  EXPECT_EQ(diff.tensor->differing, 1);
}

// A chain that was computed anew over changed hashes: a replay tells.
TEST_F(RunDiffTest, FindsAForgedChain) {
  const std::string a = trained("a", base("fp32")), b = trained("b", base("fp32"));
  std::vector<train::Record> records = train::read_metrics(folder_ / "b/metrics.jsonl");
  std::string before;
  for (train::Record& record : records) {
    if (!record.link) continue;
    if (record.step == 3) record.link->state.moments ^= 1;
    record.link = train::next_link(before, record.step, record.link->state);
    before = record.link->digest;
  }
  {
    std::ofstream log(folder_ / "b/metrics.jsonl");
    for (const train::Record& record : records) log << to_json(record) << '\n';
  }
  const RunDiff diff = diff_runs(a, b);
  expect_cause(diff, CauseKind::state, b + ": its replay does not give the moments");
  EXPECT_EQ(diff.step, 3);
}

TEST_F(RunDiffTest, WithoutHashesRunsAreReplayed) {
  const Change none = [](train::Config& c) { c.run.hash_every = 0; };
  const std::string a = trained("a", base("fp32"), none);
  const std::string b = trained("b", base("fp32"), [&](train::Config& c) {
    none(c);
    c.train.beta1 = 0.7;
  });
  const std::string same = trained("same", base("fp32"), none);
  expect_cause(diff_runs(a, b), CauseKind::setting, "beta1: 0.9 and 0.7");
  EXPECT_TRUE(diff_runs(a, same).equal);
}

TEST_F(RunDiffTest, SaysWhatCannotBeSaid) {
  const std::string a = trained("a", base("fp32"));
  const std::string b = trained("b", base("fp32"), [](train::Config& c) { c.train.lr = 1e-3; });
  folder_.put("text.txt", "other data\n" + diff_text_source());
  const RunDiff diff = diff_runs(a, b);
  EXPECT_FALSE(diff.equal);
  EXPECT_FALSE(diff.replayed);
  EXPECT_THAT(diff.notes, ::testing::Contains(HasSubstr("restore the data")));
  ASSERT_FALSE(diff.causes.empty());
  EXPECT_FALSE(diff.causes[0].confirmed);
  EXPECT_THAT(diff_text(diff, a, b), HasSubstr("maybe:  setting: lr: 0.004 and 0.001"));
  EXPECT_THAT(diff_text(diff, a, b), HasSubstr("at step 3, and not at step 0"));
  EXPECT_THROW(diff_runs(a, (folder_ / "none").string()), Error);
}

// Settings that decide which tokens there are say more than the tokens.
TEST_F(RunDiffTest, NamesSettingsOfTheData) {
  expect_cause(planted("fp32", [](train::Config& c) { c.data.validation = 0.2; }),
               CauseKind::setting, "validation: 0.05 and 0.2");
  const std::string other = folder_.put("more.txt", "more\n" + diff_text_source()).string();
  const std::string text = folder_.put("text.txt", diff_text_source()).string();
  const auto mixed = [&](const char* first) {
    return [=](train::Config& c) { c.data.source = first + text + ",1*" + other; };
  };
  const std::string a = trained("a", base("fp32"), mixed("3*"));
  expect_cause(diff_runs(a, trained("b", base("fp32"), mixed("1*"))), CauseKind::data,
               "sources in proportion 3 : 1 and 1 : 1");
}

// A run that continues another one with other settings, and has no checkpoint from before.
TEST_F(RunDiffTest, NamesTheSettingsSinceARunWasResumed) {
  const auto constant = [](train::Config& c) { c.train.schedule = optim::ScheduleKind::constant; };
  const std::string a = trained("a", base("fp16"), constant);
  const std::string b = trained("b", base("fp16"), [&](train::Config& c) {
    constant(c);
    c.train.steps = 4;
  });
  trained("b", base("fp16"), [&](train::Config& c) {
    constant(c);
    c.train.lr = 1e-3;
    c.run.resume = true;
    c.run.allow_changes = {"lr"};
  });
  for (const bool has_checkpoint : {true, false}) {
    SCOPED_TRACE(has_checkpoint);
    if (!has_checkpoint) fs::remove_all(folder_ / "b/checkpoints");
    const RunDiff diff = diff_runs(a, b);
    expect_cause(diff, CauseKind::setting, "lr: 0.004 and 0.001");
    EXPECT_EQ(diff.causes.size(), 1u);
    EXPECT_EQ(diff.step, 5);
  }
}

// Its manifest is right but for the state's hash, and no step was taken from it.
TEST_F(RunDiffTest, NamesAChangedCheckpointOfEqualRuns) {
  const std::string a = trained("a", base("fp32")), b = trained("b", base("fp32"));
  const fs::path checkpoint = folder_ / "b/checkpoints/step-6";
  StateDict weights = io::load_safetensors(checkpoint / "model.safetensors");
  static_cast<uint32_t*>(weights.begin()->second.raw_data())[5] ^= 1;
  io::save_safetensors(checkpoint / "model.safetensors", weights);
  const auto facts = io::read_manifest(checkpoint, "test").facts;
  fs::remove(checkpoint / "manifest.json");
  const std::string manifest =
      io::manifest_text(checkpoint, {.step = 6, .facts = facts, .files = {}}, "test");
  std::ofstream(checkpoint / "manifest.json") << manifest;
  for (const bool swapped : {false, true}) {
    const RunDiff diff = swapped ? diff_runs(b, a) : diff_runs(a, b);
    expect_cause(diff, CauseKind::state, b + ": checkpoints/step-6 does not hold the weights");
    EXPECT_EQ(diff.step, 6);
    ASSERT_TRUE(diff.tensor);
    EXPECT_THAT(diff.tensor->name, HasSubstr("in checkpoint step-6 of " + b));
    EXPECT_EQ(diff.tensor->differing, 1);
  }
}

}  // namespace
}  // namespace binade::lab
