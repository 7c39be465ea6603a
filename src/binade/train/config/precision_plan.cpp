#include "binade/train/config/precision_plan.h"

#include <algorithm>

#include "binade/base/json.h"
#include "binade/io/file.h"

namespace binade::train {

bool PrecisionPlan::contains(const std::string& module) const {
  return std::any_of(bf16.begin(), bf16.end(),
                     [&module](const Promotion& one) { return one.module == module; });
}

PrecisionPlan read_precision_plan(const std::filesystem::path& path) {
  const std::string text = io::read_text(path, "precision plan", 1 << 20);
  const json::Document document = json::parse(text, {"precision plan", path.string()});
  PrecisionPlan plan;
  for (const json::Value& entry : document.root().at("bf16").array()) {
    plan.bf16.push_back({entry.at("module").string(), entry.at("step").integer(0, int64_t{1} << 52),
                         entry.at("harm").number()});
    if (plan.bf16.back().module.empty())
      entry.at("module").refuse("a module's path, such as blocks.0.mlp.up", "an empty text");
  }
  return plan;
}

void write_precision_plan(const PrecisionPlan& plan, const std::filesystem::path& path) {
  json::Writer out(2);
  out.begin_object().key("bf16").begin_array();
  for (const Promotion& one : plan.bf16) {
    out.begin_object().key("module").value(one.module).key("step").value(one.step);
    out.key("harm").value(one.harm).end_object();
  }
  out.end_array().end_object();
  io::AtomicFile file(path, "precision plan");
  file.append(out.text() + "\n");
  file.commit();
}

}  // namespace binade::train
