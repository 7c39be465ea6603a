#include "binade/train/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/io/huggingface.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "io/temporary_folder.h"
#include "support/values.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> steps_in(const fs::path& folder) {
  std::vector<int64_t> steps;
  for (const Checkpoint& checkpoint : list_checkpoints(folder)) steps.push_back(checkpoint.step);
  return steps;
}

TEST(Checkpoint, HoldsAModelAndAManifestOfItsFiles) {
  const testing::TemporaryFolder folder;
  Trainer trainer(small_config());
  trainer.step(small_tokens());
  const fs::path saved = save_checkpoint(trainer, folder.path(), 2);
  EXPECT_EQ(saved, folder / "step-1");
  EXPECT_EQ(io::load_pretrained(saved)->parameter_count(), trainer.model().parameter_count());
  const json::Document parsed = json::parse(testing::content_of(saved / "manifest.json"), {});
  const json::Value& manifest = parsed.root();
  EXPECT_EQ(manifest.at("step").number(), 1);
  for (const auto& entry : fs::directory_iterator(saved)) {
    const std::string name = entry.path().filename().string();
    if (name == "manifest.json") continue;
    EXPECT_EQ(manifest.at("files").at(name).at("bytes").number(), fs::file_size(entry.path()))
        << name;
  }
  EXPECT_EQ(manifest.at("files").object().size(), 4u);
}

TEST(Checkpoint, KeepsTheNewest) {
  const testing::TemporaryFolder folder;
  Trainer trainer(small_config());
  for (int i = 0; i < 4; ++i) {
    trainer.step(small_tokens());
    save_checkpoint(trainer, folder.path(), 2);
  }
  EXPECT_THAT(steps_in(folder.path()), ElementsAre(3, 4));
}

TEST(Checkpoint, HalfWrittenOnesAreNotSeenAndCleanedUp) {
  const testing::TemporaryFolder folder;
  Trainer trainer(small_config());
  save_checkpoint(trainer, folder.path(), 2);
  fs::copy(folder / "step-0", folder / ".step-9.tmp");
  fs::create_directories(folder / "step-8");  // no manifest
  fs::create_directories(folder / "step-x");
  EXPECT_THAT(steps_in(folder.path()), ElementsAre(0));
  remove_leftovers(folder.path());
  EXPECT_FALSE(fs::exists(folder / ".step-9.tmp"));
  EXPECT_TRUE(fs::exists(folder / "step-0"));
}

TEST(Checkpoint, DamageIsFoundAndNamed) {
  const testing::TemporaryFolder folder;
  Trainer trainer(small_config());
  const fs::path saved = save_checkpoint(trainer, folder.path(), 2);
  const std::string good = testing::content_of(saved / "model.safetensors");
  std::string flipped = good;
  flipped.back() ^= 1;
  folder.put("step-0/model.safetensors", flipped);
  EXPECT_THAT(test::error_of([&] { load_checkpoint(trainer, saved); }),
              ::testing::AllOf(HasSubstr("model.safetensors"), HasSubstr("XXH3")));
  folder.put("step-0/model.safetensors", good.substr(0, 100));
  EXPECT_THAT(test::error_of([&] { load_checkpoint(trainer, saved); }), HasSubstr("found 100"));
  fs::remove(saved / "model.safetensors");
  EXPECT_THAT(test::error_of([&] { load_checkpoint(trainer, saved); }),
              HasSubstr("model.safetensors"));
  folder.put("step-0/model.safetensors", good);
  EXPECT_NO_THROW(load_checkpoint(trainer, saved));
}

TEST(Checkpoint, BadManifestsAreRefused) {
  const testing::TemporaryFolder folder;
  Trainer trainer(small_config());
  const fs::path saved = save_checkpoint(trainer, folder.path(), 2);
  const std::pair<const char*, const char*> cases[] = {
      {"", "manifest.json"},
      {"{}", "format"},
      {R"({"format":"zip","version":1,"files":{}})", "binade-checkpoint"},
      {R"({"format":"binade-checkpoint","version":2,"files":{}})", "version"},
      {R"({"format":"binade-checkpoint","version":1,"files":{}})", "config.json"},
      {R"({"format":"binade-checkpoint","version":1,"files":{"../x":{"bytes":1,"xxh3_128":""}}})",
       "a plain file name"},
      {R"({"format":"binade-checkpoint","version":1,"files":{"config.json":{"bytes":-1,"xxh3_128":""}}})",
       "bytes"},
  };
  for (const auto& [text, message] : cases) {
    folder.put("step-0/manifest.json", text);
    EXPECT_THAT(test::error_of([&] { verify_checkpoint(saved); }), HasSubstr(message)) << text;
  }
}

TEST(Checkpoint, AnotherModelIsRefusedAndNothingChanged) {
  const testing::TemporaryFolder folder;
  Trainer trainer(small_config());
  const fs::path saved = save_checkpoint(trainer, folder.path(), 2);
  Config other = small_config();
  other.model.heads = other.model.kv_heads = 4;  // the same shapes
  Trainer different(other);
  const auto before = to_vector(different.model().head_weight());
  EXPECT_THAT(test::error_of([&] { load_checkpoint(different, saved); }),
              HasSubstr("a model with heads 4, as configured, found 2"));
  EXPECT_EQ(to_vector(different.model().head_weight()), before);
}

TEST(Checkpoint, WeightsThatAreNotFiniteAreRefused) {
  const testing::TemporaryFolder folder;
  Trainer trainer(small_config());
  save_checkpoint(trainer, folder.path(), 1);
  trainer.step(small_tokens());
  {
    const NoGrad no_grad;
    fill_(trainer.model().parameters()[0], std::nan(""));
  }
  EXPECT_THAT(test::error_of([&] { save_checkpoint(trainer, folder.path(), 1); }),
              HasSubstr("finite weights"));
  EXPECT_THAT(steps_in(folder.path()), ElementsAre(0));
}

}  // namespace
}  // namespace binade::train
