#pragma once

#include <string_view>

namespace binade::train {

// The key or option that has another name in other programs, both with underscores: "lr" for
// "learning_rate"; empty if it is unknown.
std::string_view own_name(std::string_view name);

}  // namespace binade::train
