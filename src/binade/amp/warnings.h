#pragma once

#include <functional>
#include <string>

namespace binade::amp {

// Receives warnings about a use of mixed precision that trains, but not as it was meant, such as
// gradients that are unscaled without having been scaled. Called from the thread of the use.
using WarningFunction = std::function<void(const std::string& text)>;

// Replaces the function of this process, which prints to stderr at first; returns the one before.
// An empty one restores that.
WarningFunction set_warning_function(WarningFunction function);

// Passes a text to the function.
void warn(const std::string& text);

}  // namespace binade::amp
