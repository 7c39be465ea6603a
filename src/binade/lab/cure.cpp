#include <fmt/format.h>

#include <algorithm>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/lab/examine.h"
#include "binade/train/config/overrides.h"

namespace binade::lab {
namespace {

// More exceptions than this are no cure but another precision.
constexpr size_t max_exceptions = 12;

// Whether the replay is finite; a replay that cannot run is not. Lowers cure.scale if that helps.
bool is_finite(const DiagnosisInput& input, Cure& cure, std::optional<Finding>& found) {
  const Replay replay{.autocast_type = cure.autocast_type, .kept = cure.kept};
  try {
    found = examine(input, replay, cure.autocast_type ? 1 : input.scale);
    if (!found) return true;
    if (found->direction == Direction::forward || input.scale <= 1 || cure.autocast_type)
      return false;
    const double scale = largest_scale(input, replay, input.scale);
    if (scale <= 1) return false;
    cure.scale = scale;
    return true;
  } catch (const Error&) {
    found.reset();
    return false;
  }
}

bool contains(const std::vector<KeptInF32>& kept, const KeptInF32& one) {
  return std::find(kept.begin(), kept.end(), one) != kept.end();
}

// The next exception to try for a finding: its op, then its module, then the modules around it.
std::optional<KeptInF32> next_exception(const std::vector<KeptInF32>& tried,
                                        const Finding& finding) {
  KeptInF32 one{.module = finding.module};
  if (const auto op = find_op(finding.op); op && *op != Op::custom) {
    one.op = op;
    if (!contains(tried, one)) return one;
    one.op.reset();
  }
  while (!one.module.empty()) {
    if (!contains(tried, one)) return one;
    const size_t dot = one.module.rfind('.');
    one.module.resize(dot == std::string::npos ? 0 : dot);
  }
  return {};
}

// Removes the exceptions that are not needed.
void shrink(const DiagnosisInput& input, Cure& cure) {
  std::optional<Finding> ignored;
  for (size_t i = cure.kept.size(); i-- > 0 && cure.kept.size() > 1;) {
    Cure smaller = cure;
    smaller.kept.erase(smaller.kept.begin() + static_cast<std::ptrdiff_t>(i));
    if (is_finite(input, smaller, ignored)) cure = smaller;
  }
}

std::string module_argument(const std::string& module) {
  return module.empty() ? "" : ", " + json::in_quotes(module);
}

}  // namespace

std::optional<Cure> find_cure(const DiagnosisInput& input, const Finding& finding) {
  Cure cure{.quantized = input.quantized};
  std::optional<Finding> found = finding;
  while (found && found->direction != Direction::optimizer && cure.kept.size() < max_exceptions) {
    const auto next = next_exception(cure.kept, *found);
    if (!next) break;
    cure.kept.push_back(*next);
    if (!is_finite(input, cure, found)) continue;
    shrink(input, cure);
    return cure;
  }
  Cure in_bf16{.autocast_type = DType::bf16};
  if (finding.dtype == DType::f16 && is_finite(input, in_bf16, found)) return in_bf16;
  return {};
}

std::string Cure::toml() const {
  std::string text;
  if (autocast_type || scale) text += "[precision]\n";
  if (autocast_type)
    text += fmt::format("precision = \"{}\"\n", *autocast_type == DType::bf16 ? "bf16" : "fp16");
  if (scale) text += fmt::format("scale_init = {}\n", *scale);
  train::PrecisionOverrides overrides;
  for (const KeptInF32& one : kept) {
    overrides.push_back({.module = one.module, .op = one.op, .run = CastClass::f32});
    if (quantized) overrides.back().recipe = train::no_recipe;
  }
  const std::string entries = train::to_toml(overrides);
  return text + (text.empty() && !entries.empty() ? entries.substr(1) : entries);
}

std::string Cure::cpp() const {
  std::string text;
  if (!kept.empty()) text += "amp::Policy policy;\n";
  for (const KeptInF32& one : kept) {
    text += one.op ? fmt::format("policy.set(Op::{}, CastClass::f32{});\n", name(*one.op),
                                 module_argument(one.module))
                   : fmt::format("policy.set_module({}, CastClass::f32);\n",
                                 json::in_quotes(one.module));
  }
  if (!kept.empty())
    text += "amp::Autocast cast(DType::f16, {.policy = std::make_shared<amp::Policy>(policy)});\n";
  if (autocast_type) text += fmt::format("amp::Autocast cast(DType::{});\n", name(*autocast_type));
  if (scale) text += fmt::format("amp::GradScaler scaler({{.init_scale = {}}});\n", *scale);
  return text;
}

}  // namespace binade::lab
