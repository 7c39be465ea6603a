#include "binade/train/report/layer_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

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
