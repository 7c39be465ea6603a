#include "binade/lab/auto_precision.h"

#include <fmt/format.h>

#include <algorithm>

#include "binade/base/json.h"
#include "binade/io/file.h"

namespace binade::lab {
namespace {

constexpr int64_t max_looks_file = int64_t{1} << 32;

double largest(const std::array<double, 3>& harm) {
  return *std::max_element(harm.begin(), harm.end());
}

constexpr bool train::Promotion::*bf16_of[] = {&train::Promotion::forward, &train::Promotion::dgrad,
                                               &train::Promotion::wgrad};

}  // namespace

std::optional<amp::Recipe> finer_recipe(const amp::Recipe& recipe) {
  if (!recipe.is_per_tensor()) return {};
  // All but scales stays as the run has it.
  amp::Recipe finer = recipe;
  finer.name = amp::recipes::row().name;
  finer.set_head(false);
  finer.set_hidden(false);
  for (const amp::Role role : {amp::Role::input, amp::Role::weight, amp::Role::gradient}) {
    if (!recipe.tensors[role]) continue;
    finer.tensors[role] = amp::recipes::row()[role];
    finer.tensors[role]->format = recipe[role].format;
  }
  return finer;
}

AutoPrecision::Harm AutoPrecision::median(const std::deque<Look>& looks, Harm Look::*member) {
  Harm result{};
  for (size_t matmul = 0; matmul < 3; ++matmul) {
    std::array<double, window> values;
    for (size_t i = 0; i < window; ++i)
      values[i] = (looks[looks.size() - window + i].*member)[matmul];
    std::sort(values.begin(), values.end());
    result[matmul] = values[window / 2];
  }
  return result;
}

void AutoPrecision::add(const std::vector<LayerStats>& layers, int64_t step) {
  for (const LayerStats& layer : layers) {
    std::deque<Look>& looks = looks_[layer.module];
    const auto finer = [](const MatmulStats& stats) { return stats.finer_harm.value_or(1); };
    looks.push_back({step,
                     {layer.forward.harm, layer.dgrad.harm, layer.wgrad.harm},
                     {finer(layer.forward), finer(layer.dgrad), finer(layer.wgrad)}});
    if (looks.size() > healthy_looks) looks.pop_front();
  }
}

std::optional<train::Promotion> AutoPrecision::decide(const std::string& module,
                                                      int64_t step) const {
  const train::Promotion* now = plan_.find(module);
  int64_t changed = 0;
  for (const train::Promotion& one : plan_.layers) {
    if (one.module == module) changed = one.step;
  }
  std::deque<Look> looks;
  for (const Look& look : looks_.at(module)) {
    if (look.step > changed) looks.push_back(look);
  }
  if (looks.size() < window) return {};
  const Harm harm = median(looks, &Look::harm), finer = median(looks, &Look::finer);
  train::Promotion next{.module = module,
                        .step = step,
                        .harm = largest(harm),
                        .forward = false,
                        .dgrad = false,
                        .wgrad = false};
  bool harmed = false, mends = false;
  for (size_t i = 0; i < 3; ++i) {
    const bool is_quantized = now == nullptr || !(now->*bf16_of[i]);
    const double current = now != nullptr && now->moved_to ? finer[i] : harm[i];
    harmed |= is_quantized && current > max_harm;
    mends |= finer_ && harm[i] > max_harm && finer[i] <= mended_harm;
  }
  const bool healthy = looks.size() >= healthy_looks &&
                       std::all_of(looks.begin(), looks.end(), [](const Look& look) {
                         return largest(look.harm) < healthy_harm;
                       });
  if (now != nullptr && healthy) return next;  // back to the run's recipe
  if (!harmed) return {};
  if (mends) next.moved_to = finer_;
  for (size_t i = 0; i < 3; ++i) {
    const bool in_bf16 = now != nullptr && now->*bf16_of[i];  // and stays there until it is healthy
    next.*bf16_of[i] = mends ? finer[i] > mended_harm : in_bf16 || harm[i] > max_harm;
  }
  return next;
}

std::vector<train::Promotion> AutoPrecision::look(const std::vector<LayerStats>& layers,
                                                  int64_t step) {
  add(layers, step);
  std::vector<train::Promotion> changes;
  for (const LayerStats& layer : layers) {
    const auto change = decide(layer.module, step);
    if (!change) continue;
    plan_.layers.push_back(*change);
    changes.push_back(*change);
  }
  return changes;
}

std::string to_text(const train::Promotion& change) {
  std::string in_bf16;
  const std::pair<const char*, bool> matmuls[] = {
      {"forward", change.forward}, {"dgrad", change.dgrad}, {"wgrad", change.wgrad}};
  for (const auto& [name, moves] : matmuls) {
    if (moves) in_bf16 += (in_bf16.empty() ? "" : ", ") + std::string(name);
  }
  if (change.is_demotion())
    return fmt::format("step {}: {} moves back to the run's recipe: it loses {:.0f}% there",
                       change.step, change.module, 100 * change.harm);
  std::string to = "bf16 (" + in_bf16 + ")";
  if (change.moved_to)
    to = fmt::format("the recipe {}{}", change.moved_to->name,
                     in_bf16.empty() ? "" : ", " + in_bf16 + " to bf16");
  return fmt::format("step {}: {} moves to {}: the run's recipe loses {:.0f}% of its signal",
                     change.step, change.module, to, 100 * change.harm);
}

std::vector<PastLook> read_looks(const io::Path& path, int64_t until) {
  std::vector<PastLook> looks;
  if (!path.exists()) return looks;
  const std::string text = io::read_text(path, "doctor", max_looks_file);
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const json::Document document =
        json::parse(std::string_view(text).substr(begin, end - begin), {"doctor", path.string()});
    const json::Value* layers = document.root().find("layers");
    if (layers == nullptr) continue;
    PastLook look{.step = document.root().at("step").integer(0, int64_t{1} << 52), .layers = {}};
    if (look.step > until) break;
    for (const json::Value& entry : layers->array()) {
      LayerStats layer{.module = entry.at("module").string()};
      const std::pair<const char*, MatmulStats*> matmuls[] = {
          {"forward", &layer.forward}, {"dgrad", &layer.dgrad}, {"wgrad", &layer.wgrad}};
      for (const auto& [name, stats] : matmuls) {
        stats->harm = entry.at(name).at("harm").number();
        if (const json::Value* finer = entry.at(name).find("finer_harm"))
          stats->finer_harm = finer->number();
      }
      look.layers.push_back(std::move(layer));
    }
    looks.push_back(std::move(look));
  }
  return looks;
}

}  // namespace binade::lab
