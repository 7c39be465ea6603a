#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "cli/command.h"
#include "io/temporary_folder.h"

// What shells and man(1) read of the program.
namespace binade::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Completions : public ::testing::Test {
 protected:
  // What bash offers for the last of these words.
  std::vector<std::string> offered(const std::string& words) const {
    const Outcome outcome = run_shell(
        "bash -c " + quoted("source " + script_ + "; COMP_WORDS=(" + words +
                            "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _binade 2>/dev/null; "
                            "printf '%s\\n' \"${COMPREPLY[@]}\""));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::istringstream lines(outcome.out);
    std::vector<std::string> result;
    for (std::string line; std::getline(lines, line);)
      if (!line.empty()) result.push_back(line);
    return result;
  }

  const testing::TemporaryFolder folder_;
  const std::string script_ = folder_.put("binade.bash", binade("completions bash").out).string();
};

TEST_F(Completions, OfCommandsOptionsAndValues) {
  EXPECT_THAT(offered("binade tra"), ElementsAre("train"));
  EXPECT_THAT(offered("binade bench st"), ElementsAre("step"));
  EXPECT_THAT(offered("binade train --precisio"), ElementsAre("--precision", "--precision-plan"));
  EXPECT_THAT(offered("binade train --precision ''"),
              ElementsAre("fp32", "tf32", "bf16", "fp16", "fp8"));
  EXPECT_THAT(offered("binade train --steps 3 --optimizer l"), ElementsAre("lion"));
  EXPECT_THAT(offered("binade launch -n 2 train --precision b"), ElementsAre("bf16"));
  EXPECT_THAT(offered("binade launch -n 2 tr"), ElementsAre("train"));
  EXPECT_THAT(offered("binade launch -n 2 reproduce --sk"), offered("binade reproduce --sk"));
  EXPECT_THAT(offered("binade train --memory ''"), ElementsAre("auto", "least"));
  EXPECT_THAT(offered("binade train --activations ''"),
              ElementsAre("auto", "keep", "lean", "recompute"));
  // An option that few need, which --help leaves out.
  EXPECT_THAT(offered("binade train --reduce-d"), ElementsAre("--reduce-dtype"));
}

TEST_F(Completions, OfCheckedTextsAndWords) {
  EXPECT_THAT(offered("binade export --type q"), ElementsAre("q8_0", "q4_0", "q4_k", "q6_k"));
  EXPECT_THAT(offered("binade generate --chat-format ll"), ElementsAre("llama3"));
  EXPECT_THAT(offered("binade completions z"), ElementsAre("zsh"));
  EXPECT_THAT(offered("binade help tra"), ElementsAre("train"));
  EXPECT_THAT(offered("binade man tok"), ElementsAre("tokenize"));
  const std::string zsh = binade("completions zsh").out, fish = binade("completions fish").out;
  EXPECT_THAT(zsh, HasSubstr(":value:(f32 f16 bf16 q8_0 q4_0 q4_k q6_k mxfp4 int4-g128"));
  EXPECT_THAT(zsh, HasSubstr("'*:value:(bash zsh fish)'"));
  EXPECT_THAT(fish, HasSubstr("complete -c binade -f -n '__fish_seen_subcommand_from completions' "
                              "-a 'bash zsh fish'\n"));
}

TEST_F(Completions, OfFilesAreLeftToTheShell) {
  EXPECT_THAT(offered("binade train --data ''"), IsEmpty());
  EXPECT_THAT(offered("binade eval some-fi"), IsEmpty());
  EXPECT_THAT(offered("binade train --no-such-o"), IsEmpty());
}

// The text of a script from `begin` to the end of the function that it names.
std::string function_of(const std::string& script, const std::string& begin) {
  const size_t at = script.find("\n" + begin);
  return at == script.npos ? "" : script.substr(at + 1, script.find("\n}\n", at) + 2 - at);
}

TEST(ZshCompletions, HaveCommandsAndOptionsWithTheirValues) {
  const std::string script = binade("completions zsh").out;
  EXPECT_EQ(function_of(script, "_binade_bench_gemm()"),
            "_binade_bench_gemm() {\n"
            "  _arguments \\\n"
            "    '-h[Print this help message and exit]' \\\n"
            "    '--help[Print this help message and exit]' \\\n"
            "    '--device[Device to run on]:value:_files' \\\n"
            "    '--seconds[Seconds per line of the table]:value:_files' \\\n"
            "    '--threads[CPU threads]:value:_files' \\\n"
            "    '--num-threads[CPU threads]:value:_files' \\\n"
            "    '--cpu-time[Measure CPU time]' \\\n"
            "    '--json[Print JSON]' \\\n"
            "    '--shapes[Shapes to run]:value:_files' \\\n"
            "    '*:file:_files'\n"
            "}\n");
  EXPECT_EQ(function_of(script, "_binade_tokenize()"),
            "_binade_tokenize() {\n"
            "  local state line\n"
            "  local -a commands=(\n"
            "    'train:Train a tokenizer on a text'\n"
            "    'apply:Convert a text to a token file for '\\''binade train --data'\\'''\n"
            "  )\n"
            "  _arguments -C \\\n"
            "    '-h[Print this help message and exit]' \\\n"
            "    '--help[Print this help message and exit]' \\\n"
            "    '1:command:->command' '*::argument:->argument'\n"
            "  case $state in\n"
            "    command) _describe command commands ;;\n"
            "    argument)\n"
            "      case $line[1] in\n"
            "        train) _binade_tokenize_train ;;\n"
            "        apply) _binade_tokenize_apply ;;\n"
            "      esac ;;\n"
            "  esac\n"
            "}\n");
  EXPECT_THAT(function_of(script, "_binade_train()"),
              HasSubstr("'--precision[Matmul precision]:value:(fp32 tf32 bf16 fp16 fp8)'"));
  EXPECT_THAT(function_of(script, "_binade_launch()"),
              HasSubstr("    '1:command:(train reproduce)' '*::argument:->argument'\n"
                        "  [[ $state == argument ]] || return\n"
                        "  case $line[1] in\n"
                        "      train) _binade_train ;;\n"
                        "      reproduce) _binade_reproduce ;;\n"
                        "  esac\n"));
  EXPECT_THAT(function_of(script, "_binade()"),
              HasSubstr("'report:Regenerate a run'\\''s report.html"));
}

