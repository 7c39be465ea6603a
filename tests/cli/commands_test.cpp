#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command.h"
#include "io/temporary_folder.h"

// The commands around a trained model, on one small run.
namespace binade::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class Commands : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new testing::TemporaryFolder;
    const Outcome outcome = binade(
        "train --quiet --layers 1 --width 16 --heads 2 --context 8 --batch 2 --eval-batches 1 "
        "--sample 8 --threads 1 --steps 3 --out " +
        path("run"));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
  static void TearDownTestSuite() { delete folder_; }

  static std::string path(const std::string& name) { return quoted((*folder_ / name).string()); }

  static testing::TemporaryFolder* folder_;
};
testing::TemporaryFolder* Commands::folder_ = nullptr;

TEST_F(Commands, GenerateTakesItsPromptFromAnywhere) {
  const std::string common = "generate " + path("run") + " --tokens 6 --top-p 0.9 ";
  folder_->put("prompt.txt", "abc");
  const Outcome option = binade(common + "--prompt abc");
  EXPECT_EQ(option.status, 0) << option.err;
  EXPECT_THAT(option.out, StartsWith("abc"));
  EXPECT_EQ(binade(common + "--prompt-file " + path("prompt.txt")).out, option.out);
  EXPECT_EQ(
      run_shell("printf abc | " + quoted(BINADE_EXECUTABLE) + " " + common + "--prompt-file -").out,
      option.out);
}

// A byte is a token here and at most one character of the text.
TEST_F(Commands, GeneratePrintsEachTokenOnce) {
  const Outcome outcome = binade("generate " + path("run") + " --tokens 40 --prompt abc");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; };
  const auto characters = static_cast<int64_t>(outcome.out.size()) -
                          std::count_if(outcome.out.begin(), outcome.out.end(), continues);
  EXPECT_LE(characters, 3 + 40 + 1);
  EXPECT_GE(characters, 3 + 40 / 4 + 1);
}

// Lines of JSON, by prompt and by sample.
TEST_F(Commands, GenerateTakesManyPromptsAndSamples) {
  folder_->put("prompts.txt", "abc\n\nxyz\r\n");
  folder_->put("prompts.jsonl", "{\"prompt\": \"abc\"}\n{\"prompt\": \"xyz\"}\n");
  const std::string common = "generate " + path("run") + " --tokens 6 ";
  const auto lines = [&](const std::string& options) {
    const Outcome outcome = binade(common + "--json " + options);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::vector<nlohmann::json> parsed;
    std::istringstream stream(outcome.out);
    for (std::string line; std::getline(stream, line);)
      parsed.push_back(nlohmann::json::parse(line));
    return parsed;
  };
  const auto made = lines("--count 2 --prompts " + path("prompts.txt"));
  ASSERT_EQ(made.size(), 4u);
  EXPECT_EQ(made[2].at("prompt"), "xyz");
  EXPECT_EQ(made[3].at("sample"), 1);
  EXPECT_EQ(made[3].at("tokens"), 6);
  EXPECT_EQ(made[3].at("finish"), "length");
  EXPECT_NE(made[2].at("text"), made[3].at("text"));
  EXPECT_EQ(lines("--count 2 --prompts " + path("prompts.jsonl")), made);
  EXPECT_EQ(lines("--count 2 --prompts - < " + path("prompts.txt")), made);
  EXPECT_EQ(lines("--prompt xyz").at(0), made[2]);
  const Outcome text = binade(common + "--prompts " + path("prompts.txt"));
  EXPECT_THAT(text.out, StartsWith("--- 1 of 2\nabc"));
  EXPECT_THAT(text.out, HasSubstr("--- 2 of 2\nxyz"));
}

