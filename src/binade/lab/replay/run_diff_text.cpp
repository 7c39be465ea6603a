#include <fmt/format.h>

#include <cmath>

#include "binade/base/json.h"
#include "binade/lab/replay/run_diff.h"

namespace binade::lab {
namespace {

std::string step_text(const RunDiff& diff) {
  if (diff.step == 0) return fmt::format("the runs begin with other {}", diff.parts);
  if (diff.replayed)
    return fmt::format("the runs differ from step {} on, in {}", diff.step, diff.parts);
  if (!diff.is_known())
    return diff.last_equal < 0
               ? "not known whether the runs differ"
               : fmt::format("equal up to step {}; not known whether the runs differ after it",
                             diff.last_equal);
  return fmt::format("the runs differ in {} at step {}, and not at step {}", diff.parts, diff.step,
                     std::max<int64_t>(diff.last_equal, 0));
}

std::string tensor_text(const TensorDifference& one) {
  if (!one.a.empty()) return fmt::format("{}: {} and {}", one.name, one.a, one.b);
  return fmt::format("{} at {}: {} and {}; {} of its {} elements differ", one.name,
                     to_string(one.index), one.value_a, one.value_b, one.differing, one.elements);
}

}  // namespace

std::string diff_text(const RunDiff& diff, const std::string& a, const std::string& b) {
  if (diff.equal)
    return fmt::format("{} and {} are equal, bit for bit, up to step {}: {} hash{}{}\n", a, b,
                       diff.last_equal, diff.compared, diff.compared == 1 ? "" : "es",
                       diff.replayed ? ", and a replay" : "");
  std::string text = step_text(diff) + "\n";
  if (diff.tensor) text += "first:  " + tensor_text(*diff.tensor) + "\n";
  for (const Cause& cause : diff.causes)
    text += fmt::format("{}  {}: {}\n", cause.confirmed ? "cause:" : "maybe:", name(cause.kind),
                        cause.what);
  return text;
}

std::string diff_json(const RunDiff& diff) {
  json::Writer out(2);
  const auto put = [&out](const char* key, double value) {
    out.key(key);
    std::isfinite(value) ? out.value(value) : out.value(nullptr);
  };
  out.begin_object().key("equal").value(diff.equal).key("known").value(diff.is_known());
  out.key("hashes_compared").value(diff.compared);
  out.key("last_equal_step").value(diff.last_equal).key("step").value(diff.step);
  out.key("replayed").value(diff.replayed).key("parts").value(diff.parts);
  if (diff.tensor) {
    const TensorDifference& one = *diff.tensor;
    out.key("tensor").begin_object().key("name").value(one.name);
    if (one.a.empty()) {
      out.key("index").begin_array();
      for (const int64_t i : one.index) out.value(i);
      out.end_array();
      put("a", one.value_a), put("b", one.value_b);
      out.key("elements").value(one.elements).key("differing").value(one.differing);
    } else {
      out.key("a").value(one.a).key("b").value(one.b);
    }
    out.end_object();
  }
  out.key("causes").begin_array();
  for (const Cause& cause : diff.causes) {
    out.begin_object().key("kind").value(name(cause.kind)).key("what").value(cause.what);
    out.key("confirmed").value(cause.confirmed).end_object();
  }
  out.end_array().key("notes").begin_array();
  for (const std::string& note : diff.notes) out.value(note);
  return out.end_array().end_object().text() + "\n";
}

}  // namespace binade::lab
