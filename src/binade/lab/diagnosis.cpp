#include "binade/lab/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/base/error.h"
#include "binade/lab/examine.h"

namespace binade::lab {
namespace {

// The module, or the op outside of modules.
std::string location(const Finding& finding) {
  return finding.module.empty() ? "op " + finding.op : finding.module;
}

// Advice on a NaN that finite inputs gave, by ops of which that says why.
std::string advice_on_nan(const Finding& f) {
  if (!std::isnan(f.first.value) || f.direction != Direction::forward) return "";
  if (f.op == "var" || f.op == "std")
    return "one element has no variance: give it more, or set correction to 0";
  if (f.op == "remainder") return "its divisor is 0: clamp it away from 0";
  if (f.op == "div") return "0 / 0: if it divides by a count, make that at least 1";
  if (f.op == "mean") return "the mean of no elements: skip it where nothing is selected";
  if (f.op.ends_with("cross_entropy") || f.op.ends_with("_loss"))
    return "no target counts, so the mean is 0 / 0: skip such batches, or check ignore_index and "
           "weights";
  return "";
}

// Whether the program defines the op.
bool is_own(const Finding& f) {
  const std::string_view steps[] = {"grad_norm", "scale", "backward"};  // of a replay
  return !find_op(f.op) && std::find(std::begin(steps), std::end(steps), f.op) == std::end(steps);
}

std::string advice_on_op(const Finding& f) {
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
  if (const std::string fitting = advice_on_nan(f); !fitting.empty()) return fitting;
  const bool root = f.op == "sqrt" || f.op == "pow" || f.op == "rsqrt";
  if (root && f.direction == Direction::forward && std::isnan(f.first.value))
    return "its input is negative: clamp it at 0";
  for (const Rule& rule : rules) {
    if (rule.ops.find(" " + f.op + " ") != std::string_view::npos) return std::string(rule.text);
  }
  if (is_own(f))
    return fmt::format(
        "check the {} of {}, which the program defines: its inputs are finite, up to {:.3g}",
        name(f.direction), f.op, f.largest_input);
  return fmt::format("check the inputs of {} (largest {:.3g}), lower the learning rate, or clip",
                     location(f), f.largest_input);
}

std::string advice_on(const Diagnosis& d) {
  const Finding& f = d.finding;
  switch (d.verdict) {
    case Verdict::data:
      return f.tensor.find("masked whole") != std::string::npos
                 ? "unmask one position of this row, or drop the row"
                 : "fix or drop this example: see " + f.tensor + " at " + to_string(f.first.index);
    case Verdict::state:
      return "resume from an earlier checkpoint with a lower learning rate, or raise Adam's eps";
    case Verdict::divergence:
      return "lower the learning rate, warm up longer, or clip gradients; then resume from a "
             "checkpoint before the loss rose";
    case Verdict::op:
      return advice_on_op(f);
    case Verdict::loss_scale:
      return "a dynamic loss scaler lowers the scale by itself";
    case Verdict::range:
    case Verdict::underflow:
      if (d.cure) return "";
      if (d.in_f32)
        return fmt::format("do not cast to {}{}", name(f.dtype),
                           f.op == name(Op::cast) ? " there" : " before " + f.op);
      return fmt::format(
          "no change of precision that was tried helps but f32: check casts around {}",
          location(f));
  }
  return "";
}

// Whether scaling the loss can have caused the finding.
bool depends_on_scale(const Finding& f) {
  return f.direction != Direction::forward && f.origin != Origin::parameter;
}

// The first non-finite value in f32. A computation with tensors in 16 bits may not run without
// autocast: then every op takes its inputs to f32 instead.
std::optional<Finding> examine_in_f32(const DiagnosisInput& input) {
  try {
    return examine(input, {.f32 = true}, 1);
  } catch (const Error&) {
    return examine(input, {.kept = {{.module = ""}}}, 1);
  }
}

// Whether an overflow that the replay in f32 shows, too, is one of a type that the program cast to
// itself: ops that widen their inputs do not have it. Casts, and sums in a type that the program
// names, have no other cause.
bool is_own_cast(const DiagnosisInput& input, const Finding& in_f32) {
  if (!is_narrow_overflow(in_f32)) return false;
  if (in_f32.op == name(Op::cast) || in_f32.op == name(Op::sum) || in_f32.op == name(Op::cumsum))
    return true;
  const auto wide = examine(input, {.f32 = true, .widens = true}, 1);
  return !wide || wide->op == name(Op::cast);
}

void judge_precision(const DiagnosisInput& input, Diagnosis& result) {
  std::string reason;
  try {
    result.in_f32 = examine_in_f32(input);
  } catch (const Error& error) {
    result.verdict = Verdict::range;
    result.evidence =
        fmt::format("it could not be replayed in f32 ({}): the verdict is a guess", error.what());
    return;
  }
  const Finding& f = result.finding;
  if (result.in_f32) {
    const Finding& other = *result.in_f32;
    if (is_own_cast(input, other)) {
      result.verdict = Verdict::range;
      result.evidence =
          fmt::format("the replay in f32 still ran {} in {}: the program itself casts to it",
                      other.op, name(other.dtype));
      result.cure = find_cure(input, f);
      return;
    }
    result.verdict = f.op == "grad_norm" ? Verdict::divergence : Verdict::op;
    result.evidence =
        fmt::format("it also happens in f32 ({}{}, {})", other.op,
                    other.module.empty() ? "" : " in " + other.module, name(other.direction));
    return;
  }
  // A zero may be what is left after a division by an infinity.
  if (f.zero_input) {
    if (const auto overflow = find_overflow(input, {})) result.finding = *overflow;
  }
  result.verdict = f.zero_input ? Verdict::underflow : Verdict::range;
  result.evidence = f.zero_input ? fmt::format("an input of {} is 0, and is not in f32", f.op)
                                 : "the same micro-batch is finite in f32";
  result.cure = find_cure(input, f);
}

void judge(const DiagnosisInput& input, Diagnosis& result) {
  const Finding& f = result.finding;
  const std::string diverges = signs_of_divergence(input.history);
  if (f.origin == Origin::data) {
    result.verdict = Verdict::data;
    result.evidence = "it was in the batch";
    return;
  }
  if (!diverges.empty()) {
    result.verdict = Verdict::divergence;
    result.evidence = diverges;
    return;
  }
  if (f.origin == Origin::parameter || f.origin == Origin::buffer) {
    result.verdict = Verdict::state;
    result.evidence = "it was there before this step: an earlier update or the checkpoint made it";
    return;
  }
  if (input.scale != 1 && depends_on_scale(f)) {
    const double scale = largest_scale(input, {}, input.scale);
    result.largest_scale = scale;
    if (scale > 1) {
      result.verdict = Verdict::loss_scale;
      result.evidence =
          fmt::format("everything is finite at loss scales up to {}", scale_text(scale));
      result.cure = scale_cure(input, scale);
      return;
    }
    if (scale > 0) {
      result.verdict = Verdict::divergence;
      result.evidence = fmt::format(
          "gradients fit {} only at loss scales up to {}: they explode, and no scale is of use",
          name(f.dtype), scale_text(scale));
      return;
    }
  }
  judge_precision(input, result);
}

std::string indented(const std::string& text, const char* by) {
  std::string result;
  for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    result += "\n" + (end > begin ? by + text.substr(begin, end - begin) : "");
  }
  return result;
}

}  // namespace

