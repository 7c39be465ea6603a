#include "binade/train/check_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "binade/base/error.h"
#include "binade/train/loop.h"
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
  good.steps = 2;
  good.warmup = 1;
  good.data = folder.put("text.txt", small_text()).string();
  good.out = (folder / "done").string();
  run(good, Progress::Mode::quiet);
  const auto changed = [&](const std::function<void(Config&)>& change) {
    Config config = good;
    config.out = (folder / "new").string();
    change(config);
    return config;
  };
  const fs::path pickled = folder / "pickled";
  fs::copy(folder / "done/checkpoints/step-2", pickled);
  fs::rename(pickled / "model.safetensors", pickled / "pytorch_model.bin");
  const Config bad[] = {
      changed([&](Config& c) { c.data = (folder / "none.txt").string(); }),
      changed([&](Config& c) { c.data = folder.put("short.txt", "short").string(); }),
      changed([&](Config& c) { c.data = "1*" + good.data + ",0*" + good.data; }),
      changed([&](Config& c) { c.data = folder.put("a.bin", "\xff\xff\xff\xff").string(); }),
      changed([&](Config& c) { c.data = folder.put("a.gz", "no gzip").string(); }),
      changed([&](Config& c) { c.tokenizer = (folder / "none.json").string(); }),
      changed([&](Config& c) { c.out = good.out; }),
      changed([&](Config& c) { c.out = (folder / "text.txt/run").string(); }),
      changed([&](Config& c) {
        c.init_from = good.out;
        c.width = 32;
      }),
      changed([&](Config& c) { c.init_from = (folder / "none").string(); }),
      changed([&](Config& c) { c.init_from = pickled.string(); }),
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
  resumed.resume = true;
  EXPECT_EQ(test::error_of([&] { check_run(resumed); }), "");
  resumed.width = 32;
  EXPECT_NE(test::error_of([&] { check_run(resumed); }), "");
}

// With one micro-batch, as bf16 gradients require.
TEST(CheckRanks, Bf16GradientsAreRefusedWithTheReason) {
  Config config = small_config("bf16");
  config.params = ParameterStorage::split;
  config.gradients = DType::bf16;
  config.accumulate = 1;
  EXPECT_EQ(test::error_of([&] { check_ranks(config, 1); }), "");
  EXPECT_THAT(test::error_of([&] { check_ranks(config, 2); }),
              ::testing::HasSubstr("gradients: expected f32 on many ranks, which sum them"));
}

}  // namespace
}  // namespace binade::train
