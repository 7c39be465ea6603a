#include "binade/train/audit/step_audit.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "binade/backend/gpu.h"
#include "binade/base/parallel.h"
#include "binade/base/random.h"
#include "binade/train/run/loop.h"
#include "binade/train/trainer.h"
#include "io/temporary_folder.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

using ::testing::HasSubstr;
using Change = std::function<void(Config&)>;

Config audited(const std::string& precision, double share) {
  Config config = small_config(precision);
  config.train.accumulate = 2;
  config.run.audit = share;
  return config;
}

struct Outcome {
  StateHash hash;
  int64_t findings = 0;
  backend::AuditCounts counts = {};
};
Outcome train_steps(const Config& config, int steps) {
  Trainer trainer(config);
  for (int i = 0; i < steps; ++i) trainer.step(small_tokens());
  Outcome outcome{.hash = trainer.hash()};
  if (StepAudit* const audit = trainer.audit()) {
    outcome.findings = audit->findings();
    outcome.counts = audit->counts();
  }
  return outcome;
}

struct AuditCase {
  const char* name;
  const char* precision;
  Change change;
};

TEST(StepAudit, ChangesNoBitAndRaisesNoFalseAlarm) {
  const AuditCase settings[] = {
      {"fp32", "fp32", [](Config&) {}},
      {"tf32", "tf32", [](Config&) {}},
      {"bf16, recompute", "bf16",
       [](Config& c) { c.train.activations = nn::Activations::recompute(); }},
      {"fp16, muon", "fp16", [](Config& c) { c.train.optimizer = OptimizerKind::muon; }},
      {"fp8", "fp8", [](Config&) {}},
      {"bf16, lion", "bf16", [](Config& c) { c.train.optimizer = OptimizerKind::lion; }},
      {"bf16, dropout", "bf16", [](Config& c) { c.train.dropout = 0.1; }},
  };
  for (const auto& [name, precision, change] : settings) {
    SCOPED_TRACE(name);
    Config with = audited(precision, 1), without = audited(precision, 0);
    change(with);
    change(without);
    const Outcome outcome = train_steps(with, 4);
    EXPECT_EQ(outcome.findings, 0);
    EXPECT_EQ(outcome.counts.audited, outcome.counts.pieces);
    EXPECT_GT(outcome.counts.kernels, 4 * 2 * 2 * 12);  // of each block: 4 matmuls and their 8
    EXPECT_EQ(differing_parts(outcome.hash, train_steps(without, 4).hash), "");
  }
}

TEST(StepAudit, ResultsDoNotDependOnThreads) {
  const int before = threads();
  std::vector<StateHash> hashes;
  for (const int count : {1, 3}) {
    set_threads(count);
    const Outcome outcome = train_steps(audited("bf16", 0.5), 3);
    EXPECT_EQ(outcome.findings, 0);
    EXPECT_LT(outcome.counts.audited, outcome.counts.pieces);
    hashes.push_back(outcome.hash);
  }
  set_threads(before);
  EXPECT_EQ(differing_parts(hashes[0], hashes[1]), "");
}

// A bit flipped in each kernel of a step, one at a time: all are found, and named.
TEST(StepAudit, NamesTheKernelAndModuleOfAFault) {
  std::set<std::string> kernels, modules;
  std::vector<AuditFinding> findings;
  Config config = audited("bf16", 1);
  config.run.audit_continue = true;
  Trainer trainer(config);
  trainer.audit()->on_finding([&](const AuditFinding& one) { findings.push_back(one); });
  int64_t ops = 0;
  trainer.audit()->inject(
      [&](const backend::AuditedResult& result) { ops = std::max(ops, result.op + 1); });
  trainer.step(small_tokens());
  ASSERT_GT(ops, 50);
  for (int64_t op = 0; op < ops; ++op) {
    findings.clear();
    int64_t element = -1;
    trainer.audit()->inject([&](const backend::AuditedResult& result) {
      if (result.op != op || element >= 0) return;
      const auto size = static_cast<int64_t>(size_of(result.view.dtype));
      element = random::bits(4, 0, static_cast<uint64_t>(op)) % result.view.numel();
      result.view.as<uint8_t>()[element * size] ^= 1;  // the last bit of a number
    });
    trainer.step(small_tokens());
    ASSERT_FALSE(findings.empty()) << op;
    EXPECT_EQ(findings[0].step, op + 2);
    EXPECT_EQ(findings[0].mismatch.op, op);
    EXPECT_EQ(findings[0].mismatch.index, element);
    EXPECT_EQ(findings[0].mismatch.found_bits ^ findings[0].mismatch.expected_bits, 1u);
    EXPECT_EQ(findings[0].micro < 0, findings[0].mismatch.kernel == "update");
    kernels.insert(findings[0].mismatch.kernel);
    modules.insert(findings[0].module);
  }
  EXPECT_THAT(kernels, ::testing::ElementsAre("matmul", "norm", "norm gradient", "update"));
  EXPECT_THAT(modules, ::testing::IsSupersetOf({"blocks.0.mlp.up", "blocks.1.attention.qkv"}));
}

