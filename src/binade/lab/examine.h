#pragma once

#include "binade/lab/diagnosis.h"

// The parts of a diagnosis. Not part of the public interface.
namespace binade::lab {

// Runs one forward and backward and checks every value.
std::optional<Finding> examine(const DiagnosisInput& input, const Replay& replay, double scale);

// The earliest overflow of a 16-bit type in the forward, also if nothing non-finite comes of it,
// since something is divided by it.
std::optional<Finding> find_overflow(const DiagnosisInput& input, const Replay& replay);

// The largest power of two below `scale`, down to 2^-24, at which everything is finite; 0 if there
// is none.
double largest_scale(const DiagnosisInput& input, const Replay& replay, double scale);

// Tries to keep the op of the finding in f32, then whatever fails next, then whole modules, then
// bf16 throughout. Returns the smallest set of changes that made the replay finite, with what the
// other batches need besides.
std::optional<Cure> find_cure(const DiagnosisInput& input, const Finding& finding);

// A cure by the loss scale alone: the largest that is finite on every batch, at most `scale`.
Cure scale_cure(const DiagnosisInput& input, double scale);

// The same computation with other batch `i`.
DiagnosisInput with_other_batch(const DiagnosisInput& input, size_t i);

// Gradients that are zero although f32 has non-zero ones.
struct Underflow {
  Finding finding;     // the first backward that loses them, or the overflow that is divided away
  double flushed = 0;  // fraction of the gradient elements that are non-zero in f32
  std::vector<std::pair<std::string, double>> parameters;  // the same by parameter, worst first
  std::optional<Cure> cure;
};
// Nothing if few gradients are lost, or if the computation cannot run in f32.
std::optional<Underflow> find_underflow(const DiagnosisInput& input);

}  // namespace binade::lab
