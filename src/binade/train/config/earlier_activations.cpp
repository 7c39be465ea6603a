#include "binade/train/config/earlier_activations.h"

#include <fmt/format.h>

namespace binade::train {

bool is_earlier_activations_key(std::string_view name) {
  return name == "recompute" || name == "keep_activations";
}

std::optional<std::string> activations_text(const EarlierActivations& keys) {
  if (keys.recompute) return "recompute";
  if (keys.keep_activations > 0) return fmt::format("keep = {}, lean", keys.keep_activations);
  return {};
}

std::optional<std::string> activations_option_for(std::string_view option) {
  if (option == "--recompute") return "--activations recompute";
  if (option == "--keep-activations") return "--activations 'keep = N, lean'";
  return {};
}

}  // namespace binade::train
