#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/amp/fp8.h"
#include "binade/amp/policy.h"

// Precision by module and by op: the entries of [[precision.override]] in a configuration.
namespace binade::train {

// One exception from the run's precision. It applies inside `module` (a path such as
// "blocks.0.mlp"; empty: everywhere) and all modules below it; the longest path wins.
struct PrecisionOverride {
  std::string module;
  std::optional<Op> op = {};          // with `run`: this op only; none: every op
  std::optional<CastClass> run = {};  // class of the ops under autocast
  std::optional<bool> fp8 = {};       // false: no FP8
  std::optional<amp::Fp8Scaling> fp8_scaling = {};
  // Which of a linear's three matmuls run in FP8.
  std::optional<bool> fp8_forward = {}, fp8_dgrad = {}, fp8_wgrad = {};

  bool names_fp8() const { return fp8 || fp8_scaling || fp8_forward || fp8_dgrad || fp8_wgrad; }
  bool operator==(const PrecisionOverride&) const = default;
};

using PrecisionOverrides = std::vector<PrecisionOverride>;

// Fails, naming `where`, for an op without a class and for an entry that overrides nothing.
void check(const PrecisionOverride& entry, const std::string& where);

// The entries as TOML; empty if there are none.
std::string to_toml(const PrecisionOverrides& overrides);

// The autocast policy, and the FP8 state of a recipe, with the overrides.
amp::Policy policy_of(const PrecisionOverrides& overrides);
amp::Fp8State fp8_state_of(bool enabled, const amp::Fp8Recipe& recipe,
                           const PrecisionOverrides& overrides);

// Excludes `module` and all modules below it from FP8.
void exclude(amp::Fp8State& state, const std::string& module);

}  // namespace binade::train
