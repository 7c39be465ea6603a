#include "binade/data/chat/examples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/data/documents.h"
#include "binade/data/sentencepiece.h"
#include "data/packed.h"
#include "data/small_model.h"
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

// Lines on both sides of the ends of the blocks that the file is read in; the last has no end.
TEST_F(Examples, AreReadInBlocks) {
  std::string lines = std::string(byte_order_mark) + "\r\n";
  std::vector<std::string> completions;
  for (int i = 0; lines.size() < (5 << 19); ++i) {
    const std::string longest(i == 700 ? (3 << 19) : 400 + i % 911,
                              static_cast<char>('a' + i % 26));
    completions.push_back(std::to_string(i) + longest);
    lines += R"({"prompt": "p", "completion": ")" + completions.back() + "\"}" +
             (i % 3 == 0   ? "\r\n"
              : i % 3 == 1 ? "\n"
                           : "\n\n");
  }
  while (lines.back() == '\n' || lines.back() == '\r') lines.pop_back();
  Source source = this->source(lines);
  source.context = 1 << 21;
  const Tokens all = read_all_examples(source);
  ASSERT_EQ(all.documents()->size(), std::ssize(completions));
  ASSERT_GT(completions.size(), 702u);
  for (int64_t i = 0; i < all.documents()->size(); ++i) {
    const Documents::Example one = all.documents()->example(i);
    ASSERT_EQ(std::string(one.answer.begin(), one.answer.end()),
              completions[static_cast<size_t>(i)]);
  }
}

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

// What the template of a folder may know beside roles and contents.
TEST_F(Examples, ToolsAndOtherMembersReachTheTemplate) {
  Source given =
      source(R"({"tools": [{"name": "f"}], "messages": [{"role": "user", "content": null}, )"
             R"({"role": "assistant", "content": "", "tool_calls": [{"name": "f"}]}]})");
  given.chat = parse_chat_template(
      "{{ tools[0].name }}{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}?"
      "{% else %}{% generation %}{{ m.tool_calls|tojson }}{% endgeneration %}.{% endif %}"
      "{% endfor %}",
      {}, "test");
  EXPECT_EQ(rows_of(read_all_examples(given)),
            std::vector<std::string>{"fNone?[{\"name\": \"f\"}]___|"
                                     ".....[{\"name\": \"f\"}]....|"});
}

TEST_F(Examples, ATemplatesRefusalNamesTheExample) {
  Source given = source(
      R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})"
      "\n"
      R"({"messages": [{"role": "user", "content": "q"}, {"role": "user", "content": "r"}]})");
  given.chat = chat_template_of(ChatFormat::gemma, {});
  const std::string error = error_of(given);
  EXPECT_THAT(error, HasSubstr("data.jsonl, example 2"));
  EXPECT_THAT(error, HasSubstr("must alternate"));
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
  given.chat = chat_template_of(ChatFormat::mistral, {"<s>", "</other>"});
  ASSERT_EQ(read_split(given).warnings.size(), 1u);
  EXPECT_THAT(read_split(given).warnings[0], HasSubstr("no token for \"</other>\""));
}

std::string json_line(const std::vector<Message>& messages) {
  json::Writer out;
  out.begin_object().key("messages").begin_array();
  for (const Message& one : messages)
    out.begin_object().key("role").value(one.role).key("content").value(one.content).end_object();
  return out.end_array().end_object().text() + "\n";
}

std::vector<Message> long_conversation(int turns) {
  std::vector<Message> messages;
  for (int i = 0; i < turns; ++i) {
    messages.push_back(
        {"user", "run " + std::to_string(i * i) + " kalo" + (i % 3 == 0 ? "\n" : "")});
    messages.push_back({"assistant", i % 4 == 0 ? "fox" : "mi" + std::to_string(i) + " ten "});
  }
  return messages;
}

// The ids of a conversation, each with whether it is a target, by encoding the text up to the
// boundaries of every answer.
std::vector<std::pair<int64_t, bool>> tokens_by_prefixes(const Tokenizer& tokenizer,
                                                         const RenderedChat& chat) {
  const std::vector<int64_t> ids = tokenizer.encode(chat.text);
  std::vector<std::pair<int64_t, bool>> result;
  for (const int64_t id : ids) result.emplace_back(id, false);
  for (const auto& [begin, end] : chat.answers) {
    const auto tokens_up_to = [&](size_t at) {
      const std::vector<int64_t> some = tokenizer.encode(chat.text.substr(0, at));
      return std::mismatch(ids.begin(), ids.end(), some.begin(), some.end()).first - ids.begin();
    };
    for (auto i = tokens_up_to(begin); i < tokens_up_to(end); ++i)
      result[static_cast<size_t>(i)].second = true;
  }
  return result;
}

TEST_F(Examples, LongConversationsHaveTheTokensOfTheirWholeText) {
  constexpr int64_t context = 20'000;
  const auto byte_level = open_tokenizer(binade::testing::golden("chat/byte_level.json").string());
  const auto metaspace = open_tokenizer(binade::testing::golden("chat/metaspace.json").string());
  const auto pieces = sentencepiece_of(small_model(), "small");
  for (const Tokenizer* tokenizer : {byte_level.get(), metaspace.get(), pieces.get()}) {
    for (const ChatFormat format : {ChatFormat::chatml, ChatFormat::mistral, ChatFormat::gemma}) {
      const std::vector<Message> messages = long_conversation(40);
      Source given = source(json_line(messages));
      given.tokenizer = tokenizer;
      given.vocab = tokenizer->vocab();
      given.context = context;
      given.chat = chat_template_of(format, {"<s>", "</s>"});
      const Batch batch = read_all_examples(given).documents()->consecutive_batch({1, context}, 0);
      const auto expected =
          tokens_by_prefixes(*tokenizer, render(*given.chat, messages, "a conversation"));
      const auto *ids = batch.tokens.data<int64_t>(), *targets = batch.targets.data<int64_t>();
      for (size_t i = 0; i + 1 < expected.size(); ++i) {
        ASSERT_EQ(ids[i], expected[i].first) << i;
        ASSERT_EQ(targets[i] >= 0, expected[i + 1].second) << i;
      }
    }
  }
}

// Encoding the text up to every answer would take hours.
TEST_F(Examples, VeryLongConversationsTakeLinearTime) {
  const auto tokenizer = open_tokenizer(binade::testing::golden("chat/byte_level.json").string());
  Source given = source(json_line(long_conversation(25'000)));
  given.tokenizer = tokenizer.get();
  given.vocab = tokenizer->vocab();
  given.context = 10'000'000;
  given.chat = chat_template_of(ChatFormat::chatml, {"<s>", "</s>"});
  EXPECT_GT(read_all_examples(given).size(), 500'000);
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
