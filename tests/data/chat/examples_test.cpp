#include "binade/data/chat/examples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "binade/data/documents.h"
#include "io/temporary_folder.h"

namespace binade::data {
namespace {

using binade::testing::TemporaryFolder;
using ::testing::HasSubstr;

constexpr int64_t wide = 200;

// The examples as "inputs|targets", with a dot for what is no target. Tokens are bytes.
std::vector<std::string> rows_of(const Tokens& tokens) {
  std::vector<std::string> rows;
  for (int64_t i = 0; i < tokens.documents()->rows(); ++i) {
    const Batch batch = tokens.documents()->consecutive_batch({1, wide}, i);
    std::string row;
    for (const Tensor& part : {batch.tokens, batch.targets}) {
      const auto* ids = part.data<int64_t>();
      for (int64_t k = 0; k < part.numel(); ++k)
        row += ids[k] < 0 ? '.' : ids[k] == 0 ? '_' : static_cast<char>(ids[k]);
      row += '|';
    }
    rows.push_back(row);
  }
  return rows;
}

class Examples : public ::testing::Test {
 protected:
  Source source(const std::string& lines) {
    Source source;
    source.where = folder_.put("data.jsonl", lines).string();
    source.context = wide;
    source.validation = 0.5;
    return source;
  }
  std::string error_of(const Source& source) {
    try {
      read_examples(source);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  TemporaryFolder folder_;
};

TEST_F(Examples, OnlyCompletionsAreTargets) {
  Source given = source(
      "{\"prompt\": \"2+2=\", \"completion\": \"4\"}\n\n"
      "{\"prompt\": \"ab\", \"completion\": \"cdefgh\"}\n");
  EXPECT_TRUE(is_example_file(given.where));
  given.eos = '$';
  const Split split = read_split(given);
  EXPECT_EQ(rows_of(split.train), std::vector<std::string>{"2+2=4___|...4$...|"});
  EXPECT_EQ(rows_of(split.validation), std::vector<std::string>{"abcdefgh|.cdefgh$|"});
  EXPECT_TRUE(split.warnings.empty());
}

TEST_F(Examples, MessagesAreRenderedAndOnlyAnswersAreTargets) {
  Source given = source(
      R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})"
      "\n"
      R"({"instruction": "do", "input": "it", "output": "ok"})"
      "\n"
      R"({"prompt": [{"role": "user", "content": "q"}], )"
      R"("completion": [{"role": "assistant", "content": "b"}]})");
  given.chat = chat_template_of(ChatFormat::mistral, {"^", "$"});
  given.validation = 0.1;
  const Split split = read_split(given);
  EXPECT_EQ(split.train.documents()->size(), 2);
  EXPECT_EQ(rows_of(split.validation),
            std::vector<std::string>{"^[INST] q [/INST]b______|................b$......|"});
}

TEST_F(Examples, LongOnesAreCutAndThoseWithoutAnAnswerLeftOut) {
  Source given = source(
      "{\"prompt\": \"ab\", \"completion\": \"cdefgh\"}\n"
      "{\"prompt\": \"abcdefgh\", \"completion\": \"i\"}\n"
      "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
  given.context = 4;
  const Split split = read_split(given);
  EXPECT_EQ(split.train.size(), 5);
  EXPECT_EQ(split.train.documents()->size() + split.validation.documents()->size(), 2);
  ASSERT_EQ(split.warnings.size(), 2u);
  EXPECT_THAT(split.warnings[0], HasSubstr("1 of 3 examples are longer than the context of 4"));
  EXPECT_THAT(split.warnings[1], HasSubstr("1 of 3 examples have no answer"));
}

TEST_F(Examples, ErrorsNameTheLine) {
  EXPECT_THAT(error_of(source("{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": 1}\n")),
              HasSubstr("data.jsonl"));
  EXPECT_THAT(error_of(source("{\"messages\": [{\"role\": \"user\", \"content\": \"b\"}]}\n")),
              HasSubstr("give --chat chatml"));
  EXPECT_THAT(error_of(source("{\"prompt\": \"a\", \"completion\": \"b\"}\n")),
              HasSubstr("at least 2 examples"));
  EXPECT_THAT(error_of(source("{\"question\": \"a\"}\n")), HasSubstr("an example: messages"));
}

TEST_F(Examples, FilesOfTextsAreNotExamples) {
  EXPECT_FALSE(is_example_file(source("{\"text\": \"a\", \"prompt\": \"b\"}\n").where));
  EXPECT_FALSE(is_example_file(folder_.put("data.txt", "{\"prompt\": \"b\"}").string()));
  EXPECT_FALSE(is_example_file("nothing.jsonl"));
}

}  // namespace
}  // namespace binade::data