amp::AutocastState Replay::autocast(const amp::AutocastState& run) const {
  amp::AutocastState state = run;
  if (f32) state.enabled = false;
  if (autocast_type) state.dtype = *autocast_type;
  if (widens) {
    amp::Policy policy;
    policy.set_module("", CastClass::f32);
    state.enabled = true;
    state.policy = std::make_shared<amp::Policy>(policy);
  } else if (!kept.empty()) {
    amp::Policy policy = run.policy == nullptr ? amp::Policy() : *run.policy;
    for (const KeptInF32& one : kept) {
      one.op ? policy.set(*one.op, CastClass::f32, one.module)
             : policy.set_module(one.module, CastClass::f32);
    }
    state.policy = std::make_shared<amp::Policy>(policy);
  }
  return state;
}

std::string_view name(Verdict verdict) {
  constexpr std::string_view names[] = {"data",      "divergence", "loss scale", "range",
                                        "underflow", "op",         "state"};
  return names[static_cast<size_t>(verdict)];
}

std::optional<Diagnosis> diagnose(const DiagnosisInput& input) {
  Diagnosis result;
  if (const auto finding = examine(input, {}, input.scale)) {
    result.finding = *finding;
    judge(input, result);
  } else if (const auto lost = find_underflow(input)) {
    result.finding = lost->finding;
    const bool overflows = is_narrow_overflow(lost->finding);
    result.verdict = overflows ? Verdict::range : Verdict::underflow;
    result.evidence =
        fmt::format("{}{:.0f}% of the gradient elements that f32 has are 0",
                    overflows ? "what is divided by it becomes 0: " : "", 100 * lost->flushed);
    for (size_t i = 0; i < std::min<size_t>(lost->parameters.size(), 3); ++i)
      result.evidence += fmt::format("{}{} {:.0f}%", i == 0 ? " (" : ", ",
                                     lost->parameters[i].first, 100 * lost->parameters[i].second);
    if (!lost->parameters.empty()) result.evidence += ")";
    result.cure = lost->cure;
  } else {
    return {};
  }
  result.advice = advice_on(result);
  return result;
}

std::string to_text(const Diagnosis& d) {
  std::string text = to_text(d.finding);
  text += fmt::format("\n  verdict: {}; {}", name(d.verdict), d.evidence);
  if (d.cure) {
    text += "\n  cure, replayed with success";
    if (d.cure->batches > 1)
      text += fmt::format(" on {} of {} batches", d.cure->held, d.cure->batches);
    text += ":" + indented(d.cure->toml(), "    ");
    text += "\n  the same in C++:" + indented(d.cure->cpp(), "    ");
  }
  if (!d.advice.empty())
    text += fmt::format("\n  {}: {}", d.cure ? "note" : "try (not replayed)", d.advice);
  return text;
}

}  // namespace binade::lab
