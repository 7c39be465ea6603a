#include "binade/data/tokenizer_json/byte_level.h"

#include <algorithm>

#include "binade/data/tokenizer_json/unicode.h"

namespace binade::data {
namespace {

constexpr size_t bytes_elsewhere = 68;  // that are not printable in Latin-1

bool is_printable(unsigned byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

// The bytes whose characters are U+0100, U+0101, ...
const std::array<unsigned char, bytes_elsewhere>& elsewhere() {
  static const auto table = [] {
    std::array<unsigned char, bytes_elsewhere> bytes = {};
    size_t next = 0;
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (!is_printable(byte)) bytes[next++] = static_cast<unsigned char>(byte);
    }
    return bytes;
  }();
  return table;
}

}  // namespace

char32_t character_of_byte(unsigned char byte) {
  if (is_printable(byte)) return byte;
  const auto& table = elsewhere();
  return 0x100 +
         static_cast<char32_t>(std::lower_bound(table.begin(), table.end(), byte) - table.begin());
}

std::optional<unsigned char> byte_of_character(char32_t code) {
  if (code < 0x100) {
    if (is_printable(code)) return static_cast<unsigned char>(code);
  } else if (code < 0x100 + bytes_elsewhere) {
    return elsewhere()[code - 0x100];
  }
  return std::nullopt;
}

std::string byte_level_text(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes)
    append_character(text, character_of_byte(static_cast<unsigned char>(byte)));
  return text;
}

std::optional<std::string> byte_level_bytes(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    const auto byte = byte_of_character(character.code);
    if (!byte) return std::nullopt;
    bytes += static_cast<char>(*byte);
    at += character.bytes;
  }
  return bytes;
}

}  // namespace binade::data
