#pragma once

#include <cstdint>
#include <vector>

namespace binade::nn {

// How rotary frequencies are changed for contexts longer than those of pre-training.
enum class RopeScalingKind : uint8_t {
  none,
  linear,  // divided by `factor`
  llama3,  // long wavelengths divided by `factor`, short ones unchanged, a ramp in between
};

struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::none;
  double factor = 1;
  // llama3: wavelengths above original_context / low are long, below original_context / high short.
  double low = 1, high = 4;
  int64_t original_context = 8192;

  bool operator==(const RopeScaling&) const = default;
};

// Angles per position of `dim` channels: theta^(-2i / dim), scaled; dim is even.
std::vector<float> rope_frequencies(int64_t dim, double theta, const RopeScaling& scaling = {});

}  // namespace binade::nn
