#include "binade/nn/resnet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/binade.h"

namespace binade::nn {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ResNet, ResNet18HasTorchvisionsCountAndNames) {
  ResNet model({}, Device::meta());
  EXPECT_EQ(model.parameter_count(), 11'689'512);
  const StateDict state = model.state_dict();
  for (const char* name :
       {"conv1.weight", "bn1.running_mean", "layer1.0.conv1.weight", "layer2.0.downsample.0.weight",
        "layer2.0.downsample.1.running_var", "layer4.1.bn2.bias", "fc.bias"}) {
    EXPECT_TRUE(state.contains(name)) << name;
  }
  EXPECT_FALSE(state.contains("layer1.0.downsample.0.weight"));
  EXPECT_EQ(model(Tensor::empty({2, 3, 224, 224}, DType::f32, Device::meta())).shape(),
            (Shape{2, 1000}));
}

TEST(ResNet, SmallStemKeepsSmallImages) {
  ResNet model(
      {.channels = 1, .widths = {4, 8}, .blocks = {1, 1}, .classes = 3, .large_stem = false});
  EXPECT_EQ(model(randn({2, 1, 9, 7}, {1, 2})).shape(), (Shape{2, 3}));
}

TEST(ResNet, RefusesStagesThatDoNotMatch) {
  EXPECT_THAT(
      [] {
        ResNet({.widths = {4, 8}, .blocks = {1}});
      },
      ThrowsMessage<Error>(HasSubstr("1 for 2 widths")));
  EXPECT_THROW(ResNet({.widths = {}, .blocks = {}}), Error);
  EXPECT_THAT(
      [] {
        ResNet({.widths = {4, 8}, .blocks = {0, 1}});
      },
      ThrowsMessage<Error>(HasSubstr("at least 1 per stage")));
}

}  // namespace
}  // namespace binade::nn
