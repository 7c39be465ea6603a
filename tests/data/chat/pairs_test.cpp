#include "binade/data/chat/pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/data/chat/examples.h"
#include "binade/data/corpus.h"
#include "binade/data/documents.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PairFile : public ::testing::Test {
 protected:
  Source source(const std::string& lines, int64_t context = 200) {
    Source source;
    source.where = folder_.put("pairs.jsonl", lines).string();
    source.context = context;
    source.validation = 0.3;
    source.pairs = true;
    source.chat = chat_template_of(ChatFormat::chatml, {});
    return source;
  }
  std::string refusal(const std::string& lines) {
    return test::error_of([&] { read_examples(source(lines)); });
  }

  testing::TemporaryFolder folder_;
};

// The rows of a batch as "inputs|targets", with a dot for what is no target. Tokens are bytes.
std::vector<std::string> lines_of(const Batch& batch) {
  std::vector<std::string> lines;
  const int64_t width = batch.tokens.size(1);
  const auto text = [&](const Tensor& ids, int64_t line) {
    std::string result;
    for (int64_t i = line * width; i < (line + 1) * width; ++i) {
      const int64_t id = ids.data<int64_t>()[i];
      result += id < 0 ? '.' : id == 0 ? '_' : id == '\n' ? '/' : static_cast<char>(id);
    }
    return result;
  };
  for (int64_t line = 0; line < batch.tokens.size(0); ++line)
    lines.push_back(text(batch.tokens, line) + "|" + text(batch.targets, line));
  return lines;
}

