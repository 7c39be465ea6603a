#include "binade/train/config/warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace binade::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> warnings_of(const Sources::Options& options) {
  return warnings(resolve({{}, options}));
}

TEST(Warnings, NoneForDefaults) {
  EXPECT_THAT(warnings_of({}), IsEmpty());
  EXPECT_THAT(warnings_of({{"model", "gpt2"}}), IsEmpty());
  // A saved configuration names every key.
  EXPECT_THAT(warnings(resolve_text(to_toml(resolve({})), "saved")), IsEmpty());
}

TEST(Warnings, NamesMetricsFilesThatNobodyReads) {
  EXPECT_THAT(warnings_of({{"metrics-file", "run.prom"}}), IsEmpty());
  EXPECT_THAT(
      warnings_of({{"metrics-file", "run.txt"}}),
      ElementsAre("--metrics-file run.txt: node exporter reads only names that end in .prom"));
}

TEST(Warnings, NamesSettingsWithoutEffect) {
  EXPECT_THAT(warnings_of({{"model", "gpt2"}, {"rope-theta", "500000"}}),
              ElementsAre("--rope-theta has no effect without --model llama"));
  EXPECT_THAT(warnings_of({{"model", "llama"}, {"rope-theta", "500000"}}), IsEmpty());
  EXPECT_THAT(warnings_of({{"precision", "bf16"}, {"recipe", "mx"}, {"scale-init", "1"}}),
              ElementsAre("--recipe has no effect without --precision fp8",
                          "--scale-init has no effect without --precision fp16"));
  EXPECT_THAT(warnings_of({{"recipe", "mx"}}), IsEmpty());
  EXPECT_THAT(warnings_of({{"device", "cpu"}, {"graph", "off"}}),
              ElementsAre("--graph has no effect without a GPU"));
}

// Each key with the setting that gives it an effect, and with one that does not.
TEST(Warnings, EveryConditionHoldsOnBothSides) {
  struct One {
    Sources::Options key, with, without;
    const char* warning;
  };
  const One all[] = {
      {{{"rope-theta", "5e5"}},
       {{"model", "llama"}},
       {{"model", "gpt2"}},
       "--rope-theta has no effect without --model llama"},
      {{{"recipe", "mx"}},
       {{"precision", "fp8"}},
       {{"precision", "fp16"}},
       "--recipe has no effect without --precision fp8"},
      {{{"scale-init", "8"}},
       {{"precision", "fp16"}},
       {{"precision", "fp8"}},
       "--scale-init has no effect without --precision fp16"},
      {{{"scale-growth-interval", "8"}},
       {{"precision", "fp16"}},
       {{"precision", "bf16"}},
       "--scale-growth-interval has no effect without --precision fp16"},
      {{{"moments", "bf16"}},
       {{"optimizer", "adamw"}},
       {{"optimizer", "adafactor"}},
       "--moments has no effect with --optimizer adafactor"},
      {{{"beta1", "0.8"}},
       {{"optimizer", "lion"}},
       {{"optimizer", "adafactor"}},
       "--beta1 has no effect with --optimizer adafactor"},
      {{{"beta2", "0.8"}},
       {{"optimizer", "muon"}},
       {{"optimizer", "adafactor"}},
       "--beta2 has no effect with --optimizer adafactor"},
  };
  const auto joined = [](Sources::Options a, const Sources::Options& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  for (const One& one : all) {
    EXPECT_THAT(warnings_of(joined(one.key, one.with)), IsEmpty()) << one.warning;
    EXPECT_THAT(warnings_of(joined(one.key, one.without)), ElementsAre(one.warning));
  }
  EXPECT_THAT(warnings_of({{"nondeterministic", "true"}, {"device", "cpu"}}),
              ElementsAre("--nondeterministic has no effect without a GPU"));
  // Adapters need a model to adapt.
  Config adapted = resolve({{}, {{"lora-alpha", "8"}}});
  EXPECT_THAT(warnings(adapted), ElementsAre("--lora-alpha has no effect without --lora-rank"));
  adapted.lora.rank = 1;
  EXPECT_THAT(warnings(adapted), IsEmpty());
  Config paired = resolve({{}, {{"beta", "0.3"}, {"label-smoothing", "0.1"}}});
  EXPECT_THAT(warnings(paired),
              ElementsAre("--beta has no effect without --objective dpo",
                          "--label-smoothing has no effect without --objective dpo"));
  paired.objective.kind = Objective::dpo;
  EXPECT_THAT(warnings(paired), IsEmpty());
}

TEST(Warnings, NameFieldsOfARecipeWithoutEffect) {
  const char* const hidden = "delayed, hidden = true";
  EXPECT_THAT(warnings_of({{"recipe", hidden}, {"model", "llama"}}), IsEmpty());
  EXPECT_THAT(warnings_of({{"recipe", hidden}, {"model", "gpt2"}}),
              ElementsAre(HasSubstr("--recipe: hidden has no effect")));
  EXPECT_THAT(warnings_of({{"recipe", "delayed, head = true"}}), IsEmpty());
  EXPECT_THAT(warnings_of({{"recipe", "row, head = true, matmuls = [\"forward\"]"}}),
              ElementsAre(HasSubstr("--recipe: head has no effect")));
  Config paired = resolve({{}, {{"recipe", "delayed, head = true"}}});
  paired.objective.kind = Objective::dpo;
  EXPECT_THAT(warnings(paired), ElementsAre("--recipe: head has no effect with --objective dpo"));
}

TEST(Warnings, AnEffectInOneOfSeveralConfigurationsIsEnough) {
  std::vector<Config> configs;
  for (const char* precision : {"bf16", "fp16"})
    configs.push_back(
        resolve({{}, {{"precision", precision}, {"recipe", "row"}, {"scale-init", "1"}}}));
  EXPECT_THAT(without_effect(configs),
              ElementsAre("--recipe has no effect without --precision fp8"));
  configs.push_back(resolve({{}, {{"precision", "fp8"}, {"recipe", "row"}}}));
  EXPECT_THAT(without_effect(configs), IsEmpty());
}

TEST(Warnings, AVocabularyFarBeyondBytes) {
  EXPECT_THAT(warnings_of({{"preset", "gpt2-124m"}}), ElementsAre(HasSubstr("50,257 token ids")));
  EXPECT_THAT(warnings_of({{"vocab", "300"}}), IsEmpty());
  EXPECT_THAT(warnings_of({{"preset", "gpt2-124m"}, {"data", "tokens.bin"}}), IsEmpty());
}

}  // namespace
}  // namespace binade::train
