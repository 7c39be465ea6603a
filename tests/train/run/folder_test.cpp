#include "binade/train/run/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "binade/io/checksum.h"
#include "binade/train/checkpoint.h"
#include "binade/train/config/component_options.h"
#include "binade/train/run/loop.h"
#include "io/temporary_folder.h"
#include "support/values.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A run of four steps with checkpoints 2 and 4.
class FinishedRun {
 public:
  FinishedRun() : config_(small_config()) {
    config_.data.source = folder_.put("text.txt", small_text()).string();
    config_.run.out = path().string();
    config_.train.steps = 4;
    config_.train.warmup = 1;
    config_.run.checkpoint_every = 2;
    config_.run.sample = 0;
    train::run(config_, Progress::Mode::quiet);
  }
  fs::path path() const { return folder_ / "run"; }
  const testing::TemporaryFolder& folder() const { return folder_; }
  Config fresh() const { return config_; }
  Config resumed() const {
    Config config = config_;
    config.run.resume = true;
    return config;
  }
  std::string error_of_run(const Config& config) const {
    return test::error_of([&] { train::run(config, Progress::Mode::quiet); });
  }

 private:
  testing::TemporaryFolder folder_;
  Config config_;
};

TEST(RunLock, NamesTheHolderAndGoesWithIt) {
  const testing::TemporaryFolder folder;
  {
    const RunLock lock(folder.path());
    EXPECT_THAT(test::error_of([&] { const RunLock second(folder.path()); }),
                AllOf(HasSubstr("process " + std::to_string(::getpid()) + " on "),
                      HasSubstr("--out " + folder.path().string())));
    folder.put(".lock", "");  // a holder that has not written its name yet
    EXPECT_THAT(test::error_of([&] { const RunLock second(folder.path()); }),
                HasSubstr("found one in use by another;"));
  }
  EXPECT_NO_THROW(RunLock(folder.path()));
  EXPECT_EQ(testing::content_of(folder / ".lock"), "");
}

// Its other names are of no concern to the run.
TEST(RunLock, WritesNoFileWithOtherNames) {
  const testing::TemporaryFolder folder;
  folder.put("precious", "precious");
  fs::create_directory(folder / "run");
  fs::create_hard_link(folder / "precious", folder / "run/.lock");
  {
    const RunLock lock(folder / "run");
    EXPECT_THAT(test::error_of([&] { const RunLock second(folder / "run"); }), HasSubstr("in use"));
  }
  EXPECT_EQ(testing::content_of(folder / "precious"), "precious");
}

Config config_for(const fs::path& out) {
  Config config;
  config.run.out = out.string();
  return config;
}

TEST(RunFolder, AppearsWhenItsSettingsAreSaved) {
  const testing::TemporaryFolder folder;
  const fs::path out = folder / "a/run";
  RunFolder run(config_for(out));
  EXPECT_FALSE(fs::exists(out));
  run.put_in_place([&](const fs::path& name) {
    EXPECT_EQ(name, out);
    EXPECT_FALSE(fs::exists(out));
    run.note_checkpoint(-1);
  });
  EXPECT_TRUE(fs::exists(out / "run.json"));
  EXPECT_EQ(run.path().string(), out.string());
  EXPECT_TRUE(run.is_ours());
  EXPECT_FALSE(run.was_renamed());
  EXPECT_THAT(test::error_of([&] { RunFolder(config_for(out)); }), HasSubstr("--resume"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "a"), fs::directory_iterator()), 1);
}

TEST(RunFolder, TakesNoNameThatSomeoneElseHasTaken) {
  const testing::TemporaryFolder folder;
  const fs::path out = folder / "run";
  RunFolder first(config_for(out)), second(config_for(out));
  first.put_in_place([&](const fs::path&) { first.note_checkpoint(-1); });
  EXPECT_THAT(test::error_of([&] {
                second.put_in_place([&](const fs::path&) { second.note_checkpoint(-1); });
              }),
              AllOf(HasSubstr("a new folder"), HasSubstr("name another")));
  EXPECT_THAT(testing::content_of(out / "run.json"), HasSubstr(first.run_id()));
}

