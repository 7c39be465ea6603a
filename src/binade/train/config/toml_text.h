#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace binade::train {

// The position of the first non-ASCII byte that is neither in a comment nor in a string on the line
// of its key; the text's size if there is none. After the start of an array, an inline table or a
// multi-line string every such byte counts. toml++ 3.3 has undefined behavior for some characters
// elsewhere (its issues 190 and 295), so they are refused before parsing; no configuration needs
// them there.
size_t misplaced_character(std::string_view toml);

// The text as a single-line TOML string with its quotes. Fails on invalid UTF-8.
std::string toml_string(std::string_view text);

}  // namespace binade::train
