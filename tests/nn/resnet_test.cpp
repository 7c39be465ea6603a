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

TEST(ResNet, ResNet50HasTorchvisionsCountAndNames) {
  ResNet model(resnet_config(50), Device::meta());
  EXPECT_EQ(model.parameter_count(), 25'557'032);
  const StateDict state = model.state_dict();
  EXPECT_EQ(state.size(), 320u);  // of torchvision's resnet50().state_dict()
  const std::pair<const char*, Shape> entries[] = {
      {"layer1.0.conv1.weight", {64, 64, 1, 1}},
      {"layer1.0.downsample.0.weight", {256, 64, 1, 1}},
      {"layer1.2.conv1.weight", {64, 256, 1, 1}},
      {"layer2.0.conv2.weight", {128, 128, 3, 3}},
      {"layer3.5.conv3.weight", {1024, 256, 1, 1}},
      {"layer4.0.downsample.1.running_var", {2048}},
      {"layer4.2.bn3.bias", {2048}},
      {"fc.weight", {1000, 2048}}};
  for (const auto& [name, shape] : entries) {
    ASSERT_TRUE(state.contains(name)) << name;
    EXPECT_EQ(state.at(name).shape(), shape) << name;
  }
  EXPECT_FALSE(state.contains("layer2.1.downsample.0.weight"));
  EXPECT_EQ(model(Tensor::empty({2, 3, 224, 224}, DType::f32, Device::meta())).shape(),
            (Shape{2, 1000}));
}

// Parameter counts of torchvision's models.
TEST(ResNet, EveryDepthHasTorchvisionsCount) {
  const std::pair<int64_t, int64_t> counts[] = {
      {18, 11'689'512}, {34, 21'797'672}, {101, 44'549'160}, {152, 60'192'808}};
  for (const auto& [depth, count] : counts)
    EXPECT_EQ(ResNet(resnet_config(depth), Device::meta()).parameter_count(), count) << depth;
  EXPECT_THAT([] { resnet_config(20); }, ThrowsMessage<Error>(HasSubstr("18, 34, 50, 101 or 152")));
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