TEST_F(Commands, GenerateEndsBeforeAStopString) {
  const std::string common = "generate " + path("run") + " --tokens 30 --prompt abc ";
  const std::string all =
      nlohmann::json::parse(binade(common + "--json").out).at("text").get<std::string>();
  const auto ascii =
      std::find_if(all.begin(), all.end(), [](char c) { return c > ' ' && c < 127; });
  ASSERT_NE(ascii, all.end());
  const std::string stop(1, *ascii);
  const auto stopped =
      nlohmann::json::parse(binade(common + "--json --stop nothing --stop " + quoted(stop)).out);
  EXPECT_EQ(stopped.at("text"), all.substr(0, all.find(stop)));
  EXPECT_EQ(stopped.at("finish"), "stop");
}

TEST_F(Commands, GenerateContinuesLinesUntilTheInputEnds) {
  const std::string common = " generate " + path("run") + " --tokens 6 ";
  const Outcome outcome =
      run_shell("printf 'abc\\nxyz' | " + quoted(BINADE_EXECUTABLE) + common + "--interactive");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, binade(common + "--prompt abc").out + binade(common + "--prompt xyz").out);
}

// A run on conversations: its format travels with it, and a conversation has the answers so far.
TEST_F(Commands, GenerateAnswersInTheFormatOfTheRun) {
  std::string lines;
  for (int i = 0; i < 4; ++i)
    lines += R"({"instruction": "say", "output": "yes"})"
             "\n";
  folder_->put("chat.jsonl", lines);
  const Outcome trained = binade(
      "train --quiet --layers 1 --width 16 --heads 2 --context 64 --batch 2 --eval-batches 1 "
      "--sample 0 --threads 1 --steps 2 --chat mistral --data " +
      path("chat.jsonl") + " --out " + path("chat"));
  ASSERT_EQ(trained.status, 0) << trained.err;
  const std::string common = " generate " + path("chat") + " --tokens 6 ";
  const auto json_lines = [&](const std::string& command) {
    const Outcome outcome = run_shell(command);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  const std::string program = quoted(BINADE_EXECUTABLE) + common;
  const auto text_of = [](const std::string& line) {
    return nlohmann::json::parse(line).at("text").get<std::string>();
  };
  const std::string answer = json_lines(program + "--json --chat --prompt hi");
  EXPECT_EQ(text_of(answer), text_of(json_lines(program + "--json --prompt '[INST] hi [/INST]'")));
  EXPECT_EQ(json_lines(program + "--chat --prompt hi"),
            json_lines(program + "--prompt '[INST] hi [/INST]'").substr(17));
  const std::string both =
      json_lines("printf 'hi\nho\n' | " + program + "--json --chat --interactive");
  EXPECT_THAT(both, StartsWith(answer));
  const std::string second = both.substr(answer.size());
  folder_->put("whole.txt", "[INST] hi [/INST]" + text_of(answer) + "[INST] ho [/INST]");
  EXPECT_EQ(text_of(second),
            text_of(json_lines(program + "--json --prompt-file " + path("whole.txt"))));
  EXPECT_THAT(binade("generate --chat --prompt hi " + path("run")).err,
              HasSubstr("a model with a chat template"));
  EXPECT_EQ(text_of(json_lines(program + "--json --chat-format llama3 --prompt hi")),
            text_of(json_lines(program +
                               "--json --prompt '<|start_header_id|>user<|end_header_id|>\n\n"
                               "hi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n'")));
  EXPECT_THAT(binade("generate --chat " + path("chat")).err, HasSubstr("no prompt"));
  EXPECT_EQ(binade("generate --chat --interactive --count 2 " + path("chat")).status, 2);
  EXPECT_THAT(binade("eval " + path("chat") + " --data " + path("chat.jsonl")).out,
              HasSubstr("12 tokens, the answers in "));
  EXPECT_THAT(binade("eval " + path("chat") + " --data 1*" + path("chat.jsonl")).err,
              HasSubstr("one file of examples"));
}

// The same text in bf16: another loss, by rounding errors of 2^-9.
TEST_F(Commands, EvalRunsInThePrecisionAsked) {
  folder_->put("short.txt", "a short text, for which the loss is computed in several precisions");
  const auto loss = [](const std::string& precision) {
    const Outcome outcome = binade("eval --json --precision " + precision + " --data " +
                                   path("short.txt") + " " + path("run"));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out).at("loss").get<double>();
  };
  const double exact = loss("fp32");
  for (const char* precision : {"bf16", "fp16"}) {
    EXPECT_NE(loss(precision), exact) << precision;
    EXPECT_NEAR(loss(precision), exact, 0.01 * exact) << precision;
  }
}

