#include "binade/train/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace binade::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
  const std::string line = progress_line(record, {240, 24691}, 200);
  EXPECT_EQ(line,
            "step 120/240  loss 2.3457  lr 1.00e-03  grad 0.50  12,346 tok/s  50% of peak  123 MB  "
            "60 s left");
}

TEST(Progress, EightyColumnsHoldEveryNumberOfABf16Run) {
  Record r = record;
  r.validation_loss = 2.5;
  r.tokens_per_second = 9345.6;
  EXPECT_EQ(progress_line(r, {240, 24691}, 80),
            "120/240 loss 2.3457 val 2.5000 lr 1.0e-03 grad 0.50 9,346 tok/s 38% 123 MB 60 s");
}

TEST(Progress, TheLearningRateGivesWayFirst) {
  Record r = record;
  r.validation_loss = 2.5;
  r.scale = 65536;
  EXPECT_EQ(progress_line(r, {240, 24691}, 80),
            "120/240 loss 2.3457 val 2.5000 grad 0.50 scale 65536 12,346 tok/s 50% 60 s");
  EXPECT_EQ(progress_line(r, {240, 24691}, 30), "120/240 loss 2.3457 60 s");
}

// A line that stays is there for its validation loss; the time left is out of date at once.
TEST(Progress, APermanentLineKeepsTheValidationLoss) {
  Record r = record;
  r.validation_loss = 2.5;
  EXPECT_EQ(progress_line(r, {240, 24691}, 38, LineKind::permanent),
            "120/240 loss 2.3457 val 2.5000");
  EXPECT_EQ(progress_line(r, {240, 24691}, 38), "120/240 loss 2.3457 val 2.5000 60 s");
  EXPECT_EQ(progress_line(r, {240, 24691}, 30, LineKind::permanent), "120/240 val 2.5000");
  EXPECT_THAT(progress_line(r, {240, 24691}, 200, LineKind::permanent), HasSubstr("60 s left"));
}

TEST(Progress, ShowsScaleSkipsAndValidationWhereThereAreAny) {
  Record r = record;
  EXPECT_THAT(plain_line(r, {240}), Not(HasSubstr("scale")));
  EXPECT_THAT(plain_line(r, {240}), Not(HasSubstr("peak")));
  r.scale = 65536;
  r.skipped = 2;
  r.validation_loss = 2.5;
  EXPECT_THAT(plain_line(r, {240}), HasSubstr("val 2.5000"));
  EXPECT_THAT(plain_line(r, {240}), HasSubstr("scale 65536  skipped 2"));
}

TEST(Progress, ShowsEnergyIfTheDeviceTells) {
  Record r = record;
  EXPECT_THAT(plain_line(r, {240}), Not(HasSubstr("mJ")));
  r.joules_per_token = 0.0012345;
  EXPECT_THAT(plain_line(r, {240}), HasSubstr("123 MB  1.23 mJ/tok"));
}

TEST(Progress, ShowsHowMuchRanksWait) {
  const Goal goal{.steps = 240, .ranks = 4, .waiting = 0.123};
  EXPECT_THAT(plain_line(record, goal), HasSubstr("12,346 tok/s  4 ranks, 12% waiting  123 MB"));
  EXPECT_THAT(progress_line(record, goal, 80), HasSubstr("12,346 tok/s 4 ranks wait 12% 123 MB"));
  EXPECT_THAT(plain_line(record, {.steps = 240}), Not(HasSubstr("ranks")));
}

TEST(Progress, NeverWraps) {
  for (int width = 0; width < 120; ++width) {
    const std::string line = progress_line(record, {240, 24691}, width);
    EXPECT_LE(line.size(), static_cast<size_t>(std::max(width - 1, 0)));
    if (width > 7) {
      EXPECT_THAT(line, HasSubstr("120/240"));
    }
  }
}

TEST(Progress, TwoLinesHoldTheBeginningOfAText) {
  EXPECT_EQ(two_lines("", 10), "");
  EXPECT_EQ(two_lines("short", 10), "short");
  EXPECT_EQ(two_lines("  int x;\n\n\treturn x;\n", 40), "int x; return x;");
  EXPECT_EQ(two_lines("abcdefghijklmnopqrstuvwxyz", 10), "abcdefghi\njklmnopqr");
  EXPECT_EQ(two_lines("abcdefghi jkl", 10), "abcdefghi\njkl");
  EXPECT_EQ(two_lines("\xc3\xa9\xc3\xa9\xc3\xa9", 3), "\xc3\xa9\xc3\xa9\n\xc3\xa9");
  EXPECT_EQ(two_lines("\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad", 6),
            "\xe4\xb8\xad\xe4\xb8\xad\n\xe4\xb8\xad");  // two columns each
  EXPECT_EQ(two_lines("text", 0), "");
  EXPECT_EQ(two_lines("text", 1), "");
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
