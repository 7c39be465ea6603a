#pragma once

#include <optional>
#include <string>
#include <string_view>

// Keys of [train] that `activations` has replaced, which config.toml files of old runs have.
namespace binade::train {

struct EarlierActivations {
  bool recompute = false;
  int64_t keep_activations = 0;
};

bool is_earlier_activations_key(std::string_view name);

// What `activations` says for them; none: nothing, so that its default holds.
std::optional<std::string> activations_text(const EarlierActivations& keys);

// How --activations says what --recompute and --keep-activations said; none for other options.
std::optional<std::string> activations_option_for(std::string_view option);

}  // namespace binade::train
