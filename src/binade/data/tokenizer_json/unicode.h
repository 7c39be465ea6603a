#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace binade::data {

struct Character {
  char32_t code;
  size_t bytes;
};

// The character at `at` of valid UTF-8.
inline Character character_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const auto tail = [&](size_t i) { return static_cast<char32_t>(byte(i) & 0x3FU); };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(first & 0x1FU) << 6U | tail(1), 2};
  if (first < 0xF0) return {(first & 0x0FU) << 12U | tail(1) << 6U | tail(2), 3};
  return {(first & 0x07U) << 18U | tail(1) << 12U | tail(2) << 6U | tail(3), 4};
}

// The index of the last character that begins before `end`, which is more than 0.
inline size_t character_before(std::string_view text, size_t end) {
  do --end;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U);
  return end;
}

void append_character(std::string& text, char32_t code);

// The text itself if it is valid UTF-8; else a copy in `storage` with U+FFFD for each maximal
// invalid part, as Python's errors="replace" does.
std::string_view valid_utf8(std::string_view text, std::string& storage);

// The property White_Space.
bool is_white_space(char32_t code);

// Normal forms. C: composed, D: decomposed, K: compatibility equivalents.
enum class NormalForm : uint8_t { nfc, nfd, nfkc, nfkd };

// Appends valid UTF-8 in a normal form of Unicode 15.
void append_normalized(std::string& out, std::string_view text, NormalForm form);

// Appends valid UTF-8 with each character in lower case by itself: no context, no locale.
void append_lowercase(std::string& out, std::string_view text);

// Appends valid UTF-8 without its combining marks: all, or those that take no space.
enum class MarkKind : uint8_t { all, nonspacing };
void append_without_marks(std::string& out, std::string_view text, MarkKind marks);

// Appends valid UTF-8 without U+FFFD and characters that are control, format or for private use,
// with a plain space for a tab, an end of line or any other white space.
void append_cleaned(std::string& out, std::string_view text);

// Appends valid UTF-8 with a space before and behind each ideograph of the blocks that BERT names.
void append_spaced_ideographs(std::string& out, std::string_view text);

}  // namespace binade::data