Config run_config(const testing::TemporaryFolder& folder, double share) {
  Config config = audited("bf16", share);
  config.data.source = folder.put("text.txt", small_text()).string();
  config.run.checkpoint_every = config.run.hash_every = 2;
  config.run.out = (folder / "run").string();
  return config;
}

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

class InjectedFault {
 public:
  explicit InjectedFault(const std::string& text) {
    setenv("BINADE_INJECT_FAULT", text.c_str(), 1);
  }
  ~InjectedFault() { unsetenv("BINADE_INJECT_FAULT"); }
};

// The run stops before the step is applied, and goes on from its checkpoint as if nothing had been.
TEST(StepAudit, AFaultStopsARunThatCanBeResumed) {
  const testing::TemporaryFolder folder;
  Config config = run_config(folder, 1);
  {
    const InjectedFault fault("5:3:7:12");
    try {
      run(config, Progress::Mode::quiet);
      FAIL() << "the fault was not found";
    } catch (const AuditError& error) {
      EXPECT_THAT(error.what(), HasSubstr("step 5, micro-batch 0, rank 0, cpu: "));
      EXPECT_THAT(error.what(), HasSubstr("(kernel 3 of the step): element 7 of "));
    }
  }
  const std::vector<std::string> lines = lines_of(folder / "run/audit.jsonl");
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines[0], HasSubstr("\"step\":5,\"micro\":0,\"rank\":0"));
  EXPECT_FALSE(std::filesystem::exists(folder / "run/checkpoints/step-5"));
  config.run.resume = true;
  run(config, Progress::Mode::quiet);
  const std::vector<std::string> resumed = lines_of(folder / "run/audit.jsonl");
  EXPECT_EQ(resumed, lines);
  Config clean = run_config(folder, 0);
  clean.run.out = (folder / "clean").string();
  clean.run.verify = (folder / "run").string();
  const RunResult result = run(clean, Progress::Mode::quiet);
  EXPECT_EQ(result.steps, 6);
  EXPECT_EQ(result.difference, "");
}

TEST(StepAudit, GoesOnIfToldTo) {
  const testing::TemporaryFolder folder;
  Config config = run_config(folder, 1);
  config.run.audit_continue = true;
  const InjectedFault fault("2:0:1:3");
  const RunResult result = run(config, Progress::Mode::quiet);
  EXPECT_EQ(result.steps, 6);
  EXPECT_EQ(lines_of(folder / "run/audit.jsonl").size(), 1u);
}

// Sides that are multiples of a tile's, so that each element is in one piece.
Config tiled(const char* precision, double share, int64_t seed) {
  Config config = audited(precision, share);
  config.model.width = 64;
  config.model.hidden = 256;
  config.model.context = 64;
  config.train.accumulate = 1;
  config.train.seed = seed;
  config.run.audit_continue = true;
  return config;
}

struct Kernel {
  std::string name;
  int64_t elements = 0;  // of all its results: an update has many
};

// The audited kernels of the second step.
std::vector<Kernel> kernels_of(const Config& config) {
  Trainer trainer(config);
  trainer.step(small_tokens());
  std::vector<Kernel> kernels;
  trainer.audit()->inject([&](const backend::AuditedResult& result) {
    kernels.resize(std::max<size_t>(kernels.size(), result.op + 1));
    kernels[result.op].name = result.kernel;
    if (result.view.is_dense()) kernels[result.op].elements += result.view.numel();
  });
  trainer.step(small_tokens());
  return kernels;
}

