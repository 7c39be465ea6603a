#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace binade {

// Length of the well-formed UTF-8 sequence at `at`, or 0 if there is none.
size_t utf8_length(std::string_view text, size_t at);

// Whether this is a control character: U+0000 to U+001F and U+007F to U+009F.
bool is_control(std::string_view character);
// Whether this changes the order in which the text after it is shown, such as U+202E.
bool is_bidi_control(std::string_view character);
// Whether this is a format character or separator that shows nothing, such as U+200B; bidi controls
// are among them.
bool is_format(std::string_view character);

inline bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Escapes control characters (including line ends), format characters and invalid UTF-8 as bytes:
// "\x1b".
std::string visible(std::string_view text);
// Escapes control and format characters up to U+FFFF in valid UTF-8 as JSON and TOML do: "\u009b".
std::string unicode_escaped(std::string_view text);

// Digits in groups of three: "842,496".
std::string grouped(int64_t number);

// A fraction as a percentage with its sign: "+0.53%"; what is rounded to zero has none.
std::string signed_percent(double fraction, int decimals = 2);

// How many bytes to insert, remove or replace, or neighbors to swap, to get from `a` to `b`.
size_t edit_distance(std::string_view a, std::string_view b);

// Whether a pattern is all of a text: * stands for any bytes, ? for one.
bool matches_glob(std::string_view pattern, std::string_view text);

// "a", "a or b", "a, b or c" for the word "or".
std::string listed(const std::vector<std::string>& items, std::string_view word);

// The text, or its first `limit` bytes and "..." if it is longer.
std::string shortened(std::string_view text, size_t limit);

// The text, or "..." and its end in `limit` bytes if it is longer. At least 3.
std::string shortened_from_left(std::string_view text, size_t limit);

}  // namespace binade