TEST(RunFolder, KnowsWhetherItIsStillItsOwn) {
  const testing::TemporaryFolder folder;
  const fs::path out = folder / "run", moved = folder / "moved";
  RunFolder run(config_for(out));
  run.put_in_place([&](const fs::path&) { run.note_checkpoint(-1); });
  fs::rename(out, moved);
  EXPECT_TRUE(run.is_ours());
  EXPECT_TRUE(run.was_renamed());
  EXPECT_FALSE(run.was_renamed());
  EXPECT_EQ(run.path().string(), moved.string());
  // A lock that is gone is taken again, unless someone else has it.
  fs::remove(moved / ".lock");
  EXPECT_TRUE(run.is_ours());
  EXPECT_TRUE(fs::exists(moved / ".lock"));
  fs::remove(moved / ".lock");
  {
    const RunLock other(moved);
    EXPECT_FALSE(run.is_ours());
  }
  EXPECT_TRUE(run.is_ours());
  fs::remove(moved / "run.json");
  EXPECT_FALSE(run.is_ours());
  run.replace();
  EXPECT_EQ(run.path().string(), moved.string() + "-2");
  run.note_checkpoint(-1);
  EXPECT_TRUE(run.is_ours());
  fs::remove_all(run.path().plain());
  EXPECT_FALSE(run.is_ours());
  run.replace();
  EXPECT_EQ(run.path().string(), moved.string() + "-2");
}

// Relative names, with and without a folder that is gone, too.
TEST(RunFolder, IsReplacedUnderARelativeName) {
  const testing::TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  for (const char* name : {"run", "runs/deep/run"}) {
    RunFolder run(config_for(name));
    run.put_in_place([&](const fs::path&) { run.note_checkpoint(-1); });
    fs::remove_all(folder / std::string(*fs::path(name).begin()));
    EXPECT_FALSE(run.is_ours());
    run.replace();
    EXPECT_TRUE(fs::is_directory(folder / name)) << name;
    EXPECT_EQ(run.path().string(), name);
  }
  fs::current_path(before);
}

TEST(RunFolder, RefusesLinksUnderItsNames) {
  const FinishedRun run;
  const fs::path outside = run.folder().put("outside", "precious");
  for (const char* name : {".lock", "run.json", "metrics.csv", "tb/link", "checkpoints/step-4/link",
                           "chat_template.jinja"}) {
    SCOPED_TRACE(name);
    const fs::path link = run.path() / name, kept = run.folder() / "kept";
    if (fs::exists(link)) fs::rename(link, kept);
    fs::create_symlink(outside, link);
    EXPECT_THAT(run.error_of_run(run.resumed()),
                AllOf(HasSubstr(link.string()), HasSubstr("found a link to " + outside.string())));
    fs::remove(link);
    if (fs::exists(kept)) fs::rename(kept, link);
  }
  // Of no concern to the run.
  fs::create_symlink(outside, run.path() / "notes");
  EXPECT_EQ(run.error_of_run(run.resumed()), "");
  EXPECT_EQ(testing::content_of(outside), "precious");
}

TEST(RunFolder, ANewRunLeavesCheckpointsOfAnotherAlone) {
  const FinishedRun run;
  for (const char* file : {"metrics.jsonl", "run.json"}) {
    fs::remove(run.path() / file);
    EXPECT_THAT(run.error_of_run(run.fresh()),
                AllOf(HasSubstr("expected a new folder"), HasSubstr("--resume")));
  }
  EXPECT_THAT(run.error_of_run(run.fresh()), HasSubstr("step-4"));
  EXPECT_EQ(list_checkpoints(run.path() / "checkpoints").size(), 2u);
}

TEST(RunFolder, ResumesARunWithoutItsFile) {
  const FinishedRun run;
  const std::string id = read_origin(run.path() / "checkpoints/step-4").run;
  fs::remove(run.path() / "run.json");
  const RunFolder folder(run.resumed());
  EXPECT_EQ(folder.run_id(), id);
  EXPECT_EQ(folder.resumed()->step, 4);
}