TEST_F(Commands, GenerateAndEvalTakeADeviceAndAPrecision) {
  const std::string where = path("run") + " --device cpu --precision bf16";
  const Outcome generated = binade("generate --tokens 12 --prompt abc " + where);
  EXPECT_EQ(generated.status, 0) << generated.err;
  EXPECT_THAT(generated.out, StartsWith("abc"));
  EXPECT_EQ(binade("eval " + where).status, 0);
}

TEST_F(Commands, EvalPrintsJson) {
  const Outcome outcome = binade("eval --json " + path("run"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_NEAR(json.at("loss").get<double>() / std::log(2.0), json.at("bits_per_byte").get<double>(),
              1e-9);
  EXPECT_GT(json.at("tokens"), 1000);
  folder_->put("text.txt", "some text to read");
  EXPECT_THAT(binade("eval --data " + path("text.txt") + " " + path("run")).out,
              HasSubstr("16 bytes"));
}

TEST_F(Commands, EvalSlidesAWindow) {
  folder_->put("text.txt", "some text to read in windows of eight tokens, by strides");
  const auto result = [](const std::string& options) {
    const Outcome outcome =
        binade("eval --json --data " + path("text.txt") + " " + path("run") + options);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out);
  };
  EXPECT_NE(result(" --stride 4").at("loss"), result("").at("loss"));
  EXPECT_EQ(result(" --stride 4").at("tokens"), result("").at("tokens"));
  EXPECT_FALSE(result(" --stride 8").contains("bits_per_byte"));
}

TEST_F(Commands, ExportImportAndStartAgain) {
  const Outcome exported = binade("export --dtype bf16 " + path("run") + " " + path("exported"));
  EXPECT_EQ(exported.status, 0) << exported.err;
  EXPECT_THAT(exported.out, HasSubstr("bf16"));
  EXPECT_EQ(binade("export " + path("run") + " " + path("exported")).status, 2);
  EXPECT_EQ(binade("export --force " + path("run") + " " + path("exported")).status, 0);
  const Outcome imported = binade("import " + path("exported") + " " + path("imported"));
  EXPECT_EQ(imported.status, 0) << imported.err;
  EXPECT_THAT(imported.out, HasSubstr("--init-from"));
  const Outcome trained =
      binade("train --steps 1 --batch 2 --eval-batches 1 --sample 0 --init-from " +
             path("imported") + " --out " + path("further"));
  EXPECT_EQ(trained.status, 0) << trained.err;
}

TEST_F(Commands, InspectAndReport) {
  EXPECT_THAT(binade("inspect --histogram " + path("run")).out, HasSubstr("2^-"));
  const Outcome json = binade("inspect --json " + path("run"));
  EXPECT_TRUE(nlohmann::json::accept(json.out)) << json.out;
  std::filesystem::remove(*folder_ / "run/report.html");
  EXPECT_EQ(binade("report " + path("run")).status, 0);
  EXPECT_TRUE(std::filesystem::exists(*folder_ / "run/report.html"));
  std::filesystem::copy(*folder_ / "run", *folder_ / "other",
                        std::filesystem::copy_options::recursive);
  const Outcome both =
      binade("report " + path("run") + " " + path("other") + " --out " + path("both.html"));
  EXPECT_EQ(both.status, 0) << both.err;
  EXPECT_TRUE(std::filesystem::exists(*folder_ / "both.html"));
}

TEST_F(Commands, ReportTakesEachRunOnce) {
  const Outcome twice = binade("report " + path("run") + " " + path("run") + " --out " + path("c"));
  EXPECT_EQ(twice.status, 2);
  EXPECT_THAT(twice.err, HasSubstr("each run once"));
  EXPECT_EQ(binade("report " + path("run") + " " + path("run/") + " --out " + path("c")).status, 2);
  EXPECT_FALSE(std::filesystem::exists(*folder_ / "c"));
}

// Names of a file are shown, not obeyed: U+009B begins a control sequence, U+202E turns text
// around.
TEST_F(Commands, InspectEscapesNames) {
  const std::string header =
      "{\"a\u009b31m\u202eb\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  folder_->put("names.safetensors", file + header + std::string(4, '\0'));
  const Outcome json = binade("inspect --json " + path("names.safetensors"));
  EXPECT_EQ(json.status, 0) << json.err;
  EXPECT_THAT(json.out, HasSubstr("a\\u009b31m\\u202eb"));
  const Outcome text = binade("inspect " + path("names.safetensors"));
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("a\\xc2\\x9b31m\\xe2\\x80\\xaeb"));
}

