#pragma once

#include "binade/lab/diagnosis.h"

// The parts of a diagnosis. Not part of the public interface.
namespace binade::lab {

// Runs one forward and backward and checks every value.
std::optional<Finding> examine(const DiagnosisInput& input, const Replay& replay, double scale);

// The largest power of two below `scale`, down to 2^-24, at which everything is finite; 0 if there
// is none.
double largest_scale(const DiagnosisInput& input, const Replay& replay, double scale);

// Tries to keep the op of the finding in f32, then whatever fails next, then whole modules, then
// bf16 throughout. Returns the smallest set of changes that made the replay finite.
std::optional<Cure> find_cure(const DiagnosisInput& input, const Finding& finding);

// Gradients that are zero although f32 has non-zero ones.
struct Underflow {
  Finding finding;     // the first backward that loses them
  double flushed = 0;  // fraction of the gradient elements that are non-zero in f32
  std::vector<std::pair<std::string, double>> parameters;  // the same by parameter, worst first
  std::optional<Cure> cure;
};
// Nothing if few gradients are lost, or if the computation cannot run in f32.
std::optional<Underflow> find_underflow(const DiagnosisInput& input);

}  // namespace binade::lab
