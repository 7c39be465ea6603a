#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "binade/data/tokenizer_json/unicode.h"

// Functions of Python's str on valid UTF-8. Lengths and indices count characters.
namespace binade::data::jinja {

// What str.strip() and str.split() take for white space.
bool is_python_space(char32_t code);

enum class Side : uint8_t { left = 1, right = 2, both = 3 };
// Without white space, or without the characters of a set, at its ends.
std::string_view stripped(std::string_view text, Side side,
                          std::optional<std::string_view> set = {});

int64_t characters_in(std::string_view text);
// The byte at which a character begins; the size for the end. `index` is at most the length.
size_t byte_of(std::string_view text, int64_t index);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalized(std::string_view text);
std::string titled(std::string_view text);  // str.title()

// At white space if there is no separator; `most` cuts at most (negative: all).
std::vector<std::string_view> split(std::string_view text,
                                    std::optional<std::string_view> separator, int64_t most);
std::vector<std::string_view> split_from_right(std::string_view text,
                                               std::optional<std::string_view> separator,
                                               int64_t most);
std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends = false);

std::string replaced(std::string_view text, std::string_view old, std::string_view by,
                     int64_t most);
int64_t count_of(std::string_view text, std::string_view part);

// What Python tells about a character.
enum class Property : uint8_t { alphabetic, decimal, cased_lower, cased_upper, printable };
bool has_property(char32_t code, Property property);

// The values of int(text) and float(text); none where these raise an error.
std::optional<int64_t> integer_of(std::string_view text, int base);
std::optional<double> float_of(std::string_view text);

}  // namespace binade::data::jinja