TEST(FishCompletions, ApplyToTheirCommandAlone) {
  const std::string script = binade("completions fish").out;
  const std::string bench = "-n '__fish_seen_subcommand_from bench; and ",
                    gemm = "complete -c binade " + bench + "__fish_seen_subcommand_from gemm' ";
  for (const std::string& line :
       {"complete -c binade -f " + bench +
            "not __fish_seen_subcommand_from step resnet gemm ops' -a ops -d 'Bandwidth of "
            "memory-bound kernels vs. a copy'",
        gemm + "-s h -l help -d 'Print this help message and exit'",
        gemm + "-l seconds -r -d 'Seconds per line of the table'", gemm + "-l json -d 'Print JSON'",
        std::string("complete -c binade -n '__fish_seen_subcommand_from train' -l precision -r -f "
                    "-a 'fp32 tf32 bf16 fp16 fp8' -d 'Matmul precision'")})
    EXPECT_THAT(script, HasSubstr("\n" + line + "\n"));
  EXPECT_THAT(script,
              HasSubstr("\ncomplete -c binade -f -n '__fish_seen_subcommand_from launch; and "
                        "not __fish_seen_subcommand_from train reproduce' -a 'train "
                        "reproduce'\n"));
  EXPECT_THAT(script, HasSubstr("\ncomplete -c binade -f -n 'not __fish_seen_subcommand_from train "
                                "launch "));
}

// A sentence on each line of the lists of options; requests begin with a dot.
TEST(ManPage, HasSentencesInSections) {
  std::string section;
  std::map<std::string, std::string> section_of;
  int sentences = 0;
  std::istringstream page(binade("man train").out);
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with(".Ss ")) section = line.substr(4);
    if (line.starts_with(".Sh ")) section.clear();
    if (line.starts_with(".It Fl ")) section_of[line.substr(7, line.find('"', 8) - 6)] = section;
    if (line.starts_with('.') || line == "Default:" || section.empty()) continue;
    ++sentences;
    EXPECT_THAT(std::string(".?!"), HasSubstr(line.substr(line.size() - 1))) << line;
    EXPECT_NE(line.front(), ' ') << line;
    for (size_t at = 0; (at = line.find(". ", at)) != line.npos; ++at)
      EXPECT_FALSE(line[at + 2] >= 'A' && line[at + 2] <= 'Z') << line;
  }
  EXPECT_EQ(section_of["\"\\-layers\""], "\"[model]\"");
  EXPECT_EQ(section_of["\"\\-steps\""], "\"[train]\"");
  EXPECT_EQ(section_of["\"\\-quiet\""], "");
  EXPECT_GT(sentences, 60);
  EXPECT_THAT(binade("man bench").out,
              HasSubstr(".It Cm \"ops\"\nBandwidth of memory\\-bound kernels vs. a copy.\nSee\n"
                        ".Xr binade-bench-ops 1 .\n"));
  EXPECT_THAT(binade("man bench gemm").out,
              HasSubstr(".It Fl \"\\-seconds\" Ar \"FLOAT:0..3600\"\nSeconds per line of the "
                        "table.\nDefault:\n.Li \"1\" .\n"));
}

TEST(ManPage, OfTrainHasEveryOption) {
  const std::string page = binade("man train").out;
  EXPECT_THAT(page, HasSubstr(".Dt BINADE-TRAIN 1\n"));
  std::istringstream help(binade("train --help-all").out);
  int options = 0;
  for (std::string line; std::getline(help, line);) {
    if (!line.starts_with("  --")) continue;
    std::string name = line.substr(3, line.find(' ', 3) - 3);  // Fl writes the first dash
    for (size_t at = 0; (at = name.find('-', at)) != name.npos; at += 2) name.replace(at, 1, "\\-");
    EXPECT_THAT(page, HasSubstr(" Fl \"" + name + "\"")) << line;
    ++options;
  }
  EXPECT_GT(options, 70);
  EXPECT_THAT(binade("man").out, HasSubstr(".Xr binade-train 1 ."));
  EXPECT_THAT(binade("man launch").out, HasSubstr("\n.Ar \"train|reproduce ...\"\n"));
  EXPECT_EQ(binade("man trian").status, 2);
}

TEST(ManPage, IsWellFormed) {
  if (run_shell("command -v mandoc").status != 0) GTEST_SKIP() << "there is no mandoc";
  for (const char* command :
       {"", "train", "launch", "bench step", "tokenize train", "plan", "lab"}) {
    const testing::TemporaryFolder folder;
    const auto page = folder.put("page.1", binade("man " + std::string(command)).out);
    const Outcome lint = run_shell("mandoc -T lint -W warning " + quoted(page.string()));
    EXPECT_EQ(lint.out, "") << command;
  }
}

}  // namespace
}  // namespace binade::cli
