#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>

#include "binade/base/error.h"
#include "binade/data/chat/chat_template.h"
#include "binade/data/token_file.h"
#include "binade/data/tokenizer.h"
#include "binade/io/huggingface.h"
#include "binade/train/checkpoint.h"
#include "binade/train/hash/reproduction.h"
#include "cli/command.h"
#include "io/temporary_folder.h"
#include "support/paths.h"
#include "train/small_run.h"

// Opens the bad files (made by make.py) through the library and the command line: one message that
// names the file, expected and found; exit code 2; saved files are unchanged.
namespace binade {
namespace {

namespace fs = std::filesystem;
using cli::quoted;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

const fs::path bad_files = test::source_dir() / "tests/bad_files";
constexpr int64_t vocab = 100, batch_ids = 17;  // of the token files

struct Case {
  fs::path file;
  std::vector<std::string> parts;
};

std::vector<Case> cases(const std::string& kind) {
  std::vector<Case> result;
  std::ifstream table(bad_files / "expected.tsv");
  for (std::string line; std::getline(table, line);) {
    std::vector<std::string> cells;
    std::istringstream stream(line);
    for (std::string cell; std::getline(stream, cell, '\t');) cells.push_back(cell);
    if (cells.at(0).starts_with(kind + "/"))
      result.push_back({bad_files / cells[0], {cells.begin() + 1, cells.end()}});
  }
  return result;
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

void expect_message(const std::string& message, const std::string& file, const Case& bad) {
  EXPECT_THAT(message, HasSubstr(file)) << bad.file;
  EXPECT_THAT(message, ::testing::AllOf(HasSubstr("expected "), HasSubstr(", found "))) << bad.file;
  for (const std::string& part : bad.parts) EXPECT_THAT(message, HasSubstr(part)) << bad.file;
  EXPECT_LT(message.size(), 700u) << bad.file;
  // The message contains no control characters, whatever is in the file.
  const auto obeyed = [](unsigned char c) { return (c < 0x20 && c != '\n') || c == 0x7F; };
  EXPECT_TRUE(std::none_of(message.begin(), message.end(), obeyed)) << bad.file;
}

std::map<std::string, std::string> content_of_all(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files[entry.path().string()] = testing::content_of(entry.path());
  }
  return files;
}

// Runs the program on the files in `folder`: one line with the expected parts, no file changed.
void expect_refused(const std::string& arguments, const fs::path& folder, const std::string& file,
                    const Case& bad, const std::string& before = {}) {
  const auto saved = content_of_all(folder);
  const cli::Outcome outcome = cli::run_shell(before + quoted(BINADE_EXECUTABLE) + " " + arguments);
  EXPECT_EQ(outcome.status, 2) << bad.file << "\n" << outcome.err;
  expect_message(outcome.err, file, bad);
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_TRUE(content_of_all(folder) == saved) << bad.file;
}

void put_copy(const fs::path& from, const fs::path& to) {
  fs::copy_file(from, to, fs::copy_options::overwrite_existing);
}

// A folder with a valid model of one layer, in which a case replaces a file.
class ModelFolder {
 public:
  ModelFolder() {
    train::Config config = train::small_config();
    config.model.layers = 1;
    io::save_pretrained(nn::LanguageModel(train::model_config(config)), path());
  }
  fs::path path() const { return folder_ / "model"; }
  std::string generate() const { return "generate " + quoted(path().string()) + " --tokens 1"; }

