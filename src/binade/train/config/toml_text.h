#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace binade::train {

// The first byte beyond ASCII that is neither in a comment nor in a string on the line of its key;
// the text's size where there is none. Behind an array, an inline table or a string of several
// lines all such bytes count. toml++ 3.3 is undefined for some characters elsewhere (its issues 190
// and 295), so they are refused before it reads them; no key of a configuration needs them there.
size_t misplaced_character(std::string_view toml);

// The text as a string of TOML on one line, with its quotes. Fails on what is not UTF-8.
std::string toml_string(std::string_view text);

}  // namespace binade::train
