#include "binade/train/report/layer_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/train/report/chart.h"
#include "train/report/drawing.h"

namespace binade::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

LayerHistory studied_history(int steps) {
  LayerHistory history{.modules = {"blocks.0.mlp.up", "blocks.0.mlp.down"}};
  for (int step = 1; step <= steps; ++step) {
    history.steps.push_back(step);
    LayerHistory::Tensor tensor{.amax = 2, .zeros = 0.125, .outliers = 0.01};
    tensor.sqnr = {73, 51, 30, 25};
    tensor.first_exponent = -5;
    tensor.exponents = {0.25, 0, 0, 0, 0.5, 0.125};
    history.layers.push_back({{.harm = 0.01, .tensors = {tensor, tensor, tensor}},
                              {.harm = 0.02, .tensors = {tensor, tensor, tensor}}});
  }
  return history;
}

TEST(LayerPage, ShowsEachTensor) {
  const std::string html = layer_page(studied_history(4), "A <study>", "<p>facts</p>");
  EXPECT_THAT(html, HasSubstr("A &lt;study&gt;"));
  EXPECT_THAT(html, HasSubstr("<p>facts</p>"));
  EXPECT_THAT(html, HasSubstr("2 linear layers in 4 steps with statistics, from step 1 to 4"));
  for (const char* tensor : {"inputs", "weights", "gradients"}) {
    const std::string name = tensor;
    for (const std::string& title :
         {"Lowest SQNR of " + name + " in any layer", "SQNR of " + name + " in e4m3 by layer, dB",
          "Exponents of " + name, "Largest share of " + name + " out of range in any layer",
          "Channels of " + name + " with outliers, %"})
      EXPECT_THAT(html, HasSubstr(title));
  }
  // Every fourth exponent of -5 to 0 has a label.
  EXPECT_THAT(html, HasSubstr(">2^0<"));
  EXPECT_THAT(html, HasSubstr(">2^-4<"));
  EXPECT_THAT(html, Not(HasSubstr(">2^-5<")));
  EXPECT_THAT(html, Not(HasSubstr("nan")));
}

LayerHistory::Tensor tensor_of(double seed) {
  LayerHistory::Tensor tensor{.amax = seed, .zeros = 0.01 * seed, .outliers = 0.02 * seed};
  for (size_t i = 0; i < LayerHistory::formats; ++i) {
    const auto x = static_cast<double>(i);
    tensor.sqnr[i] = 10 * x + seed;
    tensor.underflow[i] = 0.003 * seed * (x + 1);
    tensor.saturate[i] = 0.002 * seed * (x + 2);
  }
  return tensor;
}

// Two steps of two layers whose three tensors all differ.
LayerHistory uneven_history() {
  LayerHistory history{.modules = {"up", "down"}, .steps = {10, 30}};
  for (const double step : {1.0, 3.0}) {
    history.layers.emplace_back();
    for (const double layer : {2.0, 7.0}) {
      LayerHistory::Layer one{.harm = 0.01 * layer};
      for (size_t i = 0; i < one.tensors.size(); ++i)
        one.tensors[i] = tensor_of(step * layer + 0.5 * static_cast<double>(i));
      history.layers.back().push_back(one);
    }
  }
  return history;
}

// Of all layers the lowest SQNR and the largest shares, per tensor and format.
TEST(LayerPage, ChartsShowTheExtremesOfTheLayers) {
  const std::vector<test::Drawing> all = test::drawings_of(layer_page(uneven_history(), "page"));
  const auto expect = [&all](const std::string& title, const std::string& css, double first,
                             double second) {
    for (const test::Drawing& one : all) {
      if (one.title != title) continue;
      const test::Axis x = x_axis(one), y = y_axis(one);
      ASSERT_NE(one.path(css), nullptr) << title << ": " << css;
      const auto& points = one.path(css)->strokes.at(0);
      ASSERT_EQ(points.size(), 2u);
      EXPECT_NEAR(x.at(points[0].first), 10, 0.1) << title;
      EXPECT_NEAR(x.at(points[1].first), 30, 0.1) << title;
      EXPECT_NEAR(y.at(points[0].second), first, y.tolerance()) << title << ": " << css;
      EXPECT_NEAR(y.at(points[1].second), second, y.tolerance()) << title << ": " << css;
      return;
    }
    ADD_FAILURE() << "no chart " << title;
  };
  const char* const names[] = {"inputs", "weights", "gradients"};
  for (size_t i = 0; i < 3; ++i) {
    const double shift = 0.5 * static_cast<double>(i);
    const std::string name = names[i];
    const std::string lowest = "Lowest SQNR of " + name + " in any layer";
    for (size_t format = 0; format < LayerHistory::formats; ++format) {
      const int color = format_style(LayerHistory::format_names[format]).color;
      const double low = 10 * static_cast<double>(format) + shift;
      expect(lowest, "s" + std::to_string(color), low + 2, low + 6);
    }
    // Percentages of the largest: 7 and 21, and what the tensor adds.
    const std::string shares = "Largest share of " + name + " out of range in any layer";
    const double one = 7 + shift, two = 21 + shift;
    expect(shares, "s8", one, two);
    expect(shares, "s1", 0.3 * one, 0.3 * two);
    expect(shares, "s1 d1", 0.4 * one, 0.4 * two);
    expect(shares, "s3", 0.9 * one, 0.9 * two);
    expect(shares, "s3 d1", 0.8 * one, 0.8 * two);
  }
}

