#include "binade/lab/baselines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <string>

#include "binade/lab/doctor.h"
#include "binade/train/report/run_summary.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"
#include "train/small_run.h"

namespace binade::lab {
namespace {

using test::error_of;
using ::testing::HasSubstr;
using Mode = train::Progress::Mode;

// A complete run with auto_precision that has no baselines yet.
class Baselines : public ::testing::Test {
 protected:
  Baselines() {
    config_.run.out = (folder_ / "run").string();
    config_.data.source = folder_.put("text", train::small_text()).string();
    config_.precision.automatic = true;
    config_.train.steps = 2;
    Doctor doctor;
    run_ = train::run(config_, Mode::quiet, &doctor);
  }

  std::optional<train::RunResult> train_baselines() {
    return lab::train_baselines(config_, run_, Mode::quiet,
                                [&](const std::string& line) { log_ += line + "\n"; });
  }

  std::string metrics_of(const std::string& precision) const {
    return testing::content_of(folder_ / "run/baselines" / precision / "metrics.jsonl");
  }

  const testing::TemporaryFolder folder_;
  train::Config config_ = train::small_config("fp8");
  train::RunResult run_;
  std::string log_;
};

// No file can grow beyond a size: writes fail as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_;
};

// Weight decay multiplies the weights by 1 - lr * weight_decay = -9999 in every step: after a dozen
// of them they are beyond f32's range.
TEST_F(Baselines, OnesThatDivergeAreCompared) {
  config_.train.lr = 100;
  config_.train.weight_decay = 100;
  config_.train.warmup = 0;
  config_.train.steps = 90;
  EXPECT_FALSE(train_baselines().has_value());
  EXPECT_THAT(log_, HasSubstr("baseline bf16 diverged: train: step "));
  EXPECT_THAT(log_, HasSubstr("baseline fp8 diverged: train: step "));
  const train::RunSummary summary = train::read_run(run_.folder);
  ASSERT_EQ(summary.baselines.size(), 2u);
  EXPECT_LT(summary.baselines[0].records.back().step, 90);
  EXPECT_THAT(testing::content_of(run_.report), HasSubstr("to bf16"));
}

TEST_F(Baselines, AreAnnouncedAndTrainedOnce) {
  EXPECT_FALSE(train_baselines().has_value());
  EXPECT_EQ(log_, "baseline bf16:\nbaseline fp8:\n");
  log_.clear();
  EXPECT_FALSE(train_baselines().has_value());
  EXPECT_EQ(log_, "");
}

TEST_F(Baselines, AnotherErrorIsNotAResult) {
  config_.train.steps = 4;
  config_.run.checkpoint_every = 2;
  {
    const FileSizeLimit limit(8 * 1024);  // enough for the log, too little for the weights
    EXPECT_THAT(error_of([&] { train_baselines(); }), HasSubstr("baselines/bf16"));
  }
  EXPECT_THAT(metrics_of("bf16"), HasSubstr("\"step\":2"));  // what was written stays
  EXPECT_FALSE(train_baselines().has_value());
  EXPECT_THAT(metrics_of("bf16"), HasSubstr("\"step\":4"));
  EXPECT_EQ(train::read_run(run_.folder).baselines.size(), 2u);
}

}  // namespace
}  // namespace binade::lab
