#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "binade/data/tokenizer.h"
#include "binade/io/huggingface.h"
#include "binade/nn/language_model.h"
#include "cli/command.h"
#include "document_programs.h"
#include "io/temporary_folder.h"
#include "support/paths.h"
#include "support/pattern.h"

// Runs the programs and commands of docs/ from the documents' own text, so that they stay true.
namespace binade::docs {
namespace {

using document_programs::Program;
using document_programs::programs;
using testing::content_of;
using testing::TemporaryFolder;

const std::filesystem::path documents = test::source_dir() / "docs";

// The lines of all blocks of the language in a document.
std::vector<std::string> lines_in_blocks(const std::string& document, const std::string& language) {
  std::vector<std::string> lines;
  std::istringstream text(content_of(documents / document));
  bool inside = false;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("```")) {
      inside = !inside && line == "```" + language;
    } else if (inside && !line.empty()) {
      lines.push_back(line);
    }
  }
  return lines;
}

// Options that make a command of the tutorial fast.
std::string small_settings(const std::string& command) {
  const bool trains = command.starts_with("train"), compares = command.starts_with("compare");
  if ((!trains && !compares) || command.find("--resume") != std::string::npos) return "";
  std::string options = " --steps 4 --eval-batches 1";
  if (command.find("--batch") == std::string::npos) options += " --batch 2";
  if (trains) options += " --sample 8";
  // A model that exists has its sizes.
  if (command.find("--init-from") == std::string::npos &&
      command.find("--lora-adapter") == std::string::npos)
    options += " --layers 1 --width 32 --heads 2 --context 32";
  return options;
}

TEST(Tutorial, ProgramsRun) {
  ASSERT_GE(std::size(programs), 6u);
  for (const Program& program : programs) EXPECT_EQ(program.main(), 0) << program.name;
}

// Runs the commands of a document's shell blocks in a folder.
void run_commands(const std::string& document, const std::filesystem::path& folder) {
  const std::vector<std::string> lines = lines_in_blocks(document, "sh");
  ASSERT_GE(lines.size(), 10u);
  const std::string start = "./binade ";
  for (const std::string& line : lines) {
    ASSERT_TRUE(line.starts_with(start)) << line;
    const std::string command = line.substr(start.size());
    const cli::Outcome outcome = cli::run_shell(
        fmt::format("cd {} && OMP_WAIT_POLICY=passive {} {}{}", cli::quoted(folder.string()),
                    cli::quoted(BINADE_EXECUTABLE), command, small_settings(command)));
    ASSERT_EQ(outcome.status, 0) << line << "\n" << outcome.err;
  }
}

TEST(Tutorial, CommandsRunInTheirOrder) {
  const TemporaryFolder folder;
  run_commands("tutorial.md", folder.path());
  for (const char* page :
       {"runs/first/report.html", "two-runs.html", "runs/precisions/compare.html"})
    EXPECT_TRUE(std::filesystem::exists(folder / page)) << page;
}

// A chat model as it is downloaded: weights, a tokenizer and a chat template.
void make_model(const std::filesystem::path& folder) {
  const auto tokenizer = testing::golden("chat/byte_level.json");
  io::save_pretrained(nn::Llama({.layers = 2,
                                 .width = 32,
                                 .heads = 2,
                                 .hidden = 64,
                                 .vocab = data::open_tokenizer(tokenizer.string())->vocab(),
                                 .context = 128}),
                      folder);
  std::filesystem::copy_file(tokenizer, folder / "tokenizer.json");
  std::ofstream(folder / "tokenizer_config.json")
      << R"({"tokenizer_class": "PreTrainedTokenizerFast", "chat_template":)"
      << R"( "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n)"
      << R"({% endfor %}"})";
}

TEST(FineTuningSlow, CommandsRunInTheirOrder) {
  const TemporaryFolder folder;
  make_model(folder / "model");
  std::string book, chat, pairs;
  for (int i = 0; i < 60; ++i) {
    book += fmt::format("Chapter {}: {} times {} is {}.\n", i, i, i, i * i);
    chat += fmt::format(R"({{"messages": [{{"role": "user", "content": "{0} x {0}?"}}, )"
                        R"({{"role": "assistant", "content": "{1}"}}]}})"
                        "\n",
                        i, i * i);
    pairs += fmt::format(R"({{"prompt": "{0} x {0}?", "chosen": "{1}", "rejected": "{2}"}})"
                         "\n",
                         i, i * i, i * i + 2);
  }
  folder.put("pairs.jsonl", pairs);
  folder.put("book.txt", book);
  folder.put("chat.jsonl", chat);
  run_commands("fine-tuning.md", folder.path());
  for (const char* file : {"book-model/model.safetensors", "chat-model/model.safetensors",
                           "chat-model/tokenizer.json", "chat-adapter/adapter_model.safetensors",
                           "merged/model.safetensors", "runs/chat/best/adapter_config.json"})
    EXPECT_TRUE(std::filesystem::exists(folder / file)) << file;
}

// Every message that the page explains is in the sources, word by word.
TEST(Troubleshooting, MessagesExist) {
  std::string sources;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(test::source_dir() / "src/binade")) {
    if (entry.path().extension() == ".cpp") sources += content_of(entry.path());
  }
  const std::string page = content_of(documents / "troubleshooting.md");
  const auto rows = test::Pattern("\\n\\| `([^`]+)` \\|").find_all(page);
  EXPECT_GT(rows.size(), 20u);
  for (const auto& row : rows) EXPECT_NE(sources.find(row[1]), std::string::npos) << row[1];
}

}  // namespace
}  // namespace binade::docs
