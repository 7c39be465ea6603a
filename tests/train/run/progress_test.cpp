#include "binade/train/run/progress.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>

#include "support/pattern.h"

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

// Amounts at the ends of their units.
TEST(Progress, AmountsChangeTheirUnits) {
  EXPECT_EQ(bytes_text(1000), "1.0 kB");
  EXPECT_EQ(bytes_text(9'900), "9.9 kB");
  EXPECT_EQ(bytes_text(10'000), "10 kB");
  EXPECT_EQ(bytes_text(3'000'000'000'000'000), "3000 TB");
  EXPECT_EQ(time_text(-1), "0 s");
  EXPECT_EQ(time_text(120), "2 min 00 s");
  EXPECT_EQ(time_text(7199), "119 min 59 s");
  EXPECT_EQ(time_text(7200), "2 h 00 min");
  EXPECT_EQ(time_text(90'061), "25 h 01 min");
}

// stdout on a terminal of this many columns, or on a pipe.
class Output {
 public:
  explicit Output(int columns) {
    std::fflush(stdout);
    int ends[2] = {-1, -1};
    if (columns > 0) {
      ends[0] = ::posix_openpt(O_RDWR | O_NOCTTY);
      if (ends[0] < 0 || ::grantpt(ends[0]) != 0 || ::unlockpt(ends[0]) != 0) std::abort();
      ends[1] = ::open(::ptsname(ends[0]), O_RDWR | O_NOCTTY);
      winsize size = {};
      size.ws_col = static_cast<unsigned short>(columns);
      ::ioctl(ends[1], TIOCSWINSZ, &size);
      termios raw = {};
      ::tcgetattr(ends[1], &raw);
      ::cfmakeraw(&raw);
      ::tcsetattr(ends[1], TCSANOW, &raw);
    } else if (::pipe(ends) != 0) {
      std::abort();
    }
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    before_ = ::dup(STDOUT_FILENO);
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[1]);
    read_ = ends[0];
  }
  ~Output() {
    std::fflush(stdout);
    ::dup2(before_, STDOUT_FILENO);
    ::close(before_);
    ::close(read_);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // What was written since the last call.
  std::string taken() const {
    std::fflush(stdout);
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = ::read(read_, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<size_t>(n));
    return text;
  }

 private:
  int before_ = -1, read_ = -1;
};

class ProgressOutput : public ::testing::Test {
 protected:
  ProgressOutput() { ::setenv("NO_COLOR", "1", 1); }
  ~ProgressOutput() override { ::unsetenv("NO_COLOR"); }

  static Record at(int64_t step, std::optional<double> validation = {}) {
    Record r = record;
    r.step = step;
    r.validation_loss = validation;
    return r;
  }
};

TEST_F(ProgressOutput, OnATerminalOneLineUpdatesAndValidationsStay) {
  const Output terminal(60);
  Progress progress(Progress::Mode::normal, 240, 10);
  progress.step(at(1));
  // Two columns are left free for "^C".
  EXPECT_EQ(terminal.taken(), "\r" + progress_line(at(1), {240}, 58) + "\x1b[K");
  progress.note("a note");
  EXPECT_EQ(terminal.taken(), "\r\x1b[Ka note\n");
  progress.finish();
  EXPECT_EQ(terminal.taken(), "");  // nothing is open
  progress.step(at(2, 2.5));
  EXPECT_EQ(terminal.taken(),
            "\r" + progress_line(at(2, 2.5), {240}, 58, LineKind::permanent) + "\x1b[K\n");
  progress.note("another");
  EXPECT_EQ(terminal.taken(), "another\n");
}

TEST_F(ProgressOutput, TheLastValidationStaysInTheLine) {
  const Output terminal(100);
  Progress progress(Progress::Mode::normal, 240, 10);
  progress.step(at(2, 2.5));
  terminal.taken();
  std::string line;
  while (line.empty()) {  // until a line is due
    progress.step(at(3));
    line = terminal.taken();
  }
  EXPECT_THAT(line, HasSubstr("val 2.5000"));
  EXPECT_THAT(line, Not(HasSubstr("\n")));
}

// Twenty times a second at most, whatever the steps take.
TEST_F(ProgressOutput, ATerminalIsNotDrawnMoreOftenThanTheEyeFollows) {
  const Output terminal(60);
  Progress progress(Progress::Mode::normal, 240, 1);
  const auto begin = std::chrono::steady_clock::now();
  std::string all;
  for (int i = 1; i <= 30; ++i) {
    progress.step(at(i));
    all += terminal.taken();
  }
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  const auto drawn = std::count(all.begin(), all.end(), '\r');
  EXPECT_GE(drawn, 1);
  EXPECT_LE(drawn, 1 + passed.count() / 50);
}

TEST_F(ProgressOutput, StatusAndSamplesFitTheTerminal) {
  const Output terminal(20);
  Progress progress(Progress::Mode::normal, 240, 10);
  progress.status("0123456789abcdefghijklmnop");
  EXPECT_EQ(terminal.taken(), "\r0123456789abcdefghi\x1b[K");
  progress.sample("one two three four five six seven eight nine ten");
  // Removes the status; 17 columns beside the margin of two.
  EXPECT_EQ(terminal.taken(), "\r\x1b[K  one two three fou\n  r five six seven\n");
}

TEST_F(ProgressOutput, AnOpenLineIsRemovedAtTheEnd) {
  const Output terminal(60);
  {
    Progress progress(Progress::Mode::normal, 240, 10);
    progress.step(at(1));
    terminal.taken();
  }
  EXPECT_EQ(terminal.taken(), "\r\x1b[K");
}

std::vector<std::string> steps_in(const std::string& text, const char* pattern) {
  std::vector<std::string> steps;
  for (const auto& match : binade::test::Pattern(pattern).find_all(text)) steps.push_back(match[1]);
  return steps;
}

// The first, every tenth, the last, and those with a validation.
TEST_F(ProgressOutput, APipeGetsALineWhereOneIsDue) {
  using ::testing::ElementsAre;
  const Output pipe(0);
  Progress progress(Progress::Mode::normal, 25, 10);
  progress.set_full_speed(24691);
  progress.set_ranks(4, 0.123);
  progress.status("reading");
  progress.step(at(0, 5.5));
  for (int64_t i = 1; i <= 25; ++i)
    progress.step(at(i, i == 14 ? std::optional(2.5) : std::nullopt));
  const std::string text = pipe.taken();
  EXPECT_THAT(steps_in(text, "step ([0-9]+)/25  "), ElementsAre("0", "1", "10", "14", "20", "25"));
  EXPECT_THAT(text, HasSubstr("step 0/25  val 5.5000\n"));
  EXPECT_THAT(text, HasSubstr("50% of peak  4 ranks, 12% waiting"));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
  EXPECT_THAT(text, Not(HasSubstr("reading")));
  progress.sample(std::string(100, 'x'));
  EXPECT_EQ(pipe.taken(), "  " + std::string(77, 'x') + "\n  " + std::string(23, 'x') +
                              "\n");  // as at 80 columns
}

TEST_F(ProgressOutput, JsonIsARecordPerLineAndQuietIsNothing) {
  using ::testing::ElementsAre;
  const Output pipe(0);
  Progress json(Progress::Mode::json, 25, 10), quiet(Progress::Mode::quiet, 25, 10);
  for (Progress* progress : {&json, &quiet}) {
    for (int64_t i = 1; i <= 25; ++i) progress->step(at(i));
    progress->note("a note");
    progress->sample("a sample");
    progress->status("a status");
    EXPECT_FALSE(progress->prints_text());
  }
  const std::string text = pipe.taken();
  EXPECT_THAT(steps_in(text, "\\{\"step\":([0-9]+),[^\n]*\\}\n"),
              ElementsAre("1", "10", "20", "25"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
}

}  // namespace
}  // namespace binade::train
