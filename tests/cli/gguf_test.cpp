#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "io/temporary_folder.h"
#include "support/paths.h"

// GGUF files on the command line.

namespace binade::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::TemporaryFolder;

class GgufCommands : public ::testing::Test {
 protected:
  std::string path(const char* name) const { return quoted((folder_ / name).string()); }
  static Outcome done(const std::string& arguments) {
    Outcome outcome = binade(arguments);
    EXPECT_EQ(outcome.status, 0) << arguments << "\n" << outcome.err;
    return outcome;
  }
  // A run of bytes, and a text for it.
  void train_small(const std::string& options) const {
    std::string text;
    for (int i = 0; i < 200; ++i) text += "line " + std::to_string(i * i) + " of a text\n";
    folder_.put("text.txt", text);
    done(
        "train --quiet --model llama --layers 1 --width 64 --heads 2 --context 16 --batch 2 "
        "--steps 3 --data " +
        path("text.txt") + " --out " + path("run") + " " + options);
  }
  double loss_of(const char* model) const {
    const Outcome outcome = done("eval " + path(model) + " --data " + path("text.txt") + " --json");
    return nlohmann::json::parse(outcome.out).at("loss").get<double>();
  }

  const TemporaryFolder folder_;
};

TEST_F(GgufCommands, AFileStandsForAFolder) {
  train_small("--precision fp32");
  EXPECT_THAT(done("export " + path("run") + " " + path("m.gguf")).out, HasSubstr("of f32 in"));
  EXPECT_DOUBLE_EQ(loss_of("m.gguf"), loss_of("run"));
  EXPECT_EQ(done("generate " + path("m.gguf") + " --prompt line --tokens 8 --temperature 0").out,
            done("generate " + path("run") + " --prompt line --tokens 8 --temperature 0").out);
  done("import " + path("m.gguf") + " " + path("folder"));
  EXPECT_DOUBLE_EQ(loss_of("folder"), loss_of("run"));
  done("train --quiet --init-from " + path("m.gguf") + " --data " + path("text.txt") +
       " --context 16 --batch 2 --steps 2 --lora-rank 2 --out " + path("adapted"));
  EXPECT_GT(loss_of("adapted"), 0);
  const std::string keys = done("inspect " + path("m.gguf")).out;
  EXPECT_THAT(keys, HasSubstr("general.architecture"));
  EXPECT_THAT(keys, HasSubstr("blk.0.ffn_down.weight"));
  const auto found =
      nlohmann::json::parse(done("inspect --json --only ffn_down " + path("m.gguf")).out);
  EXPECT_EQ(found.at("keys").at("llama.block_count"), "1");
  EXPECT_EQ(found.at("tensors").size(), 1u);
}

TEST_F(GgufCommands, QuantizedFilesAreNearTheirSource) {
  train_small("--precision fp32");
  for (const char* type : {"q8_0", "q4_0", "mxfp4", "bf16"}) {
    done("export " + path("run") + " " + path("q.gguf") + " --force --type " + type);
    EXPECT_NEAR(loss_of("q.gguf"), loss_of("run"), 0.05) << type;
    EXPECT_NE(loss_of("q.gguf"), loss_of("run")) << type;
  }
}

// bf16 weights are rounded; the file has what they were rounded from.
TEST_F(GgufCommands, MasterWeightsAreExported) {
  train_small("--precision bf16 --params masters");
  done("export " + path("run") + " " + path("m.gguf"));
  done("export " + path("run") + " " + path("folder"));
  const auto deviation = [](const Outcome& inspected) {
    return nlohmann::json::parse(inspected.out).at("tensors").at(0).at("std").get<double>();
  };
  const double exact = deviation(done("inspect --json --only ffn_down " + path("m.gguf"))),
               rounded = deviation(done("inspect --json --only mlp.down " + path("folder")));
  EXPECT_NE(exact, rounded);
  EXPECT_NEAR(exact, rounded, 1e-3 * rounded);
}

// QLoRA as one types it: over the file's own blocks, to a whole model and to an adapter.
TEST_F(GgufCommands, AdaptersAreTrainedOverAFilesBlocks) {
  train_small("--precision fp32");
  done("export " + path("run") + " " + path("m.gguf") + " --type q4_0");
  const std::string options =
      "--init-from " + path("m.gguf") + " --lora-rank 2 --data " + path("text.txt");
  EXPECT_THAT(done("plan " + options).out, Not(HasSubstr("\nfp8")));
  done("train --quiet --steps 3 " + options + " --out " + path("tuned"));
  EXPECT_THAT(run_shell("cat " + path("tuned") + "/config.toml").out, HasSubstr("base = \"file\""));
  EXPECT_NE(loss_of("m.gguf"), loss_of("tuned"));
  done("export " + path("tuned") + " " + path("merged"));
  EXPECT_NEAR(loss_of("merged"), loss_of("tuned"), 1e-5 * loss_of("tuned"));
  EXPECT_THAT(done("export --adapter " + path("tuned") + " " + path("adapter.gguf")).out,
              HasSubstr("an adapter of"));
  EXPECT_EQ(done("generate " + path("tuned") + " --tokens 3").err, "");
}

TEST_F(GgufCommands, WhatIsRefused) {
  train_small("--precision fp32");
  const auto refused = [&](const std::string& arguments) {
    const Outcome outcome = binade("export " + path("run") + " " + arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    return outcome.err;
  };
  EXPECT_THAT(refused(path("folder") + " --type q8_0"),
              HasSubstr("--type: expected --format gguf"));
  EXPECT_THAT(refused(path("m.gguf") + " --dtype f32"), HasSubstr("--dtype: expected --type"));
  EXPECT_THAT(refused(path("m.gguf") + " --adapter"),
              HasSubstr("a folder with adapter_config.json"));
  EXPECT_THAT(refused(path("m.bin") + " --format gguf"), HasSubstr("the extension .gguf"));
  EXPECT_THAT(refused(path("m.gguf") + " --type q5_k"), HasSubstr("q5_k"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "m.gguf"));
  done("export " + path("run") + " " + path("m.gguf"));
  EXPECT_THAT(refused(path("m.gguf")), HasSubstr("--force"));
}

}  // namespace
}  // namespace binade::cli
