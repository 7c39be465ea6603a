#include "binade/lab/experiment_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace binade::lab {
namespace {

using ::testing::HasSubstr;

TEST(ExperimentReport, ParagraphsBreakBetweenWords) {
  ExperimentReport report;
  const std::string word(31, 'w');
  report.add_paragraph(word + " " + word + " " + word.substr(1) + "x " + word);
  // Three words of 31 and two spaces are 95; 96 fit.
  EXPECT_EQ(report.text(), word + " " + word + " " + word.substr(1) + "x\n" + word + "\n\n");
  ExperimentReport exact;
  exact.add_paragraph(word + " " + word + " " + word + "y z");
  EXPECT_EQ(exact.text(), word + " " + word + " " + word + "y\nz\n\n");
  ExperimentReport escaped;
  escaped.add_paragraph("a < b");
  EXPECT_EQ(escaped.html(), "<p>a &lt; b</p>\n");
}

TEST(ExperimentReport, TablesAlignNamesLeftAndNumbersRight) {
  ExperimentReport report;
  report.add_table({"run", "loss"}, {{"a", "2.25"}, {"longer & more", "12.5"}, {"b", ""}});
  EXPECT_EQ(report.text(),
            "  run            loss\n"
            "  a              2.25\n"
            "  longer & more  12.5\n"
            "  b\n\n");
  EXPECT_THAT(report.html(), HasSubstr("<td>longer &amp; more</td><td>12.5</td>"));
}

TEST(ExperimentReport, PreformattedTextIsIndented) {
  ExperimentReport report;
  report.add_preformatted("one\ntwo\nthree < 4");
  EXPECT_EQ(report.text(), "  one\n  two\n  three < 4\n\n");
  EXPECT_EQ(report.html(), "<pre>one\ntwo\nthree &lt; 4</pre>\n");
}

TEST(ExperimentReport, EveryLineOfAConclusionIsMarked) {
  ExperimentReport report;
  const std::string word(83, 'w');
  report.add_conclusion(word + " end");
  EXPECT_EQ(report.text(), "> Conclusion:\n> " + word + " end\n");
}

TEST(ExperimentReport, FiguresStandBesideTheText) {
  ExperimentReport report;
  report.add_paragraph("text");
  EXPECT_EQ(report.html(), "<p>text</p>\n");
  report.add_figure("<figure>f</figure>\n");
  EXPECT_EQ(report.html(),
            "<div class=\"experiment\"><div>\n<p>text</p>\n</div><div>\n<figure>f</figure>\n"
            "</div></div>\n");
}

}  // namespace
}  // namespace binade::lab
