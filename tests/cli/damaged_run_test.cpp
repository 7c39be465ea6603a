// Every file of a run's folder, damaged in every way, under every command that reads it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "cli/command.h"
#include "io/temporary_folder.h"

namespace binade::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using testing::content_of;
using ::testing::HasSubstr;
using ::testing::Not;

struct Damage {
  const char* name;
  void (*apply)(const fs::path& file);
};

void write(const fs::path& file, const std::string& content) {
  std::ofstream(file, std::ios::binary) << content;
}

const Damage damages[] = {
    {"a flipped bit",
     [](const fs::path& file) {
       std::string content = content_of(file);
       if (!content.empty()) content[content.size() / 2] ^= 4;
       write(file, content);
     }},
    {"half of it",
     [](const fs::path& file) {
       const std::string content = content_of(file);
       write(file, content.substr(0, content.size() / 2));
     }},
    {"nothing in it", [](const fs::path& file) { write(file, ""); }},
    {"garbage",
     [](const fs::path& file) {
       std::string garbage;
       for (int i = 0; i < 400; ++i) garbage += static_cast<char>(i * 77 + i / 7);
       write(file, garbage + "\n" + garbage + "\n");
     }},
    {"no file", [](const fs::path& file) { fs::remove(file); }},
};

// A run of 6 steps with everything that a folder may hold, and what commands make of it.
class Whole {
 public:
  Whole() {
    std::string text;
    for (int i = 0; i < 300; ++i)
      text += "the " + std::to_string(i * i) + "th line of a text to train on\n";
    const std::string data = folder_.put("text.txt", text).string();
    fs::create_directories(folder_ / "tokenizer");
    expect("tokenize train --data " + data + " --vocab 300 --kind byte-bpe " +
           (folder_ / "tokenizer/tokenizer.json").string());
    folder_.put("tokenizer/generation_config.json", "{\"eos_token_id\": 5}");
    folder_.put("tokenizer/tokenizer_config.json", "{}");
    expect("train --quiet --data " + data + " --tokenizer " + (folder_ / "tokenizer").string() +
           " --layers 1 --width 32 --heads 2 --context 8 --batch 2 --eval-batches 1 --eval-every 2 "
           "--sample 4 --threads 1 --precision fp8 --auto-precision --layer-stats 2 --keep-best "
           "--checkpoint-every 2 --keep 2 --schedule constant --steps 6 --out " +
           path().string());
  }

  fs::path path() const { return folder_ / "run"; }
  fs::path at(const char* name) const { return folder_ / name; }

 private:
  static void expect(const std::string& arguments) {
    const Outcome outcome = binade(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }

  testing::TemporaryFolder folder_;
};

struct Reader {
  const char* name;
  std::string (*arguments)(const std::string& run);
  // What the command makes, which damage must not change silently.
  std::string (*result)(const fs::path& run, const Outcome& outcome);
};

std::string printed(const fs::path&, const Outcome& outcome) { return outcome.out; }

const Reader readers[] = {
    {"resume",
     [](const std::string& run) { return "train --resume --quiet --steps 8 --out " + run; },
     [](const fs::path& run, const Outcome&) {
       return content_of(run / "checkpoints/step-8/model.safetensors") +
              content_of(run / "checkpoints/step-8/trainer.safetensors");
     }},
    {"eval", [](const std::string& run) { return "eval --json " + run; },
     [](const fs::path&, const Outcome& outcome) {
       return outcome.out.substr(std::min(outcome.out.find("\"tokens\""), outcome.out.size()));
     }},
    {"generate", [](const std::string& run) { return "generate --prompt the --tokens 6 " + run; },
     printed},
    {"report", [](const std::string& run) { return "report " + run; },
     [](const fs::path&, const Outcome&) { return std::string(); }},
    {"export", [](const std::string& run) { return "export --force " + run + " " + run + "-hf"; },
     [](const fs::path& run, const Outcome&) {
       return content_of(run.string() + "-hf/model.safetensors");
     }},
    {"inspect", [](const std::string& run) { return "inspect --json --only weight " + run; },
     [](const fs::path&, const Outcome&) { return std::string(); }},
};

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), folder));
  std::sort(files.begin(), files.end());
  return files;
}

class DamagedRunBase : public ::testing::TestWithParam<Reader> {
 protected:
  static const Whole& whole() {
    static const Whole one;
    return one;
  }

  // A copy of the run, damaged by `damage`, read by the command.
  struct Tried {
    Outcome outcome;
    std::string result;
  };
  Tried try_it(const std::function<void(const fs::path& run)>& damage) {
    const fs::path copy = whole().at("copy");
    fs::remove_all(copy);
    fs::remove_all(copy.string() + "-hf");
    fs::copy(whole().path(), copy, fs::copy_options::recursive);
    damage(copy);
    Tried tried{binade(GetParam().arguments(copy.string())), {}};
    tried.result = GetParam().result(copy, tried.outcome);
    return tried;
  }

