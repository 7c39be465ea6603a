#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "binade/nn/conv.h"
#include "binade/nn/linear.h"
#include "binade/nn/norm.h"

namespace binade::nn {

// The path around a block: its input, projected by a 1x1 convolution and a batch norm if the shape
// changes.
class Shortcut {
 public:
  Shortcut(int64_t in, int64_t out, int64_t stride, Placement placement);
  Tensor operator()(const Tensor& x) const;

  // Null without a projection.
  std::unique_ptr<Conv2d> conv;
  std::unique_ptr<BatchNorm> norm;
};

// Two 3x3 convolutions with batch norm and a shortcut. Named as in torchvision: conv1, bn1,
// conv2, bn2, downsample.0, downsample.1.
class BasicBlock : public Layer {
 public:
  BasicBlock(int64_t in, int64_t out, int64_t stride, Placement placement = {});

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  Conv2d conv1_, conv2_;
  BatchNorm bn1_, bn2_;
  Shortcut shortcut_;
};

// A 1x1 convolution to `width` channels, a 3x3 one and a 1x1 one to four times as many, each with
// batch norm, and a shortcut as above. The stride is the 3x3 convolution's, as in torchvision. Also
// has conv3 and bn3.
class Bottleneck : public Layer {
 public:
  static constexpr int64_t expansion = 4;  // output channels per channel of `width`

  Bottleneck(int64_t in, int64_t width, int64_t stride, Placement placement = {});

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  Conv2d conv1_, conv2_, conv3_;
  BatchNorm bn1_, bn2_, bn3_;
  Shortcut shortcut_;
};

enum class ResNetBlock : uint8_t { basic, bottleneck };

struct ResNetConfig {
  int64_t channels = 3;  // of the images
  ResNetBlock block = ResNetBlock::basic;
  std::vector<int64_t> widths = {64, 128, 256, 512};
  std::vector<int64_t> blocks = {2, 2, 2, 2};  // per stage; stages after the first halve the image
  int64_t classes = 1000;
  bool large_stem = true;  // 7x7 stride 2 and max pool, for 224 x 224 images; else 3x3
  uint64_t seed = 0;
};

// ResNet-18, 34, 50, 101 or 152 (He et al., 2015) for images of 224 x 224. Fails on other depths.
ResNetConfig resnet_config(int64_t depth);

// A residual network: ResNet-18 by default. x [n, channels, h, w] to [n, classes].
class ResNet : public Layer {
 public:
  explicit ResNet(const ResNetConfig& config = {}, Device device = Device::cpu(),
                  DType dtype = DType::f32);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  ResNetConfig config_;
  Conv2d stem_;
  BatchNorm stem_norm_;
  std::vector<std::unique_ptr<Layer>> blocks_;
  Linear head_;
};

}  // namespace binade::nn