TEST_F(PairFile, TakesTwoRowsOfABatchForATextPair) {
  const Tokens pairs = read_all_examples(source(R"({"prompt":"ab","chosen":"cde","rejected":"f"}
{"prompt":"x","chosen":"y","rejected":"z"}
)"));
  ASSERT_EQ(pairs.documents()->rows(), 2);
  EXPECT_EQ(pairs.documents()->size(), 4);
  const Batch batch = pairs.documents()->consecutive_batch({2, 200}, 0);
  EXPECT_THAT(lines_of(batch), ElementsAre("abcd____|.cde....", "ab______|.f......",
                                           "x_______|y.......", "x_______|z......."));
  EXPECT_FALSE(batch.reference.defined());
}

TEST_F(PairFile, GivesEachAnswerItsReference) {
  const Tokens pairs = read_all_examples(source(R"({"prompt":"ab","chosen":"cde","rejected":"f"}
{"prompt":"x","chosen":"y","rejected":"z"}
{"prompt":"x","chosen":"u","rejected":"v"}
)"));
  const Documents documents = pairs.documents()->with_reference({-1, -2, -3, -4, -5, -6});
  const Batch batch = documents.consecutive_batch({2, 200}, 1);
  ASSERT_EQ(batch.reference.shape(), (Shape{2, 2}));
  const auto* values = batch.reference.data<float>();
  EXPECT_THAT(std::vector<float>(values, values + 4), ElementsAre(-3, -4, -5, -6));
  // A pass over the data has every pair once, with its own numbers, and all count the same.
  std::vector<std::string> seen;
  for (int64_t step = 0; step < 3; ++step) {
    const Batch one = documents.training_batch({1, 200}, 5, step, 0);
    EXPECT_FALSE(one.weight.defined());
    const auto* numbers = one.reference.data<float>();
    seen.push_back(lines_of(one)[0].substr(9, 3) + std::to_string(static_cast<int>(numbers[0])) +
                   std::to_string(static_cast<int>(numbers[1])));
  }
  EXPECT_THAT(seen, ::testing::UnorderedElementsAre(".cd-1-2", "y..-3-4", "u..-5-6"));
  EXPECT_EQ(documents.training_tokens({3, 200, 1}, 5, 0), 4 + 2 + 1 + 1 + 1 + 1);
}

// The same pair in the forms of conversations; an answer in the prompt is no target.
TEST_F(PairFile, TakesConversationsBehindTheirPrompt) {
  const std::string question = R"({"role":"user","content":"q"})",
                    yes = R"({"role":"assistant","content":"yes"})",
                    no = R"({"role":"assistant","content":"no"})",
                    before = question + "," + R"({"role":"assistant","content":"hm"},)" + question;
  const std::string forms[] = {
      R"({"prompt":[)" + before + R"(],"chosen":[)" + yes + R"(],"rejected":[)" + no + "]}",
      R"({"chosen":[)" + before + "," + yes + R"(],"rejected":[)" + before + "," + no + "]}",
      R"({"prompt":"q","chosen":[)" + before + "," + yes + R"(],"rejected":[)" + before + "," + no +
          "]}"};
  for (const std::string& form : forms) {
    SCOPED_TRACE(form);
    const Tokens pairs = read_all_examples(source(form));
    const std::vector<std::string> lines =
        lines_of(pairs.documents()->consecutive_batch({1, 200}, 0));
    ASSERT_EQ(lines.size(), 2u);
    EXPECT_THAT(lines[0], HasSubstr("hm<|im_end|>"));
    EXPECT_THAT(lines[0], HasSubstr("..yes<|im_end|>"));
    EXPECT_THAT(lines[1], HasSubstr("..no<|im_end|>"));
    EXPECT_THAT(lines[0], ::testing::Not(HasSubstr("..hm<|im_end|>")));
  }
}

TEST_F(PairFile, LeavesOutAndCutsWithAWarning) {
  const std::string lines = R"({"prompt":"a","chosen":"1","rejected":"2"}
{"prompt":"a","chosen":"same","rejected":"same"}
{"prompt":"a","chosen":"long answer one","rejected":"long answer two"}
{"prompt":"a","chosen":"another answer","rejected":"no"}
{"prompt":"a prompt without an end","chosen":"3","rejected":"4"}
{"prompt":"b","chosen":"5","rejected":"6"}
)";
  const Split split = read_examples(source(lines, 8));
  EXPECT_EQ(split.train.documents()->rows() + split.validation.documents()->rows(), 3);
  EXPECT_EQ(split.train.documents()->size() % 2, 0);
  EXPECT_THAT(
      split.warnings,
      ElementsAre(
          "1 of 6 pairs are longer than the context of 8 and were cut",
          "1 of 6 pairs have no answer within the context of 8 and were left out",
          "2 of 6 pairs have the same answer twice within the context of 8 and were left out"));
}

TEST_F(PairFile, NamesTheLineOfAWrongPair) {
  const std::string good = R"({"prompt":"a","chosen":"1","rejected":"2"})"
                           "\n\n";
  const struct {
    const char* line;
    const char* message;
  } cases[] = {
      {R"({"prompt":"a","chosen":"1"})", "no rejected"},
      {R"({"prompt":"a","completion":"1"})", "no chosen"},
      {R"({"chosen":"1","rejected":"2"})", "no prompt"},
      {R"({"prompt":"a","chosen":"","rejected":"2"})",
       "expected chosen to be an answer, found an empty text"},
      {R"({"prompt":"a","chosen":"1","rejected":[]})", "two texts or two lists of messages"},
      {R"({"chosen":[],"rejected":[]})", "found no messages"},
      {R"({"chosen":[{"role":"user","content":"q"}],"rejected":[{"role":"user","content":"r"}]})",
       "a message of the user"},
      {R"({"chosen":[{"role":"assistant","content":""}],"rejected":[{"role":"assistant","content":"r"}]})",
       "an empty one"},
  };
  for (const auto& [line, message] : cases) {
    const std::string error = refusal(good + line);
    EXPECT_THAT(error, HasSubstr("pairs.jsonl, line 3")) << line;
    EXPECT_THAT(error, HasSubstr(message)) << line;
  }
}

TEST_F(PairFile, AreRefusedAsExamplesAndExamplesAsPairs) {
  Source examples = source(R"({"prompt":"a","chosen":"1","rejected":"2"})");
  examples.pairs = false;
  EXPECT_THAT(test::error_of([&] { read_split(examples); }), HasSubstr("--objective dpo"));
  Source text = source("{}");
  text.where = folder_.put("book.txt", "a long story").string();
  EXPECT_THAT(test::error_of([&] { read_split(text); }), HasSubstr("a .jsonl file of pairs"));
  EXPECT_THAT(refusal(R"({"prompt":"a","chosen":"1","rejected":"2"})"),
              HasSubstr("at least 2 pairs of different answers"));
}

}  // namespace
}  // namespace binade::data