  // The results of an undamaged run, and of one without its newest checkpoint.
  void SetUp() override {
    newest_ = try_it([](const fs::path&) {}).result;
    older_ = try_it([](const fs::path& run) { fs::remove_all(run / "checkpoints/step-6"); }).result;
  }

  // Never a wrong result without a word, never a crash, always a way out.
  void check(const fs::path& file, const Damage& damage) {
    SCOPED_TRACE(std::string(GetParam().name) + ", " + file.string() + ": " + damage.name);
    const Tried tried = try_it([&](const fs::path& run) { damage.apply(run / file); });
    const Outcome& outcome = tried.outcome;
    const bool resumes = std::string(GetParam().name) == "resume";
    // An edited setting may be refused; everything else of a run's folder is repaired.
    const bool may_fail = !resumes || file == "config.toml";
    EXPECT_THAT(outcome.status, may_fail ? AnyOf(0, 2) : AnyOf(0, 0)) << outcome.err;
    if (outcome.status == 2) {
      EXPECT_THAT(outcome.err, AllOf(HasSubstr("expected"), HasSubstr("; "))) << outcome.err;
      return;
    }
    const bool told = outcome.err.find(file.filename().string()) != std::string::npos;
    if (tried.result == newest_) {
      if (resumes && is_needed(file) && damage.name != std::string("a flipped bit")) {
        EXPECT_TRUE(told) << outcome.err;
      }
      return;
    }
    EXPECT_EQ(tried.result, older_) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("step-6 is passed over"));
    EXPECT_TRUE(told) << outcome.err;
  }

  // Files that resuming reads, so that it must say that they were not as expected.
  static bool is_needed(const fs::path& file) {
    const std::string name = file.string();
    return name == "config.toml" || name == "metrics.jsonl" || name == "precision_plan.json" ||
           name == "tokenizer.json" || name == "generation_config.json";
  }

  std::string newest_, older_;
};

class DamagedRun : public DamagedRunBase {};
class DamagedRunSlow : public DamagedRunBase {};

// Each file in one of the ways; other commands in others.
TEST_P(DamagedRun, IsRepairedOrSaidWithAWayOut) {
  const auto files = files_below(whole().path());
  EXPECT_GT(files.size(), 25u);
  auto at = static_cast<size_t>(GetParam().name[2]);
  for (const fs::path& file : files) {
    ++at;
    check(file, damages[at % 5]);
  }
}

TEST_P(DamagedRunSlow, IsRepairedOrSaidWithAWayOut) {
  for (const fs::path& file : files_below(whole().path()))
    for (const Damage& damage : damages) check(file, damage);
}

std::string reader_name(const ::testing::TestParamInfo<Reader>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(, DamagedRun, ::testing::ValuesIn(readers), reader_name);
INSTANTIATE_TEST_SUITE_P(, DamagedRunSlow, ::testing::ValuesIn(readers), reader_name);

TEST(ExportedRun, IsNotWrittenIntoTheRun) {
  const Whole whole;
  const std::string run = whole.path().string();
  for (const std::string& to :
       {run, run + "/", run + "/checkpoints/step-6", run + "/checkpoints/step-9", run + "/best"}) {
    const Outcome outcome = binade("export --force " + run + "/checkpoints/step-4 " + to);
    EXPECT_EQ(outcome.status, 2) << to;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("a folder of its own"), HasSubstr("run-hf"))) << to;
  }
  EXPECT_EQ(binade("export " + run + " " + run + "/hf").status, 0);
  // A model that an earlier version wrote there does not hide the checkpoints.
  const std::string before = binade("eval --json " + run).out;
  fs::copy(run + "/hf", run, fs::copy_options::recursive | fs::copy_options::skip_existing);
  write(run + "/model.safetensors", "not the newest");
  for (const char* command : {"eval --json ", "inspect --json ", "generate --prompt a "}) {
    const Outcome outcome = binade(std::string(command) + run);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("a model's files beside the run's checkpoints"));
    if (std::string(command).starts_with("eval")) {
      EXPECT_EQ(outcome.out, before);
    }
  }
}

TEST(FinishedRun, SaysHowToTrainOn) {
  const testing::TemporaryFolder folder;
  const std::string out = (folder / "run").string();
  ASSERT_EQ(
      binade("train --steps 2 --layers 1 --width 16 --heads 2 --context 8 --sample 0 --out " + out)
          .status,
      0);
  const std::string report = content_of(folder / "run/report.html");
  const Outcome outcome = binade("train --resume --out " + out);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("the run is finished, after step 2"),
                                 HasSubstr("train --resume --steps 4 --out " + out)));
  EXPECT_EQ(content_of(folder / "run/report.html"), report);
  EXPECT_EQ(binade("train --resume --steps 4 --out " + out).status, 0);
  const std::string more = content_of(folder / "run/report.html");
  EXPECT_THAT(more, AllOf(HasSubstr("train --steps 2"), HasSubstr("--resume --steps 4")));
}

}  // namespace
}  // namespace binade::cli
