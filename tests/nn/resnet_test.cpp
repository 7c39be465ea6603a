#include "binade/nn/resnet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "binade/backend/gpu.h"
#include "binade/binade.h"
#include "binade/tensor/memory_format.h"
#include "support/error_of.h"
#include "support/tensors.h"

namespace binade::nn {
namespace {

using ::testing::HasSubstr;

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
  EXPECT_THAT(test::error_of([] { resnet_config(20); }), HasSubstr("18, 34, 50, 101 or 152"));
}

TEST(ResNet, SmallStemKeepsSmallImages) {
  ResNet model(
      {.channels = 1, .widths = {4, 8}, .blocks = {1, 1}, .classes = 3, .large_stem = false});
  EXPECT_EQ(model(randn({2, 1, 9, 7}, {1, 2})).shape(), (Shape{2, 3}));
}

TEST(ResNet, RefusesStagesThatDoNotMatch) {
  EXPECT_THAT(test::error_of([] {
                ResNet({.widths = {4, 8}, .blocks = {1}});
              }),
              HasSubstr("1 for 2 widths"));
  EXPECT_THROW(ResNet({.widths = {}, .blocks = {}}), Error);
  EXPECT_THAT(test::error_of([] {
                ResNet({.widths = {4, 8}, .blocks = {0, 1}});
              }),
              HasSubstr("at least 1 per stage"));
}

// The loss and all gradients of a step, the buffers after it.
std::vector<Tensor> step_of(ResNetBlock block, Device device, MemoryFormat format) {
  ResNet model({.block = block, .widths = {8, 16}, .blocks = {2, 1}, .classes = 5, .seed = 3},
               device);
  Tensor images = to(randn({6, 3, 40, 36}, {4, 1}), device);
  if (format == MemoryFormat::channels_last) images = channels_last(images);
  const Tensor loss = cross_entropy(model(images), to(randint(0, 5, {6}, {4, 2}), device));
  loss.backward();
  std::vector<Tensor> results{loss.detach()};
  for (const Tensor& parameter : model.parameters()) results.push_back(parameter.grad());
  for (const auto& [name, buffer] : model.named_buffers())
    if (is_floating(buffer.dtype())) results.push_back(buffer);
  return results;
}

TEST(ResNet, TakesChannelsLastImages) {
  for (const ResNetBlock block : {ResNetBlock::basic, ResNetBlock::bottleneck}) {
    const auto expected = step_of(block, Device::cpu(), MemoryFormat::row_major),
               found = step_of(block, Device::cpu(), MemoryFormat::channels_last);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(test::same_bits(found[i], expected[i])) << i;
  }
}

TEST(ResNetGpu, ChannelsLastImagesGiveTheStepOfTheCpu) {
  if (backend::gpus().empty()) GTEST_SKIP() << "no GPU";
  for (const ResNetBlock block : {ResNetBlock::basic, ResNetBlock::bottleneck}) {
    const auto expected = step_of(block, Device::cpu(), MemoryFormat::row_major),
               found = step_of(block, Device::cuda(), MemoryFormat::channels_last),
               again = step_of(block, Device::cuda(), MemoryFormat::channels_last);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(test::same_bits(found[i], again[i])) << i;
      const std::vector<double> a = test::read(found[i]), b = test::read(expected[i]);
      double error = 0, norm = 0;
      for (size_t j = 0; j < b.size(); ++j) {
        error += (a[j] - b[j]) * (a[j] - b[j]);
        norm += b[j] * b[j];
      }
      // Some ten layers of f32 roundings, which batch norms of few values enlarge.
      EXPECT_LE(std::sqrt(error), 1e-4 * std::sqrt(norm) + 1e-9) << i;
    }
  }
}

}  // namespace
}  // namespace binade::nn
