#include "binade/train/report/layer_history.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string layer(const std::string& module, double harm) {
  return fmt::format(
      R"({{"module":"{}","harm":{},"input":{{"amax":8}},"weight":{{"amax":null}},"gradient":{{"amax":0.5}}}})",
      module, harm);
}

std::string line(int64_t step, const std::string& layers) {
  return fmt::format("{{\"step\":{},\"layers\":[{}]}}\n", step, layers);
}

TEST(LayerHistory, IsInTheModelsOrder) {
  const testing::TemporaryFolder folder;
  const auto file = folder.put(
      "layers.jsonl", line(10, layer("blocks.10.up", 0.5) + "," + layer("blocks.2.up", 0.25)) +
                          line(20, layer("blocks.2.up", 0.75) + "," + layer("blocks.10.up", 0.5)));
  const LayerHistory history = read_layer_history(file);
  EXPECT_THAT(history.modules, ElementsAre("blocks.2.up", "blocks.10.up"));
  EXPECT_THAT(history.steps, ElementsAre(10, 20));
  EXPECT_EQ(history.layers[0][0].harm, 0.25);
  EXPECT_EQ(history.layers[1][0].harm, 0.75);
  EXPECT_EQ(history.layers[1][1].input, 8);
  const std::string html = layer_charts(history);
  EXPECT_THAT(html, HasSubstr("blocks.10.up"));
  EXPECT_THAT(html, HasSubstr("Largest magnitudes"));
  EXPECT_THAT(html, Not(HasSubstr("nan")));
}

// A resumed run repeats steps; a killed one leaves part of a line.
TEST(LayerHistory, LaterRecordsOfAStepCount) {
  const testing::TemporaryFolder folder;
  const auto file =
      folder.put("layers.jsonl", line(10, layer("a", 0.1)) + line(20, layer("a", 0.2)) +
                                     line(20, layer("a", 0.3)) + "{\"step\":");
  const LayerHistory history = read_layer_history(file);
  EXPECT_THAT(history.steps, ElementsAre(10, 20));
  EXPECT_EQ(history.layers[1][0].harm, 0.3);
}

TEST(LayerHistory, LongRunsAreThinned) {
  const testing::TemporaryFolder folder;
  std::string text;
  for (int step = 1; step <= 1000; ++step) text += line(step, layer("a", 0.1));
  const LayerHistory history = read_layer_history(folder.put("layers.jsonl", text));
  EXPECT_EQ(history.steps.size(), 200u);
  EXPECT_EQ(history.steps.front(), 1);
  EXPECT_EQ(history.steps.back(), 1000);
}

TEST(LayerHistory, NothingAndNonsense) {
  const testing::TemporaryFolder folder;
  EXPECT_TRUE(read_layer_history(folder / "layers.jsonl").steps.empty());
  EXPECT_EQ(layer_charts({}), "");
  const auto file = folder.put("layers.jsonl", "{\"step\":1}\n");
  EXPECT_THAT(test::error_of([&] { read_layer_history(file); }), HasSubstr("layers.jsonl"));
}

}  // namespace
}  // namespace binade::train
