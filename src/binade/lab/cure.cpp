#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/autograd/module_path.h"
#include "binade/autograd/op_observer.h"
#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/lab/examine.h"
#include "binade/ops/create/create.h"
#include "binade/train/config/overrides.h"

namespace binade::lab {
namespace {

// More exceptions than this are no cure but another precision.
constexpr size_t max_exceptions = 12;
// A dynamic scaler settles below what a few batches allow: gradients of others are larger.
constexpr double scale_headroom = 4;

// Whether the replay is finite; a replay that cannot run is not. Lowers cure.scale if that helps.
bool is_finite(const DiagnosisInput& input, Cure& cure, std::optional<Finding>& found) {
  const Replay replay{.autocast_type = cure.autocast_type, .kept = cure.kept};
  const double start = cure.autocast_type ? 1 : cure.scale.value_or(input.scale);
  try {
    found = examine(input, replay, start);
    if (!found) return true;
    if (found->direction == Direction::forward || start <= 1) return false;
    const double scale = largest_scale(input, replay, start);
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

// Adds exceptions for a finding, and for what fails next, until the replay is finite.
bool add_exceptions(const DiagnosisInput& input, Cure& cure, std::optional<Finding> found) {
  while (found && found->direction != Direction::optimizer && cure.kept.size() < max_exceptions) {
    const auto next = next_exception(cure.kept, *found);
    if (!next) return false;
    cure.kept.push_back(*next);
    if (is_finite(input, cure, found)) return true;
  }
  return false;
}

// Whether an element of a tensor of the type is larger than the limit.
bool exceeds(std::span<const Tensor> tensors, DType dtype, double limit) {
  for (const Tensor& x : tensors) {
    if (!x.defined() || x.dtype() != dtype) continue;
    for (const double value : to_vector(x.detach())) {
      if (std::abs(value) > limit) return true;
    }
  }
  return false;
}

// Finds ops in f16 that are close to overflowing: by their operands or results, or since an op
// before them in the same module has an f32 result that f16 does not hold. An activation function
// may turn that into zeros in one batch and not in the next.
class HeadroomFinder : public autograd::OpObserver {
 public:
  void forward(Op op, std::span<const Tensor>, std::span<const Tensor> compute,
               std::span<const Tensor> outputs) override {
    // Activations of healthy layers are tens; those behind a giant weight grow as it learns.
    constexpr double largest = 65504, limit = largest / 64;
    const std::string& module = autograd::module_path();
    const KeptInF32 one{.module = module, .op = op};
    const bool is_close = exceeds(compute, DType::f16, limit) ||
                          exceeds(outputs, DType::f16, limit) ||
                          (follows_overflow(module) && is_narrow(compute));
    if (op != Op::custom && !contains(close, one) && is_close) close.push_back(one);
    const size_t dot = module.rfind('.');
    if (dot != std::string::npos && exceeds(outputs, DType::f32, largest))
      overflowing_.push_back(module.substr(0, dot));
  }

  void after_backward(const autograd::Node&, std::span<const Tensor>) override {}

  std::vector<KeptInF32> close;

 private:
  bool follows_overflow(const std::string& module) const {
    return std::any_of(overflowing_.begin(), overflowing_.end(), [&](const std::string& around) {
      return module == around || module.starts_with(around + ".");
    });
  }
  static bool is_narrow(std::span<const Tensor> tensors) {
    return std::any_of(tensors.begin(), tensors.end(),
                       [](const Tensor& x) { return x.defined() && x.dtype() == DType::f16; });
  }

  std::vector<std::string> overflowing_;  // modules with such a result
};

// Adds the ops that would overflow next, if the replay stays finite without them in f16.
void add_headroom(const DiagnosisInput& input, Cure& cure) {
  if (cure.kept.empty() || cure.autocast_type) return;
  HeadroomFinder finder;
  {
    const autograd::OpObserverScope scope(&finder);
    input.loss({.kept = cure.kept});
  }
  Cure wider = cure;
  for (const KeptInF32& one : finder.close) {
    if (!contains(wider.kept, one) && wider.kept.size() < max_exceptions) wider.kept.push_back(one);
  }
  std::optional<Finding> ignored;
  if (wider.kept.size() > cure.kept.size() && is_finite(input, wider, ignored)) cure = wider;
}

// Adds what other batches need, and counts those that the result suits.
void suit_other_batches(const DiagnosisInput& input, Cure& cure) {
  if (!input.others.empty()) add_headroom(input, cure);
  std::optional<Finding> found;
  for (size_t i = 0; i < input.others.size(); ++i) {
    const DiagnosisInput other = with_other_batch(input, i);
    if (is_finite(other, cure, found) || !found) continue;
    Cure wider = cure;
    if (add_exceptions(other, wider, found)) cure = wider;
  }
  for (size_t i = 0; i < input.others.size(); ++i) {
    ++cure.batches;
    cure.held += is_finite(with_other_batch(input, i), cure, found) ? 1 : 0;
  }
  if (!input.others.empty() && cure.scale) cure.scale = std::max(*cure.scale / scale_headroom, 1.0);
}

std::string module_argument(const std::string& module) {
  return module.empty() ? "" : ", " + json::in_quotes(module);
}

}  // namespace

DiagnosisInput with_other_batch(const DiagnosisInput& input, size_t i) {
  DiagnosisInput other = input;
  other.loss = input.others[i];
  return other;
}

std::optional<Cure> find_cure(const DiagnosisInput& input, const Finding& finding) {
  Cure cure{.quantized = input.quantized};
  std::optional<Finding> ignored;
  if (add_exceptions(input, cure, finding)) {
    shrink(input, cure);
  } else {
    cure = {.autocast_type = DType::bf16};
    if (finding.dtype != DType::f16 || !is_finite(input, cure, ignored)) return {};
  }
  suit_other_batches(input, cure);
  return cure;
}

Cure scale_cure(const DiagnosisInput& input, double scale) {
  Cure cure{.scale = scale};
  suit_other_batches(input, cure);
  return cure;
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
