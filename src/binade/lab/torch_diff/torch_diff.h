#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/lab/torch_diff/recording.h"
#include "binade/nn/language_model.h"
#include "binade/train/model_precision.h"

// Where a torch model's computation and Binade's part.
namespace binade::lab {

// The first tensor that differs by more than rounding explains.
struct TorchDifference {
  std::string name;   // "activation/blocks.0.attention/rope", "gradient/...", "weight/..."
  std::string part;   // the heads or halves of it that differ: "q", "gate"; empty: all of it
  std::string torch;  // what torch computes in its place; empty: the recording has nothing like it
  Shape index;        // of the first element that differs
  double value = 0, torch_value = 0;
  double relative = 0, explained = 0;  // distance over the norm, and what rounding explains of it
  std::string computed_by;             // of a gradient: the ops whose backward made it
  std::vector<std::string> after;      // the results it is computed from, which agree
  std::vector<std::string> unseen;     // results in between that the recording has nothing like
};

struct TorchDiff {
  std::optional<TorchDifference> first;  // none: they agree
  double roundoff = 0;                   // of the coarser side's numbers
  // Tensors that were laid beside torch's and agree.
  int64_t weights = 0, results = 0, gradients = 0, parameter_gradients = 0;
  double farthest = 0;                // the largest relative distance among these
  double share = 0;                   // and the largest fraction of what rounding explains
  int64_t noise = 0;                  // that agree, but rounding may be half of them
  std::vector<std::string> unpaired;  // results that the recording has nothing like
  std::vector<std::string> notes;

  bool equal() const { return !first; }
};

// Compares weights; then the results of a forward, op by op; then gradients in the order of the
// backward, if the recording has any. Stops at the first of the three that differs. Changes the
// model's weights. Fails if the recording is not of such a model.
TorchDiff diff_torch(nn::LanguageModel& model, const TorchRecording& recording,
                     const train::InferencePrecision& precision = {});

std::string torch_diff_text(const TorchDiff& diff, const std::string& model,
                            const std::string& recording);
std::string torch_diff_json(const TorchDiff& diff);

}  // namespace binade::lab
