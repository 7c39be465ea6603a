#include "binade/nn/rope.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <string>

#include "binade/base/error.h"

namespace binade::nn {
namespace {

double scaled(double frequency, const RopeScaling& scaling) {
  if (scaling.kind == RopeScalingKind::none) return frequency;
  const double slow = frequency / scaling.factor;
  if (scaling.kind == RopeScalingKind::linear) return slow;
  const double wavelength = 2 * std::numbers::pi / frequency;
  const auto original = static_cast<double>(scaling.original_context);
  if (wavelength < original / scaling.high) return frequency;
  if (wavelength > original / scaling.low) return slow;
  const double unscaled = (original / wavelength - scaling.low) / (scaling.high - scaling.low);
  return (1 - unscaled) * slow + unscaled * frequency;
}

}  // namespace

std::vector<float> rope_frequencies(int64_t dim, double theta, const RopeScaling& scaling) {
  if (dim < 2 || dim % 2 != 0 || !(theta > 0) || std::isinf(theta)) {
    fail("rope_frequencies", {.argument = "dim, theta",
                              .expected = "an even number, a finite number more than 0",
                              .found = std::to_string(dim) + ", " + fmt::format("{}", theta)});
  }
  std::vector<float> frequencies;
  for (int64_t i = 0; i < dim / 2; ++i) {
    // Rounded to f32 as in other implementations, so that their checkpoints give the same angles.
    const auto frequency = static_cast<float>(
        1 / std::pow(theta, static_cast<double>(2 * i) / static_cast<double>(dim)));
    frequencies.push_back(static_cast<float>(scaled(frequency, scaling)));
  }
  return frequencies;
}

}  // namespace binade::nn
