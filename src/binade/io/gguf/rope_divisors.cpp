#include "binade/io/gguf/rope_divisors.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace binade::io::gguf {

std::vector<float> llama3_divisors(int64_t dim, double theta, const nn::RopeScaling& scaling) {
  const auto original = static_cast<double>(scaling.original_context);
  std::vector<float> divisors;
  for (int64_t i = 0; i < dim / 2; ++i) {
    const double exponent = 2 * static_cast<double>(i) / static_cast<double>(dim);
    const double wavelength = 2 * std::numbers::pi * std::pow(theta, exponent);
    // 0 for long wavelengths, which are divided by the factor, 1 for short ones.
    const double part =
        std::clamp((original / wavelength - scaling.low) / (scaling.high - scaling.low), 0.0, 1.0);
    divisors.push_back(static_cast<float>(1 / ((1 - part) / scaling.factor + part)));
  }
  return divisors;
}

std::optional<nn::RopeScaling> llama3_scaling(const Tensor& divisors, int64_t dim, double theta,
                                              int64_t original_context) {
  if (divisors.dtype() != DType::f32 || divisors.numel() != dim / 2 || dim < 2) return {};
  const float* given = divisors.data<float>();
  const float factor = *std::max_element(given, given + divisors.numel());
  if (!(factor >= 1) || !std::isfinite(factor)) return {};
  const nn::RopeScaling scaling{.kind = nn::RopeScalingKind::llama3,
                                .factor = factor,
                                .low = 1,
                                .high = 4,
                                .original_context = original_context};
  const std::vector<float> expected = llama3_divisors(dim, theta, scaling);
  constexpr float tolerance = 1e-4F;  // others compute wavelengths in f32
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!(std::abs(given[i] - expected[i]) <= tolerance * expected[i])) return {};
  }
  return scaling;
}

}  // namespace binade::io::gguf
