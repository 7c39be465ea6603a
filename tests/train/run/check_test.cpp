#include "binade/train/run/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "binade/base/error.h"
#include "binade/train/run/loop.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;

// Each of these is refused by a run, and by its check with the same message, which changes nothing.
TEST(CheckRun, RefusesWhatARunRefuses) {
  const testing::TemporaryFolder folder;
  Config good = small_config();
  good.train.steps = 2;
  good.train.warmup = 1;
  good.data.source = folder.put("text.txt", small_text()).string();
  good.run.out = (folder / "done").string();
  run(good, Progress::Mode::quiet);
  const auto changed = [&](const std::function<void(Config&)>& change) {
    Config config = good;
    config.run.out = (folder / "new").string();
    change(config);
    return config;
  };
  const fs::path pickled = folder / "pickled";
  fs::copy(folder / "done/checkpoints/step-2", pickled);
  fs::rename(pickled / "model.safetensors", pickled / "pytorch_model.bin");
  const Config bad[] = {
      changed([&](Config& c) { c.data.source = (folder / "none.txt").string(); }),
      changed([&](Config& c) { c.data.source = folder.put("short.txt", "short").string(); }),
      changed(
          [&](Config& c) { c.data.source = "1*" + good.data.source + ",0*" + good.data.source; }),
      changed([&](Config& c) { c.data.source = folder.put("a.bin", "\xff\xff\xff\xff").string(); }),
      changed([&](Config& c) { c.data.source = folder.put("a.gz", "no gzip").string(); }),
      changed([&](Config& c) { c.data.tokenizer = (folder / "none.json").string(); }),
      changed([&](Config& c) { c.run.out = good.run.out; }),
      changed([&](Config& c) { c.run.out = (folder / "text.txt/run").string(); }),
      changed([&](Config& c) {
        c.model.init_from = good.run.out;
        c.model.width = 32;
      }),
      changed([&](Config& c) { c.model.init_from = (folder / "none").string(); }),
      changed([&](Config& c) { c.model.init_from = pickled.string(); }),
  };
  for (const Config& config : bad) {
    const std::string checked = test::error_of([&] { check_run(config); });
    EXPECT_FALSE(fs::exists(folder / "new")) << checked;
    EXPECT_EQ(checked, test::error_of([&] { run(config, Progress::Mode::quiet); }));
    EXPECT_NE(checked, "");
    fs::remove_all(folder / "new");
  }
  EXPECT_EQ(test::error_of([&] { check_run(changed([](Config&) {})); }), "");
  Config resumed = good;
  resumed.run.resume = true;
  EXPECT_EQ(test::error_of([&] { check_run(resumed); }), "");
  resumed.model.width = 32;
  EXPECT_NE(test::error_of([&] { check_run(resumed); }), "");
}

// With one micro-batch, as bf16 gradients require.
TEST(CheckRanks, Bf16GradientsAreRefusedWithTheReason) {
  Config config = small_config("bf16");
  config.precision.params = ParameterStorage::split;
  config.precision.gradients = DType::bf16;
  config.train.accumulate = 1;
  EXPECT_EQ(test::error_of([&] { check_ranks(config, 1); }), "");
  EXPECT_THAT(test::error_of([&] { check_ranks(config, 2); }),
              ::testing::HasSubstr("gradients: expected f32 on many ranks, which sum them"));
}

}  // namespace
}  // namespace binade::train
