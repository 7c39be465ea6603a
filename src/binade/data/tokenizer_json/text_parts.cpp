#include "binade/data/tokenizer_json/text_parts.h"

#include <algorithm>

#include "binade/base/text.h"
#include "binade/data/tokenizer_json/unicode.h"

namespace binade::data {
namespace {

constexpr size_t part_bytes = 64 << 10, max_part_bytes = 1 << 20;

bool is_alphanumeric(char c) { return is_ascii_letter(c) || is_ascii_digit(c); }

// Whether a valid character other than white space begins at `at`.
bool is_visible(std::string_view text, size_t at) {
  return utf8_length(text, at) > 0 && !is_white_space(character_at(text, at).code);
}

// Not after "\n\n" or "\r\n": split patterns look ahead from runs of white space.
bool looks_like_a_boundary(std::string_view text, size_t at) {
  if (at < 2 || at + 1 >= text.size()) return false;
  const char before = text[at - 1], next = text[at];
  if (next == ' ') return is_alphanumeric(before) && is_ascii_letter(text[at + 1]);
  if (next == '\n' || next == '\r') return is_alphanumeric(before);
  if (before != '\n' || !is_visible(text, character_before(text, at - 1))) return false;
  const bool is_ascii = static_cast<unsigned char>(next) < 0x80;
  return is_ascii ? is_alphanumeric(next) : is_visible(text, at);
}

}  // namespace

size_t text_part_end(std::string_view text, size_t begin, FunctionRef<bool(size_t)> accepts) {
  if (text.size() - begin <= part_bytes) return text.size();
  const size_t wanted = begin + part_bytes, last = std::min(text.size(), begin + max_part_bytes);
  int tries = 0;
  const auto is_good = [&](size_t at) {
    return tries < max_part_tries && looks_like_a_boundary(text, at) && ++tries > 0 && accepts(at);
  };
  for (size_t at = wanted; at > begin + part_bytes / 2; --at) {
    if (is_good(at)) return at;
  }
  tries = 0;
  for (size_t at = wanted + 1; at < last; ++at) {
    if (is_good(at)) return at;
  }
  size_t end = last;
  for (int i = 0; i < 3 && end < text.size() && (text[end] & 0xC0) == 0x80; ++i) --end;
  return end;
}

}  // namespace binade::data
