#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/command.h"
#include "io/temporary_folder.h"

namespace binade::cli {
namespace {

using ::testing::HasSubstr;

TEST(CliTokenize, FromATextToAModelThatSpeaksIt) {
  const testing::TemporaryFolder folder;
  const auto at = [&folder](const char* name) { return quoted((folder / name).string()); };
  const Outcome trained = binade("tokenize train --data builtin --vocab 400 " + at("small.model"));
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_EQ(trained.err, "");
  const Outcome applied = binade("tokenize apply " + at("small.model") + " builtin " + at("a.bin"));
  ASSERT_EQ(applied.status, 0) << applied.err;
  EXPECT_THAT(applied.out, HasSubstr("tokens below 400"));
  ASSERT_EQ(
      binade("tokenize apply --nanogpt " + at("small.model") + " builtin " + at("b.bin")).status,
      0);
  EXPECT_EQ(testing::content_of(folder / "a.bin").substr(1024),
            testing::content_of(folder / "b.bin"));

  const std::string small = " --layers 1 --width 16 --heads 2 --context 8 --batch 2 --sample 8 ";
  const Outcome by_text = binade("train --quiet --steps 2 --tokenizer " + at("small.model") +
                                 small + "--out " + at("text"));
  ASSERT_EQ(by_text.status, 0) << by_text.err;
  const Outcome by_ids = binade("train --quiet --steps 2 --tokenizer " + at("small.model") +
                                " --data " + at("a.bin") + small + "--out " + at("ids"));
  ASSERT_EQ(by_ids.status, 0) << by_ids.err;
  // Tokenizing before the run or in it gives the same weights.
  EXPECT_EQ(testing::content_of(folder / "text/checkpoints/step-2/model.safetensors"),
            testing::content_of(folder / "ids/checkpoints/step-2/model.safetensors"));
  EXPECT_EQ(testing::content_of(folder / "text/checkpoints/step-2/tokenizer.model"),
            testing::content_of(folder / "small.model"));

  // The run continues without the original tokenizer file and generates with its own copy.
  std::filesystem::remove(folder / "small.model");
  EXPECT_EQ(binade("train --quiet --resume --steps 3 --out " + at("text")).status, 0);
  const Outcome text = binade("generate " + at("text") + " --tokens 4 --prompt 'int main'");
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, ::testing::StartsWith("int main"));

  const Outcome other =
      binade("train --quiet --resume --steps 4 --tokenizer bytes --out " + at("text"));
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("the tokenizer bytes: expected that of"));
}

TEST(CliTokenize, ByteLevelBpeFromTextToAnExportedModel) {
  const testing::TemporaryFolder folder;
  const auto at = [&folder](const char* name) { return quoted((folder / name).string()); };
  const Outcome trained =
      binade("tokenize train --kind byte-bpe --data builtin --vocab 400 " + at("small.json"));
  ASSERT_EQ(trained.status, 0) << trained.err;
  const Outcome applied = binade("tokenize apply " + at("small.json") + " builtin " + at("a.bin"));
  ASSERT_EQ(applied.status, 0) << applied.err;
  EXPECT_THAT(applied.out, HasSubstr("tokens below 400"));

  const Outcome run = binade(
      "train --quiet --steps 2 --layers 1 --width 16 --heads 2 --context 8 --batch 2 "
      "--sample 8 --tokenizer " +
      at("small.json") + " --out " + at("run"));
  ASSERT_EQ(run.status, 0) << run.err;
  const std::string model = testing::content_of(folder / "small.json");
  EXPECT_EQ(testing::content_of(folder / "run/checkpoints/step-2/tokenizer.json"), model);

  // The run goes on and speaks with the tokenizer it has.
  std::filesystem::remove(folder / "small.json");
  EXPECT_EQ(binade("train --quiet --resume --steps 3 --out " + at("run")).status, 0);
  const Outcome text = binade("generate " + at("run") + " --tokens 4 --prompt 'int main'");
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, ::testing::StartsWith("int main"));
  EXPECT_THAT(binade("eval " + at("run")).out, HasSubstr("bits per byte"));

  ASSERT_EQ(binade("export " + at("run") + " " + at("model")).status, 0);
  EXPECT_EQ(testing::content_of(folder / "model/tokenizer.json"), model);
  EXPECT_THAT(testing::content_of(folder / "model/tokenizer_config.json"),
              HasSubstr("PreTrainedTokenizerFast"));
  // A folder is a tokenizer, too.
  const Outcome again = binade("tokenize apply " + at("model") + " builtin " + at("b.bin"));
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(testing::content_of(folder / "a.bin"), testing::content_of(folder / "b.bin"));
}

