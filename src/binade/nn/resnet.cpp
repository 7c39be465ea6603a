#include "binade/nn/resnet.h"

#include "binade/nn/init.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/shape/shape.h"

namespace binade::nn {
namespace {

ConvConfig conv_config(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return {.in = in,
          .out = out,
          .kernel = {kernel},
          .options = {.stride = {stride}, .padding = {kernel / 2}},
          .bias = false};
}

ResNetConfig checked_and_seeded(const ResNetConfig& config) {
  if (config.widths.empty() || config.widths.size() != config.blocks.size()) {
    fail("ResNet", {.argument = "blocks",
                    .expected = "one number per stage, at least one stage",
                    .found = std::to_string(config.blocks.size()) + " for " +
                             std::to_string(config.widths.size()) + " widths"});
  }
  for (const int64_t count : config.blocks) {
    if (count < 1)
      fail("ResNet", {.argument = "blocks",
                      .expected = "at least 1 per stage",
                      .found = std::to_string(count)});
  }
  init::restart(config.seed);
  return config;
}

// Output channels of a block per channel of its width.
int64_t expansion_of(ResNetBlock block) {
  return block == ResNetBlock::bottleneck ? Bottleneck::expansion : 1;
}

std::unique_ptr<Layer> make_block(ResNetBlock block, int64_t in, int64_t width, int64_t stride,
                                  Placement placement) {
  if (block == ResNetBlock::bottleneck)
    return std::make_unique<Bottleneck>(in, width, stride, placement);
  return std::make_unique<BasicBlock>(in, width, stride, placement);
}

}  // namespace

Shortcut::Shortcut(int64_t in, int64_t out, int64_t stride, Placement placement) {
  if (stride == 1 && in == out) return;
  conv = std::make_unique<Conv2d>(conv_config(in, out, 1, stride), placement);
  norm = std::make_unique<BatchNorm>(out, 1e-5, 0.1, placement);
}

Tensor Shortcut::operator()(const Tensor& x) const { return conv ? (*norm)((*conv)(x)) : x; }

BasicBlock::BasicBlock(int64_t in, int64_t out, int64_t stride, Placement placement)
    : conv1_(conv_config(in, out, 3, stride), placement),
      conv2_(conv_config(out, out, 3, 1), placement),
      bn1_(out, 1e-5, 0.1, placement),
      bn2_(out, 1e-5, 0.1, placement),
      shortcut_(in, out, stride, placement) {
  add_child("conv1", conv1_);
  add_child("bn1", bn1_);
  add_child("conv2", conv2_);
  add_child("bn2", bn2_);
  if (!shortcut_.conv) return;
  add_child("downsample.0", *shortcut_.conv);
  add_child("downsample.1", *shortcut_.norm);
}

Tensor BasicBlock::forward(const Tensor& x) {
  const Tensor hidden = bn1_.relu(conv1_(x));
  const Tensor shortcut = shortcut_(x);
  return bn2_.relu(conv2_(hidden), shortcut);
}

Bottleneck::Bottleneck(int64_t in, int64_t width, int64_t stride, Placement placement)
    : conv1_(conv_config(in, width, 1, 1), placement),
      conv2_(conv_config(width, width, 3, stride), placement),
      conv3_(conv_config(width, expansion * width, 1, 1), placement),
      bn1_(width, 1e-5, 0.1, placement),
      bn2_(width, 1e-5, 0.1, placement),
      bn3_(expansion * width, 1e-5, 0.1, placement),
      shortcut_(in, expansion * width, stride, placement) {
  add_child("conv1", conv1_);
  add_child("bn1", bn1_);
  add_child("conv2", conv2_);
  add_child("bn2", bn2_);
  add_child("conv3", conv3_);
  add_child("bn3", bn3_);
  if (!shortcut_.conv) return;
  add_child("downsample.0", *shortcut_.conv);
  add_child("downsample.1", *shortcut_.norm);
}

Tensor Bottleneck::forward(const Tensor& x) {
  const Tensor narrow = bn1_.relu(conv1_(x));
  const Tensor hidden = bn2_.relu(conv2_(narrow));
  const Tensor shortcut = shortcut_(x);
  return bn3_.relu(conv3_(hidden), shortcut);
}

ResNetConfig resnet_config(int64_t depth) {
  switch (depth) {
    case 18:
      return {};
    case 34:
      return {.blocks = {3, 4, 6, 3}};
    case 50:
      return {.block = ResNetBlock::bottleneck, .blocks = {3, 4, 6, 3}};
    case 101:
      return {.block = ResNetBlock::bottleneck, .blocks = {3, 4, 23, 3}};
    case 152:
      return {.block = ResNetBlock::bottleneck, .blocks = {3, 8, 36, 3}};
    default:
      fail("resnet_config", {.argument = "depth",
                             .expected = "18, 34, 50, 101 or 152",
                             .found = std::to_string(depth)});
  }
}

ResNet::ResNet(const ResNetConfig& config, Device device, DType dtype)
    : config_(checked_and_seeded(config)),
      stem_(config.large_stem ? conv_config(config.channels, config.widths[0], 7, 2)
                              : conv_config(config.channels, config.widths[0], 3, 1),
            {device, dtype}),
      stem_norm_(config.widths[0], 1e-5, 0.1, {device, dtype}),
      head_({.in = expansion_of(config.block) * config.widths.back(), .out = config.classes},
            {device, dtype}) {
  add_child("conv1", stem_);
  add_child("bn1", stem_norm_);
  int64_t in = config_.widths[0];
  for (size_t stage = 0; stage < config_.widths.size(); ++stage) {
    for (int64_t i = 0; i < config_.blocks[stage]; ++i) {
      const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      const int64_t width = config_.widths[stage];
      blocks_.push_back(make_block(config_.block, in, width, stride, {device, dtype}));
      add_child("layer" + std::to_string(stage + 1) + "." + std::to_string(i), *blocks_.back());
      in = expansion_of(config_.block) * width;
    }
  }
  add_child("fc", head_);
}

Tensor ResNet::forward(const Tensor& x) {
  Tensor y = stem_norm_.relu(stem_(x));
  if (config_.large_stem) y = max_pool(y, {.kernel = {3}, .stride = {2}, .padding = {1}});
  for (const auto& block : blocks_) y = (*block)(y);
  return head_(flatten(global_avg_pool(y), 1));
}

}  // namespace binade::nn
