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

// Finite gradients may still have a norm past the largest float.
std::optional<Finding> overflowing_norm(const NamedTensors& parameters, double scale) {
  const double norm = optim::grad_norm(tensors_of(parameters)).item() / scale;
  if (std::isfinite(norm)) return {};
  return Finding{.op = "grad_norm",
                 .direction = Direction::optimizer,
                 .origin = Origin::update,
                 .tensor = "norm of all gradients",
                 .bad = {.index = {0}, .value = norm, .count = 1},
                 .scale = scale};
}

// One forward and backward with every value looked at.
std::optional<Finding> examine(const DiagnosisInput& patient, bool in_f32, double scale) {
  const NamedTensors parameters = patient.parameters(in_f32);
  const auto forget = [&parameters] {
    for (const auto& [name, parameter] : parameters) parameter.zero_grad();
  };
  forget();
  FaultFinder finder(parameters, scale);
  const autograd::OpObserverScope scope(&finder);
  Tensor loss = patient.loss(in_f32);
  if (const Finding* found = finder.origin(loss)) return *found;
  if (!loss.requires_grad()) return {};
  const amp::Autocast off(amp::disabled_autocast());
  if (scale != 1) loss = loss * scale;
  if (const Finding* found = finder.origin(loss)) return *found;
  loss.backward();
  const Finding* found = finder.gradient_origin();
  std::optional<Finding> result =
      found != nullptr ? std::optional(*found) : overflowing_norm(parameters, scale);
  forget();
  return result;
}

// The largest power of two at which the backward stays finite, given that 1 does and `scale` does
// not.
double largest_scale(const DiagnosisInput& patient, double scale) {
  int good = 0, bad = static_cast<int>(std::ceil(std::log2(scale)));
  while (bad - good > 1) {
    const int middle = (good + bad) / 2;
    (examine(patient, false, std::ldexp(1.0, middle)) ? bad : good) = middle;
  }
  return std::ldexp(1.0, good);
}

std::string place(const Finding& finding) {
  return finding.module.empty() ? "op " + finding.op : finding.module;
}

std::string advice_on_precision(const Finding& f) {
  const std::string where = place(f);
  if (f.direction == Direction::optimizer)
    return "keep f32 masters of the parameters ([precision] params = \"masters\" or \"autocast\")";
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
  // Ops whose domain or derivative ends somewhere, and what keeps their inputs inside.
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
      "f32 does not help: look at what enters {} (largest {:.3g}), lower the learning rate, or "
      "clip gradients",
      place(f), f.largest_input);
}

std::string advice(const Diagnosis& d, double scale) {
  switch (d.verdict) {
    case Verdict::data:
      return "mend or drop this example: " + d.finding.tensor + " holds it at " +
             to_string(d.finding.bad.index);
    case Verdict::weights:
      return "an earlier update, or the checkpoint, made it: go back to the last checkpoint and "
             "lower the learning rate, or raise Adam's eps";
    case Verdict::scale:
      return fmt::format(
          "nothing to change where the scaler is dynamic: it halves the scale {} until it fits. A "
          "fixed one must be at most {}",
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

std::optional<Diagnosis> diagnose(const DiagnosisInput& patient) {
  const auto finding = examine(patient, false, patient.scale);
  if (!finding) return {};
  Diagnosis result{.finding = *finding};
  if (finding->origin == Origin::data) {
    result.verdict = Verdict::data;
  } else if (finding->origin == Origin::parameter) {
    result.verdict = Verdict::weights;
  } else if (patient.scale != 1 && finding->direction != Direction::forward &&
             !examine(patient, false, 1)) {
    result.verdict = Verdict::scale;
    result.largest_scale = largest_scale(patient, patient.scale);
  } else {
    result.in_f32 = examine(patient, true, 1);
    result.verdict = result.in_f32 ? Verdict::mathematics : Verdict::precision;
  }
  result.advice = advice(result, patient.scale);
  return result;
}

std::string to_text(const Diagnosis& d) {
  std::string text = to_text(d.finding) + "\n  ";
  switch (d.verdict) {
    case Verdict::precision:
      text += "the same micro-batch in f32 is finite: precision is to blame";
      break;
    case Verdict::scale:
      text +=
          fmt::format("at loss scale 1 everything is finite, and up to {}: the scale is to blame",
                      scale_text(d.largest_scale));
      break;
    case Verdict::mathematics:
      text += fmt::format("in f32 it happens too ({}{}, {}): precision is not to blame",
                          d.in_f32->op, d.in_f32->module.empty() ? "" : " in " + d.in_f32->module,
                          name(d.in_f32->direction));
      break;
    case Verdict::data:
      text += "it was in the batch: precision is not to blame";
      break;
    case Verdict::weights:
      text += "it was in the weights before this step: precision of this step is not to blame";
      break;
  }
  return text + "\n  try: " + d.advice;
}

}  // namespace binade::lab
