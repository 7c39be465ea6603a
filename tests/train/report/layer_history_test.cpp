#include "binade/train/report/layer_history.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/base/error.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"
#include "train/report/drawing.h"

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

// Amax by tensor and layer, per step: the largest of the layers is drawn, as a power of two.
TEST(LayerHistory, MagnitudesAreTheLargestOfAllLayers) {
  LayerHistory history{.modules = {"a", "b"}, .steps = {5, 9}};
  for (const double unit : {1.0, 8.0}) {
    LayerHistory::Layer one{.harm = 0.01}, two{.harm = 0.1};
    const double amax[] = {2, 1.0 / 16, 1.0 / 1024};
    for (size_t i = 0; i < 3; ++i) {
      one.tensors[i].amax = unit * amax[i];
      two.tensors[i].amax = unit * amax[i] / 4;
    }
    history.layers.push_back({two, one});
  }
  const std::vector<test::Drawing> all = test::drawings_of(layer_charts(history));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].title, "Harm of the recipe by layer over time");
  const double harms[] = {0.1, 0.1, 0.01, 0.01};  // one in a thousand is light, all dark
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(all[0].areas[i].opacity, 0.06 + 0.94 * (3 + std::log10(harms[i])) / 3, 0.006);
  const test::Axis x = x_axis(all[1]), y = y_axis(all[1]);
  const auto expect = [&](const char* css, double first, double second) {
    ASSERT_NE(all[1].path(css), nullptr) << css;
    const auto& points = all[1].path(css)->strokes.at(0);
    ASSERT_EQ(points.size(), 2u);
    EXPECT_NEAR(x.at(points[0].first), 5, x.tolerance());
    EXPECT_NEAR(x.at(points[1].first), 9, x.tolerance());
    EXPECT_NEAR(y.at(points[0].second), first, y.tolerance()) << css;
    EXPECT_NEAR(y.at(points[1].second), second, y.tolerance()) << css;
  };
  expect("s8", 1, 4);
  expect("s8 d1", -4, -1);
  expect("s8 d2", -10, -7);
  expect("s1", std::log2(65504), std::log2(65504));
  expect("s3", std::log2(448), std::log2(448));
}

// The most harmed at any step, in the model's order.
TEST(LayerHistory, ManyLayersAreThoseMostHarmed) {
  LayerHistory history{.steps = {1, 2}, .layers = {{}, {}}};
  for (int i = 0; i < 30; ++i) {
    history.modules.push_back("blocks." + std::to_string(i));
    const bool mild = i % 5 == 2;  // six of them
    history.layers[0].push_back({.harm = mild ? 0.01 : i % 2 == 0 ? 0.5 : 0});
    history.layers[1].push_back({.harm = mild ? 0.02 : i % 2 == 0 ? 0 : 0.7});
  }
  std::vector<size_t> expected;
  for (size_t i = 0; i < 30; ++i)
    if (i % 5 != 2) expected.push_back(i);
  EXPECT_EQ(most_harmed(history), expected);
  EXPECT_THAT(layer_charts(history), HasSubstr(", the 24 most harmed of 30<"));
  history.modules.resize(24);
  for (auto& layers : history.layers) layers.resize(24);
  EXPECT_EQ(most_harmed(history).size(), 24u);
  EXPECT_THAT(layer_charts(history), Not(HasSubstr("most harmed of")));
}

TEST(LayerHistory, NamesAreOrderedByTheirNumbersAndThenTheirLetters) {
  const testing::TemporaryFolder folder;
  const char* const ordered[] = {"a",     "a.1",    "a.2.x", "a.2.y",  "a.2.y1",
                                 "a.2.z", "a.10.b", "a.11",  "a.11.x", "b"};
  std::string layers;
  for (const size_t i : {3u, 9u, 0u, 7u, 1u, 8u, 6u, 2u, 5u, 4u})
    layers += (layers.empty() ? "" : ",") + layer(ordered[i], 0.1);
  const LayerHistory history = read_layer_history(folder.put("layers.jsonl", line(1, layers)));
  EXPECT_THAT(history.modules, ::testing::ElementsAreArray(ordered));
}

// A layer that appears later has no values before; one line is the first and the last.
TEST(LayerHistory, TheLastRecordNamesTheLayers) {
  const testing::TemporaryFolder folder;
  const LayerHistory history = read_layer_history(
      folder.put("layers.jsonl",
                 line(1, layer("a", 0.5)) + line(2, layer("a", 0.25) + "," + layer("b", 0.75))));
  EXPECT_THAT(history.modules, ElementsAre("a", "b"));
  EXPECT_EQ(history.layers[0][0].harm, 0.5);
  EXPECT_EQ(history.layers[0][1].harm, 0);
  EXPECT_EQ(history.layers[1][1].harm, 0.75);
  EXPECT_THAT(read_layer_history(folder.put("one.jsonl", line(7, layer("a", 0.5)))).steps,
              ElementsAre(7));
}

TEST(LayerHistory, DamagedLinesAreCountedAndLeftOut) {
  const testing::TemporaryFolder folder;
  const auto file =
      folder.put("layers.jsonl",
                 line(1, layer("a", 0.5)) + "{\"step\":2}\nnonsense\n" + line(3, layer("a", 0.25)));
  int64_t damaged = 0;
  const LayerHistory history = read_layer_history(file, &damaged);
  EXPECT_EQ(damaged, 2);
  EXPECT_THAT(history.steps, ElementsAre(1, 3));
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
