#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/lab/replay/recorded_run.h"

// The first difference of two runs, and its cause.
namespace binade::lab {

enum class CauseKind : uint8_t {
  data,       // other tokens
  order,      // the same tokens at other positions
  seed,       // of initial weights, batches and dropout
  setting,    // any other setting, by name
  cast,       // autocast, its policy or the parameters' type
  recipe,     // how layers quantize
  kernels,    // the CPU's kernels (BINADE_CPU)
  processor,  // another one
  version,    // of Binade
  state,      // a record or a checkpoint that replaying the run does not give: a fault or a change
};
std::string_view name(CauseKind kind);

struct Cause {
  CauseKind kind = CauseKind::setting;
  std::string what;  // "beta1: 0.9 and 0.8"
  // The first run, replayed with it, became the second: alone, or with the other confirmed ones.
  bool confirmed = false;
};

// The first tensor that differs within a step.
struct TensorDifference {
  std::string name;  // as StepView has it, "micro.1/activation/blocks.0.mlp.up/linear"
  std::string a, b;  // type and shape, if these differ
  Shape index;       // of the first element that differs
  double value_a = 0, value_b = 0;
  int64_t elements = 0, differing = 0;
};

struct RunDiff {
  bool equal = false;
  int64_t compared = 0;     // hashes that both runs have, up to the first difference
  int64_t last_equal = -1;  // the last step whose states are known to be equal; -1: none
  int64_t step = -1;        // the first after which the states differ; -1: none, or not known
  bool replayed = false;    // `step` was found by replaying, else by the logs alone
  std::string parts;        // "weights, moments"
  std::optional<TensorDifference> tensor;
  std::vector<Cause> causes;  // the likeliest first
  std::vector<std::string> notes;

  // Whether the steps that both runs have are known to be equal, or to differ.
  bool is_known() const { return equal || step >= 0; }
};

// Compares the hashes of two runs, in their logs and checkpoints, replays both from the last equal
// state to the first step that differs, compares that step op by op, and tries what the runs do not
// have in common one by one.
RunDiff diff_runs(const std::string& a, const std::string& b);

std::string diff_text(const RunDiff& diff, const std::string& a, const std::string& b);
std::string diff_json(const RunDiff& diff);

}  // namespace binade::lab
