#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace binade {

// The name that someone who typed `given` is likely to have meant: one that is a typing error or
// two away, or of which it is the beginning; empty if there is none.
std::string likely_name(std::string_view given, const std::vector<std::string>& names);

// The same of the values of an option: also in other case, or by the names that other programs have
// for types and devices.
std::string likely_choice(std::string_view given, const std::vector<std::string>& choices);

}  // namespace binade