TEST(LayerPage, MapsHaveARowPerLayerAndExponent) {
  LayerHistory history = uneven_history();
  // Binades 2^4 and 2^3 of one layer, 2^3 and 2^0 of the other.
  for (auto& layers : history.layers) {
    layers[0].tensors[1].first_exponent = 3;
    layers[0].tensors[1].exponents = {0.5, 0.25};
    layers[1].tensors[1].first_exponent = 0;
    layers[1].tensors[1].exponents = {0.125, 0, 0, 0.1};
  }
  const std::vector<test::Drawing> all = test::drawings_of(layer_page(history, "page"));
  const auto map = [&all](const std::string& title) -> const test::Drawing& {
    return *std::find_if(all.begin(), all.end(),
                         [&](const test::Drawing& one) { return one.title == title; });
  };
  const auto opacity = [](double dark) { return 0.06 + 0.94 * dark; };
  const test::Drawing& sqnr = map("SQNR of gradients in e4m3 by layer, dB");
  ASSERT_EQ(sqnr.areas.size(), 4u + 7u);
  // 20 and the tensor's own; 32 dB are light, 0 dark.
  const double decibels[] = {23, 27, 28, 42};
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(sqnr.areas[i].opacity, opacity(std::max(0.0, 1 - decibels[i] / 32)), 0.006);
  const test::Drawing& outliers = map("Channels of inputs with outliers, %");
  const double percent[] = {4, 12, 14, 42};
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(outliers.areas[i].opacity, opacity(std::min(1.0, percent[i] / 10)), 0.006);
  const test::Drawing& exponents = map("Exponents of weights, share of elements, mean over layers");
  // The largest first; a binade of one layer counts half, and zeros are the lightest.
  const double means[] = {0.125, 0.3, 0, 0, 0.0625};
  ASSERT_EQ(exponents.areas.size(), 10u + 7u);
  for (size_t i = 0; i < 10; ++i) {
    const double mean = means[i / 2];
    const double dark = mean > 0 ? 1 + std::log10(mean) / 4 : 0;
    EXPECT_NEAR(exponents.areas[i].opacity, opacity(dark), 0.006) << i;
  }
  EXPECT_THAT(exponents.contents("label"), ::testing::ElementsAre("2^4", "2^0", "step"));
}

TEST(LayerPage, SixtyBinadesAreShownAtMost) {
  for (const size_t count : {60u, 61u, 70u}) {
    LayerHistory history{.modules = {"a"}, .steps = {1}, .layers = {{LayerHistory::Layer{}}}};
    history.layers[0][0].tensors[0].exponents.assign(count, 0.01);
    history.layers[0][0].tensors[0].first_exponent = -50;
    const std::vector<test::Drawing> all = test::drawings_of(layer_page(history, "page"));
    const auto map = std::find_if(all.begin(), all.end(), [](const test::Drawing& one) {
      return one.title.starts_with("Exponents of inputs");
    });
    ASSERT_NE(map, all.end());
    EXPECT_EQ(map->areas.size(), 60u + 7u) << count;
  }
}

TEST(LayerPage, FormatsWithoutNoiseAreNamedAndNotDrawn) {
  LayerHistory history = uneven_history();
  for (auto& layers : history.layers)
    for (auto& layer : layers) layer.tensors[0].sqnr = {150, 100, 30, 25};
  const std::vector<test::Drawing> all = test::drawings_of(layer_page(history, "page"));
  EXPECT_EQ(all.at(0).title, std::string("Lowest SQNR of inputs in any layer; exact in ") +
                                 LayerHistory::format_names[0] + ", " +
                                 LayerHistory::format_names[1]);
}

// Files of earlier versions have fewer values, and some tensors none at all.
TEST(LayerPage, LeavesOutWhatIsUnknown) {
  LayerHistory history{.modules = {"a"}, .steps = {1}, .layers = {{LayerHistory::Layer{}}}};
  for (LayerHistory::Tensor& tensor : history.layers[0][0].tensors)
    tensor.sqnr.fill(std::numeric_limits<double>::quiet_NaN());
  const std::string html = layer_page(history, "page");
  EXPECT_THAT(html, Not(HasSubstr("nan")));
  EXPECT_THAT(html, Not(HasSubstr("Exponents of")));
}

}  // namespace
}  // namespace binade::train
