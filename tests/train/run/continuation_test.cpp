#include "binade/train/run/continuation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "io/temporary_folder.h"
#include "support/paths.h"

namespace binade::train {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(StopText, EndsBeforeTheFirstStopHoweverItArrives) {
  const std::string text = "one\nUser: two\n\nthree";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    for (size_t second = cut; second <= text.size(); ++second) {
      StopText stop({"\n\n", "\nUser:"});
      std::string shown = stop.add(text.substr(0, cut));
      shown += stop.add(text.substr(cut, second - cut));
      shown += stop.add(text.substr(second));
      EXPECT_TRUE(stop.stopped());
      EXPECT_EQ(shown + stop.finish(), "one") << cut << " " << second;
    }
  }
}

TEST(StopText, HoldsBackOnlyWhatMayBecomeAStop) {
  StopText stop({"abab"});
  EXPECT_EQ(stop.add("xab"), "x");
  EXPECT_EQ(stop.add("c"), "abc");
  EXPECT_EQ(stop.add("ab"), "");
  EXPECT_EQ(stop.add("a"), "");
  EXPECT_EQ(stop.finish(), "aba");
  EXPECT_FALSE(stop.stopped());
  EXPECT_EQ(StopText({}).add("all"), "all");
}

nn::GPT tiny_model() {
  return nn::GPT({.layers = 1, .width = 16, .heads = 2, .vocab = 256, .context = 16});
}

// Byte tokens: a stop string of three spans three tokens.
TEST(Continuation, EndsByLengthStopOrEos) {
  nn::GPT model = tiny_model();
  const auto tokenizer = data::open_tokenizer("bytes");
  ContinuationOptions options;
  options.generate = {.tokens = 30, .temperature = 1, .top_k = 0};
  std::string shown;
  const auto made = [&] {
    shown.clear();
    return continue_text(model, *tokenizer, {65}, options,
                         [&](std::string_view part) { shown += part; });
  };
  const Continuation all = made();
  EXPECT_EQ(all.text.size(), 30u);
  EXPECT_EQ(shown, all.text);
  EXPECT_EQ(name(all.finish), "length");

  options.stops = {all.text.substr(10, 3)};
  const Continuation stopped = made();
  EXPECT_EQ(stopped.text, all.text.substr(0, all.text.find(options.stops[0])));
  EXPECT_EQ(stopped.tokens, static_cast<int64_t>(stopped.text.size()) + 3);
  EXPECT_EQ(name(stopped.finish), "stop");
  EXPECT_EQ(shown, stopped.text);

  options.stops.clear();
  options.generate.eos = {static_cast<unsigned char>(all.text[12])};
  const Continuation ended = made();
  EXPECT_EQ(ended.text, all.text.substr(0, all.text.find(all.text[12])));
  EXPECT_EQ(ended.tokens, static_cast<int64_t>(ended.text.size()) + 1);
  EXPECT_EQ(name(ended.finish), "eos");

  // Any of a list ends it.
  options.generate.eos = {300, static_cast<unsigned char>(all.text[12])};
  EXPECT_EQ(made().text, ended.text);

  options.generate.eos.clear();
  options.interrupted = [] { return true; };
  EXPECT_EQ(name(made().finish), "interrupted");
  EXPECT_EQ(shown, all.text.substr(0, 1));
}

// Tokens of words begin with a space, which decoding takes from the first one.
TEST(Continuation, TheFirstWordKeepsItsSpace) {
  const auto tokenizer =
      data::open_tokenizer(test::golden_dir() + "/tokenizers/metaspace_always.json");
  const std::string text = "the quick brown fox";
  const std::vector<int64_t> ids = tokenizer->encode(text);
  for (size_t cut = 1; cut < ids.size(); ++cut) {
    const std::span prompt(ids.data(), cut);
    std::string joined = tokenizer->decode(prompt), alone;
    ContinuedText goes_on(*tokenizer, prompt, {}), answers(*tokenizer, prompt, {.is_answer = true});
    for (const int64_t id : std::span(ids).subspan(cut)) {
      goes_on.add(id);
      answers.add(id);
    }
    EXPECT_EQ(joined + goes_on.finish().text, text) << cut;
    EXPECT_EQ(answers.finish().text, tokenizer->decode(std::span(ids).subspan(cut))) << cut;
  }
}

// Only the end of a prompt is decoded; special tokens in it have no text.
TEST(Continuation, AfterALongPrompt) {
  const auto tokenizer = data::open_tokenizer(test::golden_dir() + "/tokenizers/llama2.json");
  std::string prompt = "the";
  for (int i = 0; i < 40; ++i) prompt += " fox";
  std::vector<int64_t> ids = tokenizer->encode_prompt(prompt);
  const std::vector<int64_t> more = tokenizer->encode("quick");  // with a space in front
  for (const bool ends_special : {false, true}) {
    if (ends_special) ids.push_back(tokenizer->template_ids().after[0]);
    ContinuedText text(*tokenizer, ids, {});
    for (const int64_t id : more) text.add(id);
    EXPECT_EQ(text.finish().text, " quick");
  }
}

TEST(Continuation, GenerationSettingsSayWhatEndsAText) {
  const testing::TemporaryFolder folder;
  const nn::LanguageModelConfig config{.vocab = 300, .eos = {5}};
  EXPECT_THAT(eos_ids(folder.path(), config), ElementsAre(5));
  folder.put("generation_config.json", R"({"eos_token_id": [7, 9]})");
  EXPECT_THAT(eos_ids(folder.path(), config), ElementsAre(7, 9));
  folder.put("generation_config.json", R"({"eos_token_id": 8})");
  EXPECT_THAT(eos_ids(folder.path(), config), ElementsAre(8));
  folder.put("generation_config.json", R"({"eos_token_id": null})");
  EXPECT_THAT(eos_ids(folder.path(), config), ElementsAre(5));
  folder.put("generation_config.json", R"({"eos_token_id": []})");
  EXPECT_THAT(eos_ids(folder.path(), config), IsEmpty());
  folder.put("generation_config.json", R"({"eos_token_id": "x"})");
  EXPECT_THROW(eos_ids(folder.path(), config), Error);
}

}  // namespace
}  // namespace binade::train