 private:
  TemporaryFolder folder_;
};

TEST(BadFiles, ThereAreEnough) {
  int64_t lines = 0;
  std::ifstream table(bad_files / "expected.tsv");
  for (std::string line; std::getline(table, line);) ++lines;
  EXPECT_GE(lines, 400);
  EXPECT_EQ(cli::run_shell(quoted(BINADE_EXECUTABLE) + " " + ModelFolder().generate()).status, 0);
}

// A file is a model with its tokenizer.
TEST(BadFiles, Gguf) {
  const TemporaryFolder folder;
  const fs::path target = folder.path() / "model.gguf";
  const auto open = [](const fs::path& file) {
    return refusal([&] {
      const auto model = io::load_pretrained(file);
      data::tokenizer_of(file, model->config().vocab);
    });
  };
  for (const Case& bad : cases("gguf")) {
    expect_message(open(bad.file), bad.file.string(), bad);
    put_copy(bad.file, target);
    expect_refused("generate " + quoted(target.string()) + " --tokens 1", folder.path(),
                   target.string(), bad);
  }
}

TEST(BadFiles, Safetensors) {
  const ModelFolder model;
  const fs::path target = model.path() / "model.safetensors";
  for (const Case& bad : cases("safetensors")) {
    expect_message(refusal([&] { io::load_safetensors(bad.file); }), bad.file.string(), bad);
    put_copy(bad.file, target);
    expect_refused(model.generate(), model.path(), target.string(), bad);
  }
}

TEST(BadFiles, Indices) {
  const ModelFolder model;
  const fs::path target = model.path() / "model.safetensors.index.json";
  fs::rename(model.path() / "model.safetensors", model.path() / "one.safetensors");
  for (const Case& bad : cases("index")) {
    put_copy(bad.file, target);
    // An index names a shard, and the message may name either.
    expect_message(refusal([&] { io::TensorStore store(target); }), model.path().string(), bad);
    expect_refused(model.generate(), model.path(), model.path().string(), bad);
  }
}

TEST(BadFiles, ModelConfigurations) {
  const ModelFolder model;
  const fs::path target = model.path() / "config.json";
  for (const Case& bad : cases("config")) {
    expect_message(refusal([&] { io::read_config(bad.file); }), bad.file.string(), bad);
    put_copy(bad.file, target);
    expect_refused(model.generate(), model.path(), target.string(), bad);
  }
}

TEST(BadFiles, TokenFiles) {
  const TemporaryFolder folder;
  for (const Case& bad : cases("tokens")) {
    const auto read = [&] { data::read_token_file(bad.file, vocab, batch_ids); };
    expect_message(refusal(read), bad.file.string(), bad);
    expect_refused(
        "train --quiet --steps 1 --layers 1 --width 8 --heads 2 --batch 2 --context 8 "
        "--vocab 100 --data " +
            quoted(bad.file.string()) + " --out " + quoted((folder / "run").string()),
        folder.path(), bad.file.string(), bad);
    EXPECT_FALSE(fs::exists(folder / "run")) << bad.file;
  }
}

TEST(BadFiles, Configurations) {
  const TemporaryFolder folder;
  for (const Case& bad : cases("toml")) {
    const std::string message = refusal([&] { train::resolve({bad.file, {}}); });
    // Errors that depend on several keys name the keys, not a line of the file.
    const std::string name =
        message.find(bad.file.string()) == std::string::npos ? "" : bad.file.string();
    expect_message(message, name, bad);
    expect_refused("train " + quoted(bad.file.string()) + " --quiet --out " +
                       quoted((folder / "run").string()),
                   folder.path(), name, bad);
    EXPECT_FALSE(fs::exists(folder / "run")) << bad.file;
  }
}

TEST(BadFiles, Reproductions) {
  const TemporaryFolder folder;
  for (const Case& bad : cases("reproduction")) {
    expect_message(refusal([&] { train::read_reproduction(bad.file); }), bad.file.string(), bad);
    expect_refused(
        "reproduce " + quoted(bad.file.string()) + " --out " + quoted((folder / "run").string()),
        folder.path(), bad.file.string(), bad);
    EXPECT_FALSE(fs::exists(folder / "run")) << bad.file;
  }
}

TEST(BadFiles, PrecisionPlans) {
  const TemporaryFolder folder;
  train::Config config = train::small_config("fp8");
  config.model.layers = 1;
  for (const Case& bad : cases("plan")) {
    config.precision.plan = bad.file.string();
    expect_message(refusal([&] { const train::Trainer trainer(config); }), bad.file.string(), bad);
    expect_refused(
        "train --quiet --steps 1 --layers 1 --width 8 --heads 2 --batch 2 --context 8 "
        "--precision fp8 --precision-plan " +
            quoted(bad.file.string()) + " --out " + quoted((folder / "run").string()),
        folder.path(), bad.file.string(), bad);
    EXPECT_FALSE(fs::exists(folder / "run")) << bad.file;
  }
}

// Opens a tokenizer and puts a text through it: what a file does to texts may be refused, too.
void walk_tokenizers(const std::string& kind) {
  const TemporaryFolder folder;
  for (const Case& bad : cases(kind)) {
    const auto use = [&] { data::open_tokenizer(bad.file.string())->encode("a"); };
    const std::string message = refusal(use);
    const std::string name =
        message.find(bad.file.string()) == std::string::npos ? "" : bad.file.string();
    expect_message(message, name, bad);
    expect_refused("tokenize apply " + quoted(bad.file.string()) + " builtin " +
                       quoted((folder / "out.bin").string()),
                   folder.path(), name, bad);
  }
}

TEST(BadFiles, Tokenizers) { walk_tokenizers("tokenizer"); }

TEST(BadFiles, TokenizerJsons) { walk_tokenizers("tokenizer_json"); }

// The template is beside a model; what it does to a conversation may be refused, too.
TEST(BadFiles, ChatTemplates) {
  const ModelFolder model;
  const fs::path target = model.path() / "chat_template.jinja";
  const data::Message messages[] = {{"user", "a"}};
  for (const Case& bad : cases("chat_template")) {
    put_copy(bad.file, target);
    const auto use = [&] {
      data::render_prompt(*data::read_chat_template(model.path()), messages, "a chat",
                          data::training_date());
    };
    expect_message(refusal(use), target.string(), bad);
    expect_refused(model.generate() + " --chat --prompt a", model.path(), target.string(), bad);
  }
}

// A run with two checkpoints, to be resumed.
class RunFolder {
 public:
  RunFolder() {
    const cli::Outcome outcome = cli::run_shell(
        quoted(BINADE_EXECUTABLE) +
        " train --quiet --layers 1 --width 8 --heads 2 --context 8 --batch 2 --steps 2 "
        "--checkpoint-every 1 --eval-batches 1 --sample 0 --precision fp32 --out " +
        quoted(path().string()));
    if (outcome.status != 0) throw std::runtime_error(outcome.err);
  }
  fs::path path() const { return folder_ / "run"; }
  fs::path checkpoint() const { return path() / "checkpoints/step-2"; }
  // Reads the newest checkpoint; resuming would pass over a damaged one.
  std::string inspect() const { return "inspect " + quoted(checkpoint().string()); }
  std::string resume(const std::string& more = "--steps 3") const {
    return "train --quiet --resume " + more + " --out " + quoted(path().string());
  }

