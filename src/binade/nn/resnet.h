#pragma once

#include <memory>
#include <vector>

#include "binade/nn/conv.h"
#include "binade/nn/linear.h"
#include "binade/nn/norm.h"

namespace binade::nn {

// Two 3x3 convolutions with batch norm and a shortcut, which is projected if the shape changes.
// Named as in torchvision: conv1, bn1, conv2, bn2, downsample.0, downsample.1.
class BasicBlock : public Layer {
 public:
  BasicBlock(int64_t in, int64_t out, int64_t stride, Placement placement = {});

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  Conv2d conv1_, conv2_;
  BatchNorm bn1_, bn2_;
  std::unique_ptr<Conv2d> shortcut_;
  std::unique_ptr<BatchNorm> shortcut_norm_;
};

struct ResNetConfig {
  int64_t channels = 3;  // of the images
  std::vector<int64_t> widths = {64, 128, 256, 512};
  std::vector<int64_t> blocks = {2, 2, 2, 2};  // per stage; stages after the first halve the image
  int64_t classes = 1000;
  bool large_stem = true;  // 7x7 stride 2 and max pool, for 224 x 224 images; else 3x3
  uint64_t seed = 0;
};

// A residual network of basic blocks: ResNet-18 by default. x [n, channels, h, w] to [n, classes].
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
  std::vector<std::unique_ptr<BasicBlock>> blocks_;
  Linear head_;
};

}  // namespace binade::nn