TEST(RunFolder, RefusesTheCheckpointOfAnotherRun) {
  const FinishedRun run, other;
  fs::remove_all(run.path() / "checkpoints/step-2");
  fs::copy(other.path() / "checkpoints/step-2", run.path() / "checkpoints/step-2",
           fs::copy_options::recursive);
  EXPECT_THAT(run.error_of_run(run.resumed()),
              AllOf(HasSubstr("step-2"), HasSubstr("a checkpoint of run ")));
}

TEST(RunFolder, TellsThatTheNewestCheckpointIsMissing) {
  const FinishedRun run;
  EXPECT_THAT(RunFolder(run.resumed()).warnings(), IsEmpty());
  fs::remove_all(run.path() / "checkpoints/step-4");
  const RunFolder folder(run.resumed());
  EXPECT_THAT(folder.warnings(),
              ::testing::ElementsAre("step-4 is missing: continuing from step-2"));
}

TEST(RunFolder, StartsOverOnlyIfAsked) {
  const FinishedRun run;
  fs::remove_all(run.path() / "checkpoints");
  const std::string log = testing::content_of(run.path() / "metrics.jsonl");
  for (const bool known : {true, false}) {
    if (!known) fs::remove(run.path() / "run.json");
    EXPECT_THAT(run.error_of_run(run.resumed()),
                AllOf(HasSubstr("none, though steps were logged"), HasSubstr("--start-over")));
    EXPECT_EQ(testing::content_of(run.path() / "metrics.jsonl"), log);
  }
  Config config = run.resumed();
  config.run.start_over = true;
  EXPECT_EQ(train::run(config, Progress::Mode::quiet).steps, 4);
}

// Nothing was saved yet, so nothing is lost.
TEST(RunFolder, ARunKilledBeforeItsFirstCheckpointStartsOver) {
  const FinishedRun run;
  fs::remove_all(run.path() / "checkpoints");
  {
    RunFolder folder([&] {
      Config config = run.resumed();
      config.run.start_over = true;
      return config;
    }());
    folder.note_checkpoint(-1);
  }
  EXPECT_EQ(run.error_of_run(run.resumed()), "");
}

TEST(RunFolder, KeepsTheArrangementWithTheRun) {
  const FinishedRun run;
  const Arrangement some{.activations = {.kept = 3, .lean = 2}, .peak = 7, .budget = 11};
  {
    RunFolder folder(run.resumed());
    folder.note_arrangement(some);
    folder.note_checkpoint(4);
  }
  EXPECT_EQ(read_run_file(run.path())->arrangement, some);
  RunFolder(run.resumed()).note_checkpoint(4);
  EXPECT_EQ(read_run_file(run.path())->arrangement, some);
  {
    RunFolder folder(run.resumed());
    folder.note_arrangement(std::nullopt);
    folder.note_checkpoint(4);
  }
  EXPECT_EQ(read_run_file(run.path())->arrangement, std::nullopt);
}

// Its checkpoints say what it said.
TEST(RunFolder, WritesADamagedRunFileAnew) {
  const FinishedRun run;
  const std::string good = testing::content_of(run.path() / "run.json");
  std::string flipped = good;
  flipped[good.find("\"run\": \"") + 9] ^= 1;  // another id, of the same form
  const std::pair<std::string, const char*> table[] = {
      {"", "unexpected end"},
      {"{\"format\":\"zip\"}", "binade-run"},
      {"{\"format\":\"binade-run\",\"version\":1,\"run\":7}", "a string"},
      {"{\"format\":\"binade-run\",\"version\":1,\"run\":\"\",\"checkpoint\":-1,\"memory\":{"
       "\"activations\":\"most\",\"forecast\":1,\"available\":1}}",
       "what blocks keep"},
      {flipped, "checksum"}};
  for (const auto& [text, message] : table) {
    SCOPED_TRACE(text);
    std::ofstream(run.path() / "run.json") << text;
    RunFolder folder(run.resumed());
    EXPECT_THAT(folder.warnings(),
                ::testing::ElementsAre(AllOf(HasSubstr("run.json"), HasSubstr(message)),
                                       HasSubstr("run.json.damaged")));
    EXPECT_EQ(folder.resumed()->step, 4);
    EXPECT_EQ(folder.run_id(), read_origin(run.path() / "checkpoints/step-4").run);
    folder.note_checkpoint(4);
    EXPECT_NO_THROW(read_run_file(run.path()));
  }
  EXPECT_EQ(testing::content_of(run.path() / "run.json.damaged-5"), flipped);
}

