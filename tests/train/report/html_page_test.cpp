#include "binade/train/report/html_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/pages.h"

namespace binade::train {
namespace {

using ::testing::HasSubstr;

TEST(HtmlPage, EscapesItsTitleAndNotItsBody) {
  const std::string html = page("a < b", "<p>body</p>\n");
  EXPECT_THAT(html, HasSubstr("<title>Binade: a &lt; b</title>"));
  EXPECT_THAT(html, HasSubstr("<h1>a &lt; b</h1>"));
  EXPECT_THAT(html, HasSubstr("<p>body</p>\n"));
}

TEST(HtmlPage, HasAScriptForLineChartsAlone) {
  EXPECT_EQ(page("t", "<p>body</p>").find("<script"), std::string::npos);
  const std::string bars = bar_chart("b", {{"one", 1, "1"}});
  EXPECT_EQ(page("t", bars).find("<script"), std::string::npos);
  const std::string chart = line_chart({"t", "x", "y"}, {{"s", {{1, 2}, {2, 3}}}});
  EXPECT_THAT(page("t", chart), HasSubstr("</script>"));
}

// What the tests of all pages ask holds for this one, and is found where it does not.
TEST(HtmlPage, AsksForNothingOutside) {
  const std::string chart = line_chart({"t", "x", "y"}, {{"s", {{1, 2}, {2, 3}}}});
  EXPECT_THAT(test::outside_references(page("t", chart, 30)), ::testing::IsEmpty());
  for (const char* body :
       {"<a href=\"https://a.b\">a</a>", "<img alt=\"\">", "<p onclick=\"f()\">p</p>",
        "<style>p { background: url(a.png); }</style>", "<script async></script>",
        "<link rel=\"stylesheet\" href=\"a.css\">", "<script>1;</script>"})
    EXPECT_THAT(test::outside_references(page("t", chart + body)), ::testing::SizeIs(1)) << body;
}

TEST(HtmlPage, LoadsItselfAgainIfAsked) {
  EXPECT_EQ(page("t", "").find("refresh"), std::string::npos);
  EXPECT_THAT(page("t", "", 30), HasSubstr("http-equiv=\"refresh\" content=\"30\""));
}

TEST(HtmlPage, TilesHaveANoteIfThereIsOne) {
  EXPECT_EQ(tile("Loss & co", "2.5", "from <3"),
            "<div><dt>Loss &amp; co</dt><dd>2.5<small>from &lt;3</small></dd></div>\n");
  EXPECT_EQ(tile("Loss", "2 < 5"), "<div><dt>Loss</dt><dd>2 &lt; 5</dd></div>\n");
}

TEST(HtmlPage, TablesMarkTheColumnsThatNarrowScreensLeaveOut) {
  const std::string html = to_html({.header = {"run", "a & b", "time"},
                                    .rows = {{"one", "<b>2</b>", "3"}, {"four", "5", "6"}},
                                    .detail = {"a & b"}});
  EXPECT_THAT(html, HasSubstr("<thead><tr><th>run</th><th class=\"detail\">a &amp; b</th>"
                              "<th>time</th></tr></thead>"));
  EXPECT_THAT(html, HasSubstr("<tr><td>one</td><td class=\"detail\"><b>2</b></td><td>3</td></tr>"));
  EXPECT_THAT(html, HasSubstr("<tr><td>four</td><td class=\"detail\">5</td><td>6</td></tr>"));
}

TEST(HtmlPage, FactsAreThoseThatAreKnown) {
  EXPECT_EQ(facts({{"Finished", "today"}, {"Binade", ""}, {"on", "a <machine>"}}),
            "<ul class=\"facts\">\n<li>Finished <b>today</b></li>\n"
            "<li>on <b>a &lt;machine&gt;</b></li>\n</ul>\n");
  EXPECT_EQ(facts({{"Finished", ""}}), "");
  EXPECT_EQ(facts({}), "");
}

TEST(HtmlPage, ASwatchHasTheColorOfItsStyle) {
  EXPECT_THAT(swatch({.color = 3, .dash = 2}), HasSubstr("<rect class=\"f3\" "));
  EXPECT_THAT(swatch({.color = 5, .faint = true}), HasSubstr("<rect class=\"f5 faint\" "));
}

}  // namespace
}  // namespace binade::train
