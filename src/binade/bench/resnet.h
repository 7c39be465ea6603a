#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "binade/bench/step_cost.h"
#include "binade/tensor/device.h"
#include "binade/train/config/choices.h"

namespace binade::bench {

// Training of a ResNet on one batch of random images: f32 parameters, autocast, SGD with momentum.
struct ResNetBench {
  int64_t depth = 50;
  int64_t batch = 32;
  int64_t image = 224;  // height and width
  Device device = Device::cpu();
  StepBenchOptions options = {};
};

// Measurements of one precision's training steps.
struct ResNetTiming {
  train::Precision precision = train::Precision::fp32;
  StepCost cost;
  double images_per_second = 0, best_images_per_second = 0;
  double flops = 0;          // FLOP/s of the median step
  double share_of_peak = 0;  // of the instruction peak; 0: unknown
  double loss = 0;           // of the last timed step
};

// Operations of convolutions and the classifier in a training step, per image.
double flops_per_image(const ResNetBench& bench);

// The precision is fp32, bf16 or fp16, which scales the loss. Fails on others.
ResNetTiming bench_resnet(const ResNetBench& bench, train::Precision precision);

std::string to_table(const ResNetBench& bench, const std::vector<ResNetTiming>& timings);
std::string to_json(const ResNetBench& bench, const std::vector<ResNetTiming>& timings);

}  // namespace binade::bench
