#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace binade {

// Length of the well-formed UTF-8 sequence at `at`; 0 where there is none.
size_t utf8_length(std::string_view text, size_t at);

// Whether a terminal may obey this character rather than show it: U+0000 to U+001F and U+007F to
// U+009F.
bool is_control(std::string_view character);

// The text with what is no character to look at written as bytes, "\x1b": control characters, line
// ends among them, and bytes that are not UTF-8. All else stays as it is.
std::string visible(std::string_view text);

}  // namespace binade
