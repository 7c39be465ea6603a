#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binade/lab/replay/replay_difference.h"
#include "binade/lab/replay/tensor_summary.h"

// Any tensor of any step of a run: the step is replayed and observed.
namespace binade::lab {

struct RecordedRun;

struct ViewOptions {
  int64_t step = 1;   // counted from 1, as in the log
  int64_t micro = 0;  // micro-batch whose activations and gradients are shown; -1: all
  // Patterns of names (matches_tensor); empty: all tensors.
  std::vector<std::string> tensors = {};
  bool shadow = true;  // compute the micro-batch in f32, too
};

// Names, beside those of Capture: gradient/NAME of a parameter, summed over micro-batches, without
// the loss scale and before clipping; weight/NAME, master/NAME, first/NAME and second/NAME (the
// optimizer's moments) and scale/NAME (histories of delayed scales; scale/loss) as they are after
// the step; logits.
struct ViewedTensor {
  std::string name;
  Tensor value;  // on the host
  TensorSummary summary;
  // How an unobserved step computes it, if by another kernel; empty: by the same.
  std::string unobserved = {};
};

struct StepView {
  int64_t step = 0, micro = 0;
  int64_t origin = 0;    // step of the checkpoint that the replay began with; 0: the start
  int64_t compared = 0;  // recorded hashes that the replay has met, all equal
  double loss = 0, gradient_norm = 0;  // of the step; before clipping
  bool applied = true;                 // else it was skipped,
  std::string reason;                  // and why
  // Of the state after the step, by its parts: weights, moments, scales, data.
  std::vector<std::pair<std::string, uint64_t>> hash;
  // Whether the observed step changed the state as the unobserved one did; the parts that differ.
  std::string observed_difference;
  std::optional<ReplayDifference> difference;  // from the record
  std::vector<ViewedTensor> tensors;
  std::vector<std::string> notes;

  bool equal() const { return observed_difference.empty() && !difference; }
};

// Replays the step twice, unobserved and observed, and compares. Fails for a step that the run does
// not have and for patterns that name no tensor.
StepView view_step(const RecordedRun& run, const ViewOptions& options);

// A table; with `histogram`, exponents and the largest elements of each tensor.
std::string view_text(const StepView& view, bool histogram);
std::string view_json(const StepView& view);
std::string view_html(const StepView& view, const std::string& title);
// Writes the values, under their names.
void save_view(const StepView& view, const std::string& file);

}  // namespace binade::lab