// Its decoder makes a thousand letters of one and is stopped. The run has been trained by then.
TEST(CliTokenize, ADecoderThatFailsDoesNotLoseTheRun) {
  const testing::TemporaryFolder folder;
  const auto at = [&folder](const char* name) { return quoted((folder / name).string()); };
  folder.put("tokenizer.json",
             R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
                 "normalizer": null, "pre_tokenizer": null, "post_processor": null,
                 "decoder": {"type": "Replace", "pattern": {"String": "a"}, "content": ")" +
                 std::string(1000, 'b') + R"("},
                 "model": {"type": "BPE", "dropout": null, "unk_token": "?",
                           "continuing_subword_prefix": null, "end_of_word_suffix": null,
                           "fuse_unk": false, "byte_fallback": false,
                           "vocab": {"?": 0, "a": 1, " ": 2}, "merges": []}})");
  std::string text;
  for (int i = 0; i < 4000; ++i) text += "aaaa aa";
  folder.put("text.txt", text);
  const Outcome outcome =
      binade("train --data " + at("text.txt") + " --tokenizer " + at("tokenizer.json") +
             " --layers 1 --width 16 --heads 2 --context 8 --batch 2 --steps 2 --sample 0 --out " +
             at("run"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out + outcome.err, HasSubstr("no text of this run is shown"));
  EXPECT_THAT(outcome.out + outcome.err, HasSubstr("the decoder"));
  EXPECT_THAT(testing::content_of(folder / "run/summary.json"), HasSubstr("bytes_per_token\": 0"));
  EXPECT_TRUE(std::filesystem::exists(folder / "run/report.html"));
}

// Thousands of steps at each position of the text: refused soon, with the pattern's name.
TEST(CliTokenize, ASlowPatternIsNamed) {
  const testing::TemporaryFolder folder;
  const auto at = [&folder](const char* name) { return quoted((folder / name).string()); };
  folder.put("tokenizer.json",
             R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
                 "normalizer": null, "post_processor": null, "decoder": null,
                 "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a|aa){1,16}[bc]"},
                                   "behavior": "Isolated", "invert": false},
                 "model": {"type": "BPE", "dropout": null, "unk_token": "?",
                           "continuing_subword_prefix": null, "end_of_word_suffix": null,
                           "fuse_unk": false, "byte_fallback": false,
                           "vocab": {"?": 0, "a": 1}, "merges": []}})");
  folder.put("text.txt", std::string(20'000, 'a'));
  const Outcome outcome =
      binade("tokenize apply " + at("tokenizer.json") + " " + at("text.txt") + " " + at("out.bin"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("the pattern \"(a|aa){1,16}[bc]\""));
  EXPECT_THAT(outcome.err, HasSubstr("steps for 20000 bytes of text"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out.bin"));
}

TEST(CliTokenize, BadInputIsOneMessageAndExitCodeTwo) {
  const testing::TemporaryFolder folder;
  const std::string out = quoted((folder / "out").string());
  const std::pair<std::string, const char*> cases[] = {
      {"tokenize", "expected one of train, apply, found none"},
      {"tokenize train --data builtin --vocab 10 " + out, "--vocab"},
      {"tokenize train --data builtin --vocab 300 " + out, "Vocabulary size is smaller"},
      {"tokenize train --data builtin --kind words " + out, "--kind"},
      {"tokenize train --data builtin --kind byte-bpe " + out, "ends in .json"},
      {"tokenize train --data builtin --kind bpe " + out + ".json", "does not end in .json"},
      {"tokenize train --data no-such-file " + out, "no-such-file"},
      {"tokenize apply no-such.model builtin " + out, "no-such.model"},
      {"tokenize apply bytes no-such-file " + out, "no-such-file"},
      {"tokenize apply bytes builtin /dev/null/out", "/dev/null/out"},
  };
  for (const auto& [arguments, message] : cases) {
    const Outcome outcome = binade(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr(message)) << arguments;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << arguments;
  }
}

}  // namespace
}  // namespace binade::cli
