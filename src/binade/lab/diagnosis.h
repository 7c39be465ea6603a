#pragma once

#include <functional>
#include <optional>

#include "binade/lab/fault.h"

// What is wrong, whose fault it is, and what to do about it.
namespace binade::lab {

// A computation that can be run again and again with the same result.
struct DiagnosisInput {
  // The forward as the run does it, or everything in f32. Gradients are left alone.
  std::function<Tensor(bool in_f32)> loss;
  // The parameters it reads, which may be others in f32.
  std::function<NamedTensors(bool in_f32)> parameters;
  double scale = 1;  // of the loss
};

enum class Verdict : uint8_t {
  precision,    // in f32 everything is finite
  scale,        // at loss scale 1 everything is finite in this very precision
  mathematics,  // f32 does not help
  data,         // the batch itself is not finite
  weights,      // the parameters are not finite already
};
std::string_view name(Verdict verdict);

struct Diagnosis {
  Finding finding;
  Verdict verdict = Verdict::mathematics;
  std::optional<Finding> in_f32;  // the first bad value of the replay in f32
  double largest_scale = 0;       // where the verdict is scale: the largest power of two that works
  std::string advice;             // the smallest change that helps
};

// Runs the patient with every value looked at, and again in f32. Nothing where all is finite.
// The parameters' gradients are forgotten.
std::optional<Diagnosis> diagnose(const DiagnosisInput& patient);

// The finding, the verdict and the advice, for people.
std::string to_text(const Diagnosis& diagnosis);

}  // namespace binade::lab
