#include "binade/lab/diagnosis.h"

#include <fmt/format.h>

#include <cmath>

#include "binade/amp/autocast.h"
#include "binade/ops/arithmetic.h"
#include "binade/optim/clip.h"

namespace binade::lab {
namespace {

std::vector<Tensor> tensors_of(const NamedTensors& named) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

// The norm of finite gradients may still overflow f32.
std::optional<Finding> overflowing_norm(const NamedTensors& parameters, double scale) {
  const double norm = optim::grad_norm(tensors_of(parameters)).item() / scale;
  if (std::isfinite(norm)) return {};
  return Finding{.op = "grad_norm",
                 .direction = Direction::optimizer,
                 .origin = Origin::update,
                 .tensor = "norm of all gradients",
                 .first = {.index = {0}, .value = norm, .count = 1},
                 .scale = scale};
}

// Runs one forward and backward and checks every value.
std::optional<Finding> examine(const DiagnosisInput& input, ReplayPrecision precision,
                               double scale) {
  const NamedTensors parameters = input.parameters(precision);
  const auto zero_grads = [&parameters] {
    for (const auto& [name, parameter] : parameters) parameter.zero_grad();
  };
  zero_grads();
  FaultFinder finder(parameters, scale);
  const autograd::OpObserverScope scope(&finder);
  Tensor loss = input.loss(precision);
  if (const Finding* found = finder.origin(loss)) return *found;
  if (!loss.requires_grad()) return {};
  const amp::Autocast off(amp::disabled_autocast());
  if (scale != 1) loss = loss * scale;
  if (const Finding* found = finder.origin(loss)) return *found;
  loss.backward();
  const Finding* found = finder.gradient_origin();
  std::optional<Finding> result =
      found != nullptr ? std::optional(*found) : overflowing_norm(parameters, scale);
  zero_grads();
  return result;
}

// The largest power of two at which the backward is finite. It is at 1 and is not at `scale`.
double largest_scale(const DiagnosisInput& input, double scale) {
  int good = 0, bad = static_cast<int>(std::ceil(std::log2(scale)));
  while (bad - good > 1) {
    const int middle = (good + bad) / 2;
    const bool overflows =
        examine(input, ReplayPrecision::as_run, std::ldexp(1.0, middle)).has_value();
    (overflows ? bad : good) = middle;
  }
  return std::ldexp(1.0, good);
}

// The module, or the op outside of modules.
std::string location(const Finding& finding) {
  return finding.module.empty() ? "op " + finding.op : finding.module;
}

std::string advice_on_precision(const Finding& f) {
  const std::string where = location(f);
  if (f.direction == Direction::optimizer)
    return "keep f32 master weights ([precision] params = \"masters\" or \"autocast\")";
  if (f.dtype == DType::f16) {
    return fmt::format(
        "{} needs more range than f16's 65504: train in bf16, or keep {} in f32 "
        "(Policy::set_module(\"{}\", CastClass::f32))",
        f.origin == Origin::cast ? "an input of " + where : where, where, f.module);
  }
  return fmt::format("keep {} in f32 (Policy::set_module(\"{}\", CastClass::f32))", where,
                     f.module);
}

std::string advice_on_mathematics(const Finding& f) {
  struct Rule {
    std::string_view ops, text;
  };
  // Ops with a bounded domain or an unbounded derivative, and how to keep their inputs safe.
  static constexpr Rule rules[] = {
      {" log log2 log10 log1p ", "clamp its input above 0, or use a loss that takes logits"},
      {" div reciprocal rsqrt addcdiv atan2 ", "add a small epsilon to what it divides by"},
      {" sqrt norm cdist pow ", "its derivative is infinite at 0: add a small epsilon inside"},
      {" exp expm1 sinh cosh prod cumprod ", "it overflows: subtract the maximum first, or clamp"},
      {" asin acos erfinv tan ", "clamp its input inside its domain"},
      {" batch_norm group_norm layer_norm rms_norm ", "raise its eps"},
  };
  if (f.op == "grad_norm") return "gradients explode: lower the learning rate or warm up longer";
  for (const Rule& rule : rules) {
    if (rule.ops.find(" " + f.op + " ") != std::string_view::npos) return std::string(rule.text);
  }
  return fmt::format(
      "f32 does not help: check the inputs of {} (largest {:.3g}), lower the learning rate, or "
      "clip gradients",
      location(f), f.largest_input);
}

std::string advice(const Diagnosis& d, double scale) {
  switch (d.verdict) {
    case Verdict::data:
      return "fix or drop this example: see " + d.finding.tensor + " at " +
             to_string(d.finding.first.index);
    case Verdict::weights:
      return "an earlier update or the checkpoint caused it: resume from an earlier checkpoint "
             "with a "
             "lower learning rate, or raise Adam's eps";
    case Verdict::scale:
      return fmt::format(
          "nothing to change with a dynamic loss scaler, which halves the scale {} until it fits; "
          "a "
          "fixed scale must be at most {}",
          scale_text(scale), scale_text(d.largest_scale));
    case Verdict::precision:
      return advice_on_precision(d.finding);
    case Verdict::mathematics:
      return advice_on_mathematics(d.finding);
  }
  return "";
}

}  // namespace

std::string_view name(Verdict verdict) {
  constexpr std::string_view names[] = {"precision", "scale", "mathematics", "data", "weights"};
  return names[static_cast<size_t>(verdict)];
}

std::optional<Diagnosis> diagnose(const DiagnosisInput& input) {
  const auto finding = examine(input, ReplayPrecision::as_run, input.scale);
  if (!finding) return {};
  Diagnosis result{.finding = *finding};
  if (finding->origin == Origin::data) {
    result.verdict = Verdict::data;
  } else if (finding->origin == Origin::parameter) {
    result.verdict = Verdict::weights;
  } else if (input.scale != 1 && finding->direction != Direction::forward &&
             !examine(input, ReplayPrecision::as_run, 1)) {
    result.verdict = Verdict::scale;
    result.largest_scale = largest_scale(input, input.scale);
  } else {
    result.in_f32 = examine(input, ReplayPrecision::f32, 1);
    result.verdict = result.in_f32 ? Verdict::mathematics : Verdict::precision;
  }
  result.advice = advice(result, input.scale);
  return result;
}

std::string to_text(const Diagnosis& d) {
  std::string text = to_text(d.finding) + "\n  ";
  switch (d.verdict) {
    case Verdict::precision:
      text += "the same micro-batch in f32 is finite: precision is to blame";
      break;
    case Verdict::scale:
      text += fmt::format("everything is finite at loss scales from 1 to {}: the scale is to blame",
                          scale_text(d.largest_scale));
      break;
    case Verdict::mathematics:
      text += fmt::format("it also happens in f32 ({}{}, {}): precision is not to blame",
                          d.in_f32->op, d.in_f32->module.empty() ? "" : " in " + d.in_f32->module,
                          name(d.in_f32->direction));
      break;
    case Verdict::data:
      text += "it was in the batch: precision is not to blame";
      break;
    case Verdict::weights:
      text += "it was in the weights before this step: the precision of this step is not to blame";
      break;
  }
  return text + "\n  try: " + d.advice;
}

}  // namespace binade::lab