 private:
  TemporaryFolder folder_;
};

TEST(BadFiles, Manifests) {
  const RunFolder run;
  const fs::path target = run.checkpoint() / "manifest.json";
  for (const Case& bad : cases("manifest")) {
    put_copy(bad.file, target);
    const std::string folder = run.checkpoint().string();  // of the manifest or a file it names
    expect_message(refusal([&] { train::verify_checkpoint(run.checkpoint()); }), folder, bad);
    expect_refused(run.inspect(), run.path(), folder, bad);
  }
}

void append(const fs::path& file, std::string_view text) {
  std::ofstream(file, std::ios::binary | std::ios::app) << text;
}

void flip_last_byte(const fs::path& file) {
  std::string bytes = testing::content_of(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(file, std::ios::binary) << bytes;
}

TEST(BadFiles, DamagedCheckpoints) {
  struct Damage {
    const char* file;
    std::function<void(const fs::path&)> make;
    std::vector<std::string> parts;
  };
  const auto remove = [](const fs::path& file) { fs::remove(file); };
  const auto cut = [](const fs::path& file) { fs::resize_file(file, 10); };
  const auto grow = [](const fs::path& file) { append(file, "x"); };
  const Damage table[] = {
      {"model.safetensors", remove, {"bytes, found No such file", "damaged"}},
      {"trainer.safetensors", remove, {"bytes, found No such file", "damaged"}},
      {"config.json", remove, {"bytes, found No such file", "damaged"}},
      {"config.toml", remove, {"bytes, found No such file", "damaged"}},
      {"model.safetensors", cut, {"bytes, found 10", "damaged"}},
      {"trainer.safetensors", cut, {"bytes, found 10", "damaged"}},
      {"config.json", cut, {"bytes, found 10", "damaged"}},
      {"model.safetensors", grow, {"bytes, found", "damaged"}},
      {"trainer.safetensors", grow, {"bytes, found", "damaged"}},
      {"model.safetensors", flip_last_byte, {"XXH3", "damaged"}},
      {"trainer.safetensors", flip_last_byte, {"XXH3", "damaged"}},
      {"config.json", flip_last_byte, {"XXH3", "damaged"}},
      {"config.toml", flip_last_byte, {"XXH3", "damaged"}},
  };
  const RunFolder run;
  const auto good = content_of_all(run.checkpoint());
  for (const Damage& damage : table) {
    const fs::path file = run.checkpoint() / damage.file;
    damage.make(file);
    const Case bad{file, damage.parts};
    expect_message(refusal([&] { train::verify_checkpoint(run.checkpoint()); }), file.string(),
                   bad);
    expect_refused(run.inspect(), run.path(), file.string(), bad);
    for (const auto& [name, content] : good) std::ofstream(name, std::ios::binary) << content;
  }
  EXPECT_EQ(cli::run_shell(quoted(BINADE_EXECUTABLE) + " " + run.resume()).status, 0);
}

TEST(BadFiles, ResumeWithAnotherModel) {
  const RunFolder run;
  const std::string checkpoint = run.checkpoint().string();
  const std::pair<const char*, const char*> table[] = {
      {"--layers 2", "layers: expected 1, with which"},
      {"--heads 4 --kv-heads 4", "heads, kv-heads: expected heads 2, kv-heads 2, with which"},
      {"--context 16", "context: expected 8, with which"},
      {"--vocab 300", "vocab: expected 256, with which"},
      {"--hidden 96", "hidden: expected 64, with which"},
  };
  for (const auto& [options, message] : table)
    expect_refused(run.resume(options), run.path(), checkpoint, {options, {message}});
}

// A limit on file sizes simulates a full disk: the same calls fail.
TEST(BadFiles, AFullDiskLeavesTheEarlierCheckpoints) {
  const RunFolder run;
  const auto saved = content_of_all(run.path() / "checkpoints");
  const cli::Outcome outcome = cli::run_shell("trap '' XFSZ; ulimit -f 8; " +
                                              quoted(BINADE_EXECUTABLE) + " " + run.resume());
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_THAT(outcome.err, ::testing::AllOf(HasSubstr(".safetensors"), HasSubstr("File too large"),
                                            HasSubstr("free space")));
  // A warning about the number of steps comes first.
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 2) << outcome.err;
  EXPECT_TRUE(content_of_all(run.path() / "checkpoints") == saved);
  // Without the limit the run continues.
  EXPECT_EQ(cli::run_shell(quoted(BINADE_EXECUTABLE) + " " + run.resume()).status, 0);
}

TEST(BadFiles, AReadOnlyFolder) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  const RunFolder run;
  const fs::path checkpoints = run.path() / "checkpoints";
  fs::permissions(checkpoints, fs::perms::owner_read | fs::perms::owner_exec);
  expect_refused(run.resume(), checkpoints, checkpoints.string(),
                 {checkpoints, {"a folder to write to, found Permission denied"}});
  fs::permissions(checkpoints, fs::perms::owner_all);
}

}  // namespace
}  // namespace binade
