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

}  // namespace

std::array<double, 3> AutoPrecision::median(const std::deque<Look>& looks) {
  std::array<double, 3> result{};
  for (size_t matmul = 0; matmul < 3; ++matmul) {
    std::array<double, window> values;
    for (size_t i = 0; i < window; ++i) values[i] = looks[looks.size() - window + i].harm[matmul];
    std::sort(values.begin(), values.end());
    result[matmul] = values[window / 2];
  }
  return result;
}

void AutoPrecision::add(const std::vector<LayerStats>& layers, int64_t step) {
  for (const LayerStats& layer : layers) {
    std::deque<Look>& looks = looks_[layer.module];
    looks.push_back({step, {layer.forward.harm, layer.dgrad.harm, layer.wgrad.harm}});
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
  const double harm = largest(median(looks));
  // One matmul that suffers moves all three: the scales of a delayed recipe belong to the layer.
  const bool moves = harm > max_harm;
  const train::Promotion next{.module = module,
                              .step = step,
                              .harm = harm,
                              .forward = moves,
                              .dgrad = moves,
                              .wgrad = moves};
  if (now == nullptr) return moves ? std::optional(next) : std::nullopt;
  const bool healthy = std::all_of(looks.begin(), looks.end(), [](const Look& look) {
    return largest(look.harm) < healthy_harm;
  });
  // Back to the run's recipe.
  return healthy && looks.size() >= healthy_looks ? std::optional(next) : std::nullopt;
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
  std::string to;
  const std::pair<const char*, bool> matmuls[] = {
      {"forward", change.forward}, {"dgrad", change.dgrad}, {"wgrad", change.wgrad}};
  for (const auto& [name, in_bf16] : matmuls) {
    if (in_bf16) to += (to.empty() ? "" : ", ") + std::string(name);
  }
  if (change.is_demotion())
    return fmt::format("step {}: {} moves back to the run's FP8 recipe: it loses {:.0f}% there",
                       change.step, change.module, 100 * change.harm);
  to = change.fp8_scaling ? fmt::format("FP8 with scales by {}", amp::name(*change.fp8_scaling))
                          : "bf16 (" + to + ")";
  return fmt::format("step {}: {} moves to {}: the run's FP8 recipe loses {:.0f}% of its signal",
                     change.step, change.module, to, 100 * change.harm);
}

std::vector<PastLook> read_looks(const std::filesystem::path& path, int64_t until) {
  std::vector<PastLook> looks;
  if (std::error_code error; !std::filesystem::exists(path, error)) return looks;
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
      for (const auto& [name, stats] : matmuls) stats->harm = entry.at(name).at("harm").number();
      look.layers.push_back(std::move(layer));
    }
    looks.push_back(std::move(look));
  }
  return looks;
}

}  // namespace binade::lab
