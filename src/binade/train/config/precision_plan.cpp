#include "binade/train/config/precision_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "binade/amp/recipe/text.h"
#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/io/checksum.h"
#include "binade/io/file.h"

namespace binade::train {
namespace {

constexpr std::pair<const char*, bool Promotion::*> matmuls[] = {
    {"forward", &Promotion::forward}, {"dgrad", &Promotion::dgrad}, {"wgrad", &Promotion::wgrad}};

Promotion read_promotion(const json::Value& entry) {
  Promotion one{.module = entry.at("module").string(),
                .step = entry.at("step").integer(0, int64_t{1} << 52),
                .harm = entry.at("harm").number()};
  if (one.module.empty())
    entry.at("module").refuse("a module's path, such as blocks.0.mlp.up", "an empty text");
  // Earlier versions named a built-in recipe by its scaling.
  for (const char* key : {"recipe", "fp8_scaling"}) {
    const json::Value* recipe = entry.find(key);
    if (recipe == nullptr) continue;
    try {
      one.moved_to = amp::parse_recipe(recipe->string());
    } catch (const Error& error) {
      recipe->refuse("the text of a recipe",
                     fmt::format("{} ({})", recipe->describe(), error.what()));
    }
  }
  const json::Value* in_bf16 = entry.find("bf16");
  if (in_bf16 == nullptr && !one.moved_to) return one;  // all matmuls
  one.forward = one.dgrad = one.wgrad = false;
  if (in_bf16 == nullptr) return one;  // another recipe
  for (const json::Value& name : in_bf16->array()) {
    const auto found =
        std::find_if(std::begin(matmuls), std::end(matmuls),
                     [&](const auto& matmul) { return name.string() == matmul.first; });
    if (found == std::end(matmuls)) name.refuse("forward, dgrad or wgrad", name.describe());
    one.*found->second = true;
  }
  return one;
}

}  // namespace

amp::Recipe Promotion::recipe(const amp::Recipe& base) const {
  amp::Recipe result = moved_to.value_or(base);
  result.matmuls.forward = base.matmuls.forward && !forward;
  result.matmuls.dgrad = base.matmuls.dgrad && !dgrad;
  result.matmuls.wgrad = base.matmuls.wgrad && !wgrad;
  return result;
}

const Promotion* PrecisionPlan::find(const std::string& module) const {
  const auto latest = std::find_if(layers.rbegin(), layers.rend(),
                                   [&](const Promotion& one) { return one.module == module; });
  return latest == layers.rend() || latest->is_demotion() ? nullptr : &*latest;
}

std::vector<Promotion> PrecisionPlan::current() const {
  std::vector<Promotion> result;
  for (const Promotion& one : layers) {
    if (find(one.module) == &one) result.push_back(one);
  }
  return result;
}

PrecisionPlan read_precision_plan(const io::Path& path) {
  const std::string text = io::read_text(path, "precision plan", 1 << 20);
  const json::Document document = json::parse(text, {"precision plan", path.string()});
  if (io::checksum_state(text) == io::ChecksumState::wrong)
    fail("precision plan", {.argument = path.string(),
                            .expected = "the text that its checksum belongs to",
                            .found = "another: the file is damaged, or was edited",
                            .hint = "remove the checksum from a plan that was edited"});
  PrecisionPlan plan;
  for (const json::Value& entry : document.root().at("layers").array())
    plan.layers.push_back(read_promotion(entry));
  return plan;
}

void write_precision_plan(const PrecisionPlan& plan, const io::Path& path) {
  json::Writer out(2);
  out.begin_object().key("layers").begin_array();
  for (const Promotion& one : plan.layers) {
    out.begin_object().key("module").value(one.module).key("step").value(one.step);
    out.key("harm").value(one.harm);
    if (one.moved_to) out.key("recipe").value(amp::to_text(*one.moved_to));
    out.key("bf16").begin_array();
    for (const auto& [name, member] : matmuls) {
      if (one.*member) out.value(name);
    }
    out.end_array().end_object();
  }
  out.end_array().end_object();
  io::AtomicFile file(path, "precision plan");
  file.append(io::with_checksum(out.text()) + "\n");
  file.commit();
}

}  // namespace binade::train
