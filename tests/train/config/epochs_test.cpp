#include "binade/train/config/epochs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/data/corpus.h"
#include "binade/data/token_file.h"
#include "binade/train/config/component_options.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::train {
namespace {

using binade::testing::TemporaryFolder;
using ::testing::HasSubstr;

Config with(const std::string& data, Sources::Options more) {
  Sources::Options options = {{"data", data},  {"device", "cpu"},   {"context", "16"},
                              {"batch", "3"},  {"accumulate", "2"}, {"validation", "0.2"},
                              {"layers", "1"}, {"width", "32"}};
  options.insert(options.end(), more.begin(), more.end());
  return resolve({{}, options});
}

std::string examples(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i)
    lines += R"({"prompt": "a", "completion": ")" +
             std::string(static_cast<size_t>(1 + i % 5), 'b') + "\"}\n";
  return lines;
}

TEST(Epochs, OfTextAreAsManyTokensAsItHas) {
  const TemporaryFolder folder;
  const std::string text = folder.put("t.txt", std::string(1000, 'x')).string();
  // 800 to train on, 3 x 2 sequences of 16 tokens in a step: 8.33 steps.
  EXPECT_EQ(with(text, {{"epochs", "1"}}).train.steps, 9);
  EXPECT_EQ(with(text, {{"epochs", "3"}}).train.steps, 25);
  EXPECT_EQ(with(text, {{"epochs", "0.5"}}).train.steps, 5);
  EXPECT_EQ(with(text, {{"epochs", "0.001"}}).train.steps, 1);
  EXPECT_EQ(with(text, {{"epochs", "12"}}).train.warmup, 10);
}

TEST(Epochs, OfTokenFilesCountIds) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "t.bin";
  std::vector<int64_t> ids(1000, 7);
  data::TokenFileWriter writer(file, 300, data::TokenFormat::llm_c);
  writer.append(ids);
  writer.commit();
  EXPECT_EQ(with(file.string(), {{"epochs", "3"}, {"vocab", "300"}}).train.steps, 25);
}

TEST(Epochs, OfExamplesAreRows) {
  const TemporaryFolder folder;
  const std::string file = folder.put("e.jsonl", examples(40)).string();
  // 32 to train on, six in a step.
  EXPECT_EQ(with(file, {{"epochs", "1"}}).train.steps, 6);
  EXPECT_EQ(with(file, {{"epochs", "3"}}).train.steps, 16);
  // Packed, several share a row.
  const Config packed = with(file, {{"epochs", "3"}, {"pack", "true"}});
  EXPECT_LT(packed.train.steps, 10);
  EXPECT_NEAR(steps_per_epoch(packed, data::read_split(data_source(packed, nullptr)).train),
              static_cast<double>(packed.train.steps) / 3, 0.34);
}

TEST(Epochs, OfMixturesAreRefused) {
  const TemporaryFolder folder;
  const std::string a = folder.put("a.txt", std::string(900, 'x')).string(),
                    b = folder.put("b.txt", std::string(700, 'y')).string();
  const std::string error = test::error_of([&] { with("2*" + a + ",1*" + b, {{"epochs", "1"}}); });
  EXPECT_THAT(error, HasSubstr("--epochs: expected one source of data, found a mixture"));
}

TEST(Epochs, GoWithStepsOnlyIfOneOverridesTheOther) {
  const TemporaryFolder folder;
  const std::string text = folder.put("t.txt", std::string(1000, 'x')).string();
  EXPECT_THAT(test::error_of([&] {
                with(text, {{"epochs", "1"}, {"steps", "4"}});
              }),
              HasSubstr("--epochs and --steps: expected one of steps and epochs, found both"));
  const auto file = [&](const std::string& train) {
    return folder
        .put("c.toml", "[data]\ndata = \"" + text +
                           "\"\n[model]\ncontext = 16\n[train]\ndevice = \"cpu\"\nbatch = 3\n" +
                           "accumulate = 2\n" + train)
        .string();
  };
  const std::string both = file("steps = 3\nepochs = 2.0\n");
  EXPECT_THAT(test::error_of([&] { resolve({both, {}}); }), HasSubstr("[train] epochs and "));
  const std::string steps = file("steps = 3\n");
  EXPECT_EQ(resolve({steps, {{"validation", "0.2"}, {"epochs", "2"}}}).train.steps, 17);
  const std::string epochs = file("epochs = 2.0\n");
  EXPECT_EQ(resolve({epochs, {{"validation", "0.2"}}}).train.steps, 17);
  EXPECT_EQ(resolve({epochs, {{"steps", "5"}}}).train.steps, 5);
}

TEST(Epochs, AreSavedAsSteps) {
  const TemporaryFolder folder;
  const std::string text = folder.put("t.txt", std::string(1000, 'x')).string();
  const std::string toml = to_toml(with(text, {{"epochs", "3"}}));
  EXPECT_THAT(toml, HasSubstr("\nsteps = 25\n"));
  EXPECT_THAT(toml, ::testing::Not(HasSubstr("epochs")));
}

TEST(Epochs, HaveShortTexts) {
  EXPECT_EQ(epochs_text(3), "3");
  EXPECT_EQ(epochs_text(0.5), "0.5");
  EXPECT_EQ(epochs_text(2.251), "2.25");
  EXPECT_EQ(epochs_text(10), "10");
}

}  // namespace
}  // namespace binade::train
