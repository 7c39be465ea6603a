#include "binade/train/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace binade::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const Record record{.step = 120,
                    .loss = 2.34567,
                    .lr = 1e-3,
                    .gradient_norm = 0.5,
                    .scale = 1,
                    .skipped = 0,
                    .tokens_per_second = 12345.6,
                    .memory = 123'456'789,
                    .seconds = 60};

TEST(Progress, LineHasTheNumbers) {
  const std::string line = progress_line(record, 240, 200);
  EXPECT_EQ(line,
            "step 120/240  loss 2.3457  lr 1.00e-03  grad 0.50  12346 tok/s  123 MB  60 s left");
}

TEST(Progress, ShowsScaleSkipsAndValidationWhereThereAreAny) {
  Record r = record;
  EXPECT_THAT(plain_line(r, 240), Not(HasSubstr("scale")));
  r.scale = 65536;
  r.skipped = 2;
  r.validation_loss = 2.5;
  EXPECT_THAT(plain_line(r, 240), HasSubstr("val 2.5000"));
  EXPECT_THAT(plain_line(r, 240), HasSubstr("scale 65536  skipped 2"));
}

TEST(Progress, NeverWraps) {
  for (int width = 0; width < 120; ++width) {
    const std::string line = progress_line(record, 240, width);
    EXPECT_LE(line.size(), static_cast<size_t>(std::max(width - 1, 0)));
    EXPECT_THAT(progress_line(record, 240, 200), StartsWith(line));
  }
}

TEST(Progress, WritesAmountsForPeople) {
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1500), "1.5 kB");
  EXPECT_EQ(bytes_text(2'000'000'000), "2.0 GB");
  EXPECT_EQ(time_text(0.2), "1 s");
  EXPECT_EQ(time_text(119), "119 s");
  EXPECT_EQ(time_text(125), "2 min 05 s");
  EXPECT_EQ(time_text(7500), "2 h 05 min");
}

}  // namespace
}  // namespace binade::train
