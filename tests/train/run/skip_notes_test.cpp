#include "binade/train/run/skip_notes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace binade::train {
namespace {

std::vector<std::string> notes_of(SkipNotes& notes, int64_t from, int64_t to, double loss) {
  std::vector<std::string> lines;
  for (int64_t step = from; step <= to; ++step) {
    const StepResult result{.step = step, .loss = loss, .applied = false, .reason = "why"};
    if (const std::string line = notes.add(result); !line.empty()) lines.push_back(line);
  }
  return lines;
}

TEST(SkipNotes, AreAsManyAsCausesAndPowersOfTen) {
  SkipNotes notes;
  EXPECT_EQ(notes.add({.step = 1, .loss = 2, .applied = true}), "");
  EXPECT_EQ(notes_of(notes, 2, 2, 3.5), std::vector<std::string>{"step 2 skipped: why"});
  EXPECT_EQ(notes.total(), "");
  EXPECT_EQ(notes_of(notes, 3, 10, 3.5), std::vector<std::string>{});
  EXPECT_EQ(notes_of(notes, 11, 11, 3.5),
            std::vector<std::string>{"step 11 skipped: why; 10 steps of this run so far"});
  // Another cause.
  EXPECT_EQ(notes_of(notes, 12, 14, NAN), std::vector<std::string>{"step 12 skipped: why"});
  EXPECT_EQ(notes_of(notes, 15, 120, 3.5),
            std::vector<std::string>{"step 101 skipped: why; 100 steps of this run so far"});
  EXPECT_EQ(notes.total(), "119 of 120 steps were skipped");
}

TEST(SkipNotes, SayNothingOfASkipTwice) {
  SkipNotes notes;
  notes_of(notes, 1, 1, 3.5);
  notes_of(notes, 2, 2, INFINITY);
  EXPECT_EQ(notes.total(), "");
}

}  // namespace
}  // namespace binade::train
