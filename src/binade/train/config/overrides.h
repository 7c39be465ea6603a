#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/amp/fp8.h"
#include "binade/amp/policy.h"

// Precision by module and by op: the entries of [[precision.override]] in a configuration.
namespace binade::train {

// One exception from the run's precision. Everything it names applies inside `module` (a path such
// as "blocks.0.mlp", empty: everywhere) and all below it; the longest path wins.
struct PrecisionOverride {
  std::string module;
  std::string op;           // with `run`: this op only; empty: every op
  std::string run;          // class the ops run in under autocast: "f32", "lower", ...
  std::optional<bool> fp8;  // false: not in FP8
  std::optional<std::string> fp8_scaling;
  std::optional<bool> fp8_forward, fp8_dgrad, fp8_wgrad;  // which products run in FP8

  bool names_fp8() const { return fp8 || fp8_scaling || fp8_forward || fp8_dgrad || fp8_wgrad; }
  bool operator==(const PrecisionOverride&) const = default;
};

using PrecisionOverrides = std::vector<PrecisionOverride>;

// Fails, naming `where`, unless op, run and fp8_scaling are known and something is overridden.
void check(const PrecisionOverride& entry, const std::string& where);

// The entries as TOML; empty where there are none.
std::string to_toml(const PrecisionOverrides& overrides);

// What they make of the autocast policy and of an FP8 recipe.
amp::Policy policy_of(const PrecisionOverrides& overrides);
amp::Fp8State fp8_state_of(bool enabled, const amp::Fp8Recipe& recipe,
                           const PrecisionOverrides& overrides);

// Leaves `module` and all below it out of FP8.
void exclude(amp::Fp8State& state, const std::string& module);

}  // namespace binade::train
