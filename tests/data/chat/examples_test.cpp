#include "binade/data/chat/examples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "binade/data/documents.h"
#include "data/packed.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::data {
namespace {

using binade::testing::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::Not;

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
  Source given = source("{\"prompt\": \"a\", \"completion\": \"b\"}\n");
  given.eos = 256;
  EXPECT_THAT(error_of(given), HasSubstr("below its vocabulary of 256, found 256"));
}

TEST_F(Examples, ALongerContextIsAdvisedIfItHelps) {
  const std::string hint = "a longer --context";
  EXPECT_THAT(error_of(source("{\"prompt\": \"a\", \"completion\": \"\"}\n")),
              Not(HasSubstr(hint)));
  Source given = source("{\"prompt\": \"abcdef\", \"completion\": \"g\"}\n");
  given.context = 3;
  EXPECT_THAT(error_of(given), HasSubstr(hint));
}

// As other programs write them.
TEST_F(Examples, MarksLineEndsAndPackedFilesMakeNoDifference) {
  const std::string lines =
      "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": \"c\", \"completion\": \"d\"}\n";
  const std::string other =
      "\xEF\xBB\xBF\r\n{\"prompt\": \"a\", \"completion\": \"b\"}\r\n \r\n"
      "{\"prompt\": \"c\", \"completion\": \"d\"}";
  Source given = source(lines);
  const std::vector<std::string> train = rows_of(read_split(given).train),
                                 validation = rows_of(read_split(given).validation);
  for (const auto& path :
       {folder_.put("mark.jsonl", other), folder_.put("a.jsonl.gz", gzipped(lines)),
        folder_.put("b.jsonl.zst", zstandard(other))}) {
    given.where = path.string();
    EXPECT_TRUE(is_example_file(given.where)) << path;
    EXPECT_EQ(rows_of(read_split(given).train), train) << path;
    EXPECT_EQ(rows_of(read_split(given).validation), validation) << path;
  }
}

TEST_F(Examples, AllOfThemHaveNoneHeldOut) {
  Source given = source("{\"prompt\": \"2+2=\", \"completion\": \"4\"}\n");
  EXPECT_EQ(rows_of(read_all_examples(given)), std::vector<std::string>{"2+2=____|...4....|"});
  given.context = 3;
  EXPECT_THAT(test::error_of([&] { read_all_examples(given); }), HasSubstr("at least 1 example"));
}

// Text becomes documents that fill the context, all of it targets.
TEST_F(Examples, MixWithTextAndOtherExamples) {
  Source given = source(
      "{\"prompt\": \"a\", \"completion\": \"bcdefghij\"}\n"
      "{\"prompt\": \"c\", \"completion\": \"d\"}\n");
  const std::string text = folder_.put("text.txt", "0123456789ABCDEFGHIJ").string();
  given.context = 4;
  EXPECT_FALSE(has_examples("1*" + text + ",2*" + text));
  given.where = "3*" + given.where + ",1*" + text;
  EXPECT_TRUE(has_examples(given.where));
  const Split split = read_split(given);
  EXPECT_EQ(
      rows_of(split.train),
      (std::vector<std::string>{"abcd____|bcde....|", "0123____|1234....|", "5678____|6789....|"}));
  EXPECT_EQ(
      rows_of(split.validation),
      (std::vector<std::string>{"c_______|d.......|", "ABCD____|BCDE....|", "FGHI____|GHIJ....|"}));
  EXPECT_EQ(split.train.sources().size(), 2u);
  EXPECT_EQ(split.warnings.size(), 1u);
}

TEST_F(Examples, ATokenizerWithoutATokenForTheEndGivesAWarning) {
  const auto tokenizer = open_tokenizer(binade::testing::golden("chat/byte_level.json").string());
  Source given = source(
      R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})"
      "\n"
      R"({"instruction": "do", "output": "ok"})");
  given.tokenizer = tokenizer.get();
  given.chat = chat_template_of(ChatFormat::mistral, {"<s>", "</s>"});
  EXPECT_TRUE(read_split(given).warnings.empty());
  given.chat->eos = "</other>";
  ASSERT_EQ(read_split(given).warnings.size(), 1u);
  EXPECT_THAT(read_split(given).warnings[0], HasSubstr("no token for \"</other>\""));
}

TEST_F(Examples, AFolderOfThemIsRefusedWithTheWayToNameThem) {
  source("{\"prompt\": \"2+2=\", \"completion\": \"4\"}\n");
  EXPECT_THAT(test::error_of([&] { read_split({.where = folder_.path().string()}); }),
              HasSubstr("1*a.jsonl,1*b.jsonl"));
}

TEST_F(Examples, OtherNamesOfMembersAreRefusedWithThoseThatAreKnown) {
  EXPECT_THAT(test::error_of([&] { read_split(source("{\"conversations\": []}\n")); }),
              HasSubstr("messages, prompt and completion"));
}

TEST_F(Examples, FilesOfTextsAreNotExamples) {
  EXPECT_FALSE(is_example_file(source("{\"text\": \"a\", \"prompt\": \"b\"}\n").where));
  EXPECT_FALSE(is_example_file(folder_.put("data.txt", "{\"prompt\": \"b\"}").string()));
  EXPECT_FALSE(is_example_file("nothing.jsonl"));
}

}  // namespace
}  // namespace binade::data