// Undamaged, but of another version of Binade: nothing is passed over or renamed.
TEST(RunFolder, RefusesFilesOfALaterVersion) {
  const FinishedRun run;
  for (const char* name : {"run.json", "checkpoints/step-4/manifest.json"}) {
    const std::string good = testing::content_of(run.path() / name);
    std::string later = good.substr(0, good.rfind(",")) + "\n}\n";
    later.replace(later.find("\"version\": 1"), 12, "\"version\": 2");
    std::ofstream(run.path() / name) << io::with_checksum(later) << "\n";
    EXPECT_THAT(run.error_of_run(run.resumed()),
                AllOf(HasSubstr(name), HasSubstr("version 1"), HasSubstr("the version of Binade")));
    EXPECT_TRUE(fs::exists(run.path() / name));
    std::ofstream(run.path() / name) << good;
  }
}

TEST(RunFolder, TakesTheNewestUndamagedCheckpoint) {
  const FinishedRun run;
  Config config = run.resumed();
  config.train.steps = 6;
  fs::copy(run.path(), run.folder() / "whole", fs::copy_options::recursive);
  config.run.out = (run.folder() / "whole").string();
  const RunResult whole = train::run(config, Progress::Mode::quiet);
  const std::string expected = testing::content_of(whole.checkpoint / "model.safetensors");
  // A damaged older one blocks nothing.
  std::ofstream(run.path() / "checkpoints/step-2/manifest.json") << "{";
  EXPECT_EQ(RunFolder(run.resumed()).resumed()->step, 4);
  // With keep 1, a damaged newest one would be kept instead of a good one.
  fs::remove_all(run.path());
  fs::copy(run.folder() / "whole", run.path(), fs::copy_options::recursive);
  fs::remove(run.path() / "checkpoints/step-6/trainer.safetensors");
  config.run.out = run.path().string();
  config.run.keep = 1;
  {
    const RunFolder folder(config);
    EXPECT_EQ(folder.resumed()->step, 4);
    EXPECT_THAT(folder.warnings(), ::testing::ElementsAre(AllOf(HasSubstr("step-6 is passed over"),
                                                                HasSubstr("trainer.safetensors")),
                                                          HasSubstr("step-6.damaged")));
  }
  config.run.checkpoint_every = 1;
  config.train.steps = 6;
  const RunResult again = train::run(config, Progress::Mode::quiet);
  EXPECT_EQ(testing::content_of(again.checkpoint / "model.safetensors"), expected);
  EXPECT_TRUE(fs::exists(run.path() / "checkpoints/step-6.damaged/model.safetensors"));
}

TEST(RunFolder, SaysThatEveryCheckpointIsDamaged) {
  const FinishedRun run;
  for (const char* step : {"step-2", "step-4"})
    std::ofstream(run.path() / "checkpoints" / step / "model.safetensors") << "x";
  EXPECT_THAT(run.error_of_run(run.resumed()),
              AllOf(HasSubstr("an undamaged checkpoint"), HasSubstr("model.safetensors"),
                    HasSubstr("--start-over")));
  Config config = run.resumed();
  config.run.start_over = true;
  EXPECT_EQ(train::run(config, Progress::Mode::quiet).steps, 4);
  EXPECT_TRUE(fs::exists(run.path() / "checkpoints/step-4.damaged"));
}

TEST(RunFolder, RunsInOneFolderShareEncodedTexts) {
  Config config;
  EXPECT_EQ(token_cache(config), "runs/.tokens");
  for (const char* out : {"some/where/run", "some/where/run/"}) {
    config.run.out = out;
    EXPECT_EQ(token_cache(config), "some/where/.tokens");
  }
  config.run.out = "run";
  EXPECT_EQ(token_cache(config), ".tokens");
  // Not in the run's own folder.
  config.run.out = ".";
  EXPECT_EQ(token_cache(config), fs::current_path().parent_path() / ".tokens");
}

}  // namespace
}  // namespace binade::train
