#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace binade {

// The position of the first non-ASCII byte that is neither in a comment, nor in a string on the
// line of its key, nor in an array of such strings; the text's size if there is none. After the
// start of another array, an inline table or a multi-line string every such byte counts. toml++ 3.3
// has undefined behavior for some characters elsewhere (its issues 190 and 295), so they are
// refused before parsing; no configuration needs them there.
size_t misplaced_character(std::string_view toml);

// The most parts of a dotted key. toml++ needs stack for each: 40,000 end the process.
inline constexpr size_t max_key_parts = 16;

// The position of the first line with more dots than such a key has, outside of strings and
// comments; the text's size if there is none. No value of a configuration has that many.
size_t overlong_key(std::string_view toml);

// The text as a single-line TOML string with its quotes. Fails on invalid UTF-8.
std::string toml_string(std::string_view text);

}  // namespace binade
