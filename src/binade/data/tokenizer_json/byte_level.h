#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace binade::data {

// GPT-2's mapping of bytes to printable characters: a byte that is printable in Latin-1 stays
// itself, the others become U+0100, U+0101, ...
char32_t character_of_byte(unsigned char byte);
// The inverse; none for other characters.
std::optional<unsigned char> byte_of_character(char32_t code);

// Bytes as a token's text, and back; none for a text with other characters.
std::string byte_level_text(std::string_view bytes);
std::optional<std::string> byte_level_bytes(std::string_view text);

// Split patterns of these families, in Oniguruma's syntax.
inline constexpr const char* gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr const char* llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr const char* qwen2_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace binade::data
