#include <fmt/format.h>

#include <cmath>

#include "binade/base/json.h"
#include "binade/base/text.h"
#include "binade/lab/torch_diff/torch_diff.h"

namespace binade::lab {
namespace {

std::string counted(int64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string beside_text(const TorchDiff& diff) {
  std::string text = counted(diff.weights, "weight") + ", " + counted(diff.results, "result");
  if (diff.gradients + diff.parameter_gradients > 0)
    text += fmt::format(", {} of results and {} of parameters", counted(diff.gradients, "gradient"),
                        diff.parameter_gradients);
  text += fmt::format(" agree, within {:.2g}: at most {:.2g} of what rounding explains",
                      diff.farthest, diff.share);
  if (diff.noise > 0) text += fmt::format("; {} too small beside rounding to tell", diff.noise);
  if (diff.equal() && !diff.unpaired.empty())
    text += fmt::format("; {} without a counterpart", counted(std::ssize(diff.unpaired), "result"));
  return text;
}

std::string first_text(const TorchDifference& one) {
  const bool is_weight = one.name.starts_with("weight/");
  std::string text = "first:  " + one.name;
  if (is_weight && !one.part.empty()) return text + ": its bits differ, and " + one.part + "\n";
  if (one.torch.empty()) return text + ": the recording has nothing like it\n";
  if (!one.part.empty()) text += ", " + one.part;
  text += fmt::format(" at {}: {:.6g}, and {:.6g} in torch; relative difference {:.2g}",
                      to_string(one.index), one.value, one.torch_value, one.relative);
  if (!is_weight) text += fmt::format(", of which rounding explains {:.2g}", one.explained);
  text += "\n";
  if (!is_weight) text += "torch:  " + one.torch + "\n";
  return text;
}

}  // namespace

std::string torch_diff_text(const TorchDiff& diff, const std::string& model,
                            const std::string& recording) {
  if (diff.equal())
    return fmt::format("{} computes what {} has: {}\n", model, recording, beside_text(diff));
  const TorchDifference& one = *diff.first;
  std::string text = fmt::format("{} does not compute what {} has\n", model, recording);
  text += first_text(one);
  if (!one.computed_by.empty()) text += "from:   the backward of " + one.computed_by + "\n";
  if (!one.unseen.empty())
    text += "or:     " + listed(one.unseen, "or") + ", which the recording has nothing like\n";
  if (!one.after.empty())
    text += "after:  " + listed(one.after, "and") +
            (one.after.size() == 1 ? ", which agrees\n" : ", which agree\n");
  return one.name.starts_with("weight/") ? text : text + "beside: " + beside_text(diff) + "\n";
}

std::string torch_diff_json(const TorchDiff& diff) {
  json::Writer out(2);
  const auto put = [&out](const char* key, double value) {
    out.key(key);
    std::isfinite(value) ? out.value(value) : out.value(nullptr);
  };
  const auto put_all = [&out](const char* key, const std::vector<std::string>& texts) {
    out.key(key).begin_array();
    for (const std::string& text : texts) out.value(text);
    out.end_array();
  };
  out.begin_object().key("equal").value(diff.equal());
  put("unit_roundoff", diff.roundoff), put("farthest", diff.farthest), put("share", diff.share);
  out.key("weights").value(diff.weights).key("results").value(diff.results);
  out.key("gradients").value(diff.gradients);
  out.key("parameter_gradients").value(diff.parameter_gradients);
  out.key("noise").value(diff.noise);
  put_all("unpaired", diff.unpaired);
  if (diff.first) {
    const TorchDifference& one = *diff.first;
    out.key("first").begin_object().key("name").value(one.name).key("part").value(one.part);
    out.key("torch").value(one.torch).key("index").begin_array();
    for (const int64_t i : one.index) out.value(i);
    out.end_array();
    put("value", one.value), put("torch_value", one.torch_value);
    put("relative", one.relative), put("explained", one.explained);
    out.key("computed_by").value(one.computed_by);
    put_all("after", one.after), put_all("unseen", one.unseen);
    out.end_object();
  }
  put_all("notes", diff.notes);
  return out.end_object().text() + "\n";
}

}  // namespace binade::lab