// Flips one bit in a random element of what a random kernel of the second step gives. Which kernel;
// whether the audit found that, and nothing else.
struct Flip {
  std::string kernel;
  bool found = false;
};
Flip try_flip(const Config& config, const std::vector<Kernel>& kernels) {
  const auto draw = random::block(31, 7, static_cast<uint64_t>(config.train.seed));
  const size_t op = draw[0] % kernels.size();
  Flip flip{.kernel = kernels[op].name};
  const InjectedFault fault(
      fmt::format("2:{}:{}:{}", op, draw[1] % kernels[op].elements, draw[2] % 64));
  Trainer trainer(config);
  trainer.audit()->on_finding([&](const AuditFinding& one) {
    EXPECT_FALSE(flip.found);
    EXPECT_EQ(one.step, 2);
    EXPECT_EQ(one.mismatch.op, static_cast<int64_t>(op));
    EXPECT_EQ(one.mismatch.different, 1);
    flip.found = true;
  });
  for (int step = 0; step < 2; ++step) trainer.step(small_tokens());
  return flip;
}

class StepAuditGpu : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (backend::gpus().empty()) GTEST_SKIP() << "no GPU";
  }
  static Config on_gpu(const char* precision, double share) {
    Config config = tiled(precision, share, 1);
    config.model.width = 128;
    config.model.hidden = 512;
    config.train.batch = 4;
    config.train.device = Device::cuda();
    return config;
  }
};
INSTANTIATE_TEST_SUITE_P(Precisions, StepAuditGpu,
                         ::testing::Values("fp32", "tf32", "bf16", "fp16", "fp8"));

TEST_P(StepAuditGpu, ChangesNoBitAndRaisesNoFalseAlarm) {
  const Outcome outcome = train_steps(on_gpu(GetParam(), 1), 3);
  EXPECT_EQ(outcome.findings, 0);
  EXPECT_EQ(outcome.counts.audited, outcome.counts.pieces);
  EXPECT_GT(outcome.counts.kernels, 3 * 2 * 8);
  EXPECT_EQ(differing_parts(outcome.hash, train_steps(on_gpu(GetParam(), 0), 3).hash), "");
}

TEST_P(StepAuditGpu, FindsFlippedBits) {
  Config config = on_gpu(GetParam(), 1);
  const std::vector<Kernel> kernels = kernels_of(config);
  int found = 0;
  for (config.train.seed = 2; config.train.seed < 12; ++config.train.seed)
    found += try_flip(config, kernels).found ? 1 : 0;
  EXPECT_EQ(found, 10);
}

TEST(StepAuditSlow, FindsAsManyOfAThousandFlipsAsItsShareSays) {
  struct Tally {
    int flips = 0, found = 0;
  };
  const char* const precisions[] = {"bf16", "fp32"};
  std::vector<Kernel> kernels[2];
  for (int i = 0; i < 2; ++i) kernels[i] = kernels_of(tiled(precisions[i], 1, 1));
  int64_t seed = 0;
  for (const double share : {0.005, 0.02, 0.1, 0.5, 1.0}) {
    std::map<std::string, Tally> by_kernel;
    Tally all;
    for (int i = 0; i < 200; ++i) {
      const Flip flip = try_flip(tiled(precisions[i % 2], share, ++seed), kernels[i % 2]);
      for (Tally* const tally : {&all, &by_kernel[flip.kernel]}) {
        ++tally->flips;
        tally->found += flip.found ? 1 : 0;
      }
    }
    fmt::print("share {}: {} of {} flips found, {:.1f} expected;", share, all.found, all.flips,
               share * all.flips);
    for (const auto& [kernel, tally] : by_kernel)
      fmt::print(" {} {}/{}", kernel, tally.found, tally.flips);
    fmt::print("\n");
    EXPECT_NEAR(all.found, share * all.flips,
                4 * std::sqrt(share * (1 - share) * all.flips) + (share < 0.01 ? 1 : 0));
  }
}

TEST(StepAuditSlow, RaisesNoFalseAlarmInFiftyThousandSteps) {
  for (const char* precision : {"fp32", "tf32", "bf16", "fp16", "fp8"}) {
    Config config = audited(precision, 0.05);
    config.train.steps = 10'000;
    const Outcome outcome = train_steps(config, 10'000);
    EXPECT_EQ(outcome.findings, 0) << precision;
    fmt::print("{}: {} pieces of work of 10,000 steps audited\n", precision,
               outcome.counts.audited);
  }
}

TEST(StepAudit, RefusesAFaultThatItCannotRead) {
  for (const char* text : {"", "1:2:3", "1:2:3:4:5", "1:2:x:4", "-1:2:3:4"}) {
    const InjectedFault fault(text);
    EXPECT_THROW(Trainer trainer(audited("fp32", 1)), Error) << text;
  }
}

}  // namespace
}  // namespace binade::train
