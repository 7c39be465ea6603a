#include "binade/train/report/layer_history.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

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
  EXPECT_EQ(history.layers[1][1].tensors[0].amax, 8);
  const std::string html = layer_charts(history);
  EXPECT_THAT(html, HasSubstr("blocks.10.up"));
  EXPECT_THAT(html, HasSubstr("Largest magnitudes"));
  EXPECT_THAT(html, Not(HasSubstr("nan")));
}

TEST(LayerHistory, HasTheStatisticsOfTensors) {
  const testing::TemporaryFolder folder;
  const std::string tensor =
      R"({"amax":2,"zeros":0.5,"e4m3":{"underflow":0.25,"saturate":0,"sqnr":30},"channels":8,)"
      R"("outlier_channels":2,"first_exponent":-3,"exponents":[0.5,0.25]})";
  const LayerHistory history = read_layer_history(folder.put(
      "layers.jsonl", line(1, fmt::format(R"({{"module":"a","harm":0,"input":{0},"weight":{0},)"
                                          R"("gradient":{0}}})",
                                          tensor))));
  const LayerHistory::Tensor& found = history.layers.at(0).at(0).tensors[2];
  EXPECT_EQ(found.zeros, 0.5);
  EXPECT_EQ(found.outliers, 0.25);
  EXPECT_EQ(found.sqnr[2], 30);
  EXPECT_EQ(found.underflow[2], 0.25);
  EXPECT_TRUE(std::isnan(found.sqnr[0]));  // the file has none
  EXPECT_EQ(found.first_exponent, -3);
  EXPECT_THAT(found.exponents, ElementsAre(0.5, 0.25));
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
