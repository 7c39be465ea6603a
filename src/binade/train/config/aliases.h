#pragma once

#include <string_view>
#include <vector>

// Names that keys and options have in other programs. All are written with underscores.
namespace binade::train {

// The key or option that was probably meant: "lr" for "learning_rate", "precision" for "bf16";
// empty if the name is unknown.
std::string_view own_name(std::string_view name);

// The same for names that options are accepted by, since they take the same values: empty for
// "bf16".
std::string_view name_for(std::string_view name);

// The names that name_for() knows for one of ours.
std::vector<std::string_view> other_names(std::string_view own);

}  // namespace binade::train
