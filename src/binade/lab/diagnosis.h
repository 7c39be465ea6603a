#pragma once

#include <functional>
#include <optional>

#include "binade/lab/fault.h"

// Finds the cause of a non-finite value.
namespace binade::lab {

// The precision a diagnosis runs a computation in.
enum class ReplayPrecision : uint8_t {
  as_run,  // the precision of the run
  f32,     // f32 throughout
};

// A computation that gives the same result every time it runs.
struct DiagnosisInput {
  // Runs the forward. Gradients stay untouched.
  std::function<Tensor(ReplayPrecision)> loss;
  // The parameters the forward reads; those of the f32 replay may be copies.
  std::function<NamedTensors(ReplayPrecision)> parameters;
  double scale = 1;  // loss scale
};

enum class Verdict : uint8_t {
  precision,    // everything is finite in f32
  scale,        // everything is finite at loss scale 1 in the same precision
  mathematics,  // f32 does not help
  data,         // the batch contains non-finite values
  weights,      // the parameters already contain non-finite values
};
std::string_view name(Verdict verdict);

struct Diagnosis {
  Finding finding;
  Verdict verdict = Verdict::mathematics;
  std::optional<Finding> in_f32;  // the first non-finite value of the f32 replay
  double largest_scale = 0;       // if the verdict is scale: the largest power of two that works
  std::string advice;             // the smallest change that helps
};

// Runs the computation and checks every value; if one is non-finite, runs it again at other loss
// scales or in f32 to find the cause. Returns nothing if all values are finite. Clears the
// parameters' gradients.
std::optional<Diagnosis> diagnose(const DiagnosisInput& input);

// The finding, the verdict and the advice as text.
std::string to_text(const Diagnosis& diagnosis);

}  // namespace binade::lab