TEST_F(Commands, BadInputIsOneMessageAndExitCodeTwo) {
  const std::pair<std::string, const char*> cases[] = {
      {"generate no-such", "no-such"},
      {"generate --top-p 2 " + path("run"), "top-p"},
      {"generate --prompt a --prompt-file b " + path("run"), "prompt"},
      {"generate --device tpu " + path("run"), "tpu"},
      {"generate --precision fp8 " + path("run"), "fp8"},
      {"generate --prompts no-such " + path("run"), "no-such"},
      {"generate --interactive --prompt a " + path("run"), "--interactive"},
      {"generate --count 0 " + path("run"), "--count"},
      {"generate --stop '' " + path("run"), "--stop"},
      {"generate --repetition-penalty 0 " + path("run"), "repetition-penalty"},
      {"eval --stride 9 " + path("run"), "stride"},
      {"eval no-such", "no-such"},
      {"eval --data no-such " + path("run"), "no-such"},
      {"eval --precision f13 " + path("run"), "f13"},
      {"eval --device tpu " + path("run"), "tpu"},
      {"export no-such x", "no-such"},
      {"export --dtype e4m3 " + path("run") + " x", "e4m3"},
      {"import no-such x", "no-such"},
      {"inspect no-such", "no-such"},
      {"report no-such", "no-such"},
      {"train --init-from no-such", "no-such"},
  };
  for (const auto& [arguments, message] : cases) {
    const Outcome outcome = binade(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments << "\n" << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(message)) << arguments;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_THAT(outcome.out, IsEmpty()) << arguments;
  }
}

// As the run would choose them.
TEST_F(Commands, DryRunSaysWhichActivationsAreKept) {
  const Outcome outcome = binade("train --dry-run --memory 45MB");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("of 45 MB; activations of 4 blocks: "));
  EXPECT_THAT(outcome.out, HasSubstr("activations = \"auto\""));
  EXPECT_THAT(binade("train --dry-run").out, HasSubstr("; all activations kept\n"));
  EXPECT_THAT(binade("train --dry-run --activations 1").out, Not(HasSubstr("# memory of the run")));
  EXPECT_EQ(binade("train --dry-run --memory 1MB").status, 2);
}

TEST_F(Commands, DryRunForecastsMemory) {
  const Outcome outcome = binade("train --dry-run --preset gpt2-124m");
  for (const char* part : {"parameters          497,759,232 B", "optimizer           995,518,464 B",
                           "activations", "total", "8,192 tokens per step"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
  const auto json =
      nlohmann::json::parse(binade("train --dry-run --json --batch 3 --accumulate 5 --context 16 "
                                   "--steps 7")
                                .out);
  EXPECT_EQ(json.at("tokens_per_step"), 3 * 5 * 16);
  EXPECT_EQ(json.at("tokens"), 3 * 5 * 16 * 7);
  EXPECT_GT(json.at("memory"), json.at("memory_at_peak").at("parameters"));
}

}  // namespace
}  // namespace binade::cli
