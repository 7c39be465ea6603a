#include "binade/data/tokenizer_json/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "binade/base/text.h"

namespace binade::data {
namespace {

// The index of the first byte past 0x7F, or the text's size.
size_t ascii_end(std::string_view text, size_t at) {
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, text.data() + at, 8);
    if ((bytes & 0x8080808080808080U) != 0) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

size_t first_invalid(std::string_view text, size_t at) {
  for (;;) {
    at = ascii_end(text, at);
    if (at == text.size()) return at;
    const size_t bytes = utf8_length(text, at);
    if (bytes == 0) return at;
    at += bytes;
  }
}

// The length of the maximal invalid part at `at`.
size_t invalid_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const unsigned first = byte(0);
  if (first < 0xE0 || first > 0xF4) return 1;
  const unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 1;
  return first >= 0xF0 && (byte(2) & 0xC0U) == 0x80U ? 3 : 2;
}

constexpr char32_t first_syllable = 0xAC00, last_syllable = 0xD7A3;  // of Hangul

bool is_composed(NormalForm form) { return form == NormalForm::nfc || form == NormalForm::nfkc; }

// Whether no normal form changes the character or joins it to the one before it.
bool is_inert(char32_t code, NormalForm form) {
  if (code < 0x80 || (form == NormalForm::nfc && code < 0x300)) return true;
  if (code >= first_syllable && code <= last_syllable) return is_composed(form);
  // Vowels and final consonants of Hangul, which join the character before them.
  if (code >= 0x1161 && code <= 0x11C2) return false;
  const utf8proc_property_t* property = utf8proc_get_property(static_cast<int32_t>(code));
  const bool joins = property->comb_index != UINT16_MAX && property->comb_index >= 0x8000;
  return property->combining_class == 0 && property->decomp_seqindex == UINT16_MAX && !joins;
}

int32_t combining_class(int32_t code) { return utf8proc_get_property(code)->combining_class; }

// Sorts each run of marks by class. The library's sort is quadratic.
void order_marks(std::vector<int32_t>& codes) {
  for (auto at = codes.begin(); at != codes.end();) {
    if (combining_class(*at) == 0) {
      ++at;
      continue;
    }
    const auto end = std::find_if(at, codes.end(), [](int32_t c) { return !combining_class(c); });
    std::stable_sort(at, end,
                     [](int32_t a, int32_t b) { return combining_class(a) < combining_class(b); });
    at = end;
  }
}

void append_by_library(std::string& out, std::string_view text, NormalForm form) {
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                      (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<int32_t> codes;
  for (size_t at = 0; at < text.size();) {
    const auto [code, bytes] = character_at(text, at);
    constexpr int longest = 32;  // no character becomes more than 18
    int32_t parts[longest];
    const auto count =
        utf8proc_decompose_char(static_cast<int32_t>(code), parts, longest, options, nullptr);
    codes.insert(codes.end(), parts, parts + std::clamp<int64_t>(count, 0, longest));
    at += bytes;
  }
  order_marks(codes);
  if (is_composed(form)) {
    const auto count = utf8proc_normalize_utf32(
        codes.data(), static_cast<utf8proc_ssize_t>(codes.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    codes.resize(static_cast<size_t>(std::max<utf8proc_ssize_t>(count, 0)));
  }
  for (const int32_t code : codes) append_character(out, static_cast<char32_t>(code));
}

template <class Visit>
void each_character(std::string_view text, Visit&& visit) {
  for (size_t at = 0; at < text.size();) {
    const auto [code, bytes] = character_at(text, at);
    visit(code, text.substr(at, bytes));
    at += bytes;
  }
}

utf8proc_category_t category_of(char32_t code) {
  return utf8proc_category(static_cast<int32_t>(code));
}

// Not all of Han: extension E from its middle on, and no radicals.
bool is_bert_ideograph(char32_t code) {
  static constexpr std::pair<char32_t, char32_t> blocks[] = {
      {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},  {0x20000, 0x2A6DF},
      {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  return std::any_of(std::begin(blocks), std::end(blocks), [code](const auto& block) {
    return code >= block.first && code <= block.second;
  });
}

}  // namespace

void append_character(std::string& text, char32_t code) {
  const auto tail = [code](unsigned shift) {
    return static_cast<char>(0x80U | (code >> shift & 0x3FU));
  };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += {static_cast<char>(0xC0U | code >> 6U), tail(0)};
  } else if (code < 0x10000) {
    text += {static_cast<char>(0xE0U | code >> 12U), tail(6), tail(0)};
  } else {
    text += {static_cast<char>(0xF0U | code >> 18U), tail(12), tail(6), tail(0)};
  }
}

std::string_view valid_utf8(std::string_view text, std::string& storage) {
  size_t bad = first_invalid(text, 0);
  if (bad == text.size()) return text;
  storage.clear();
  for (size_t at = 0;;) {
    storage += text.substr(at, bad - at);
    if (bad == text.size()) return storage;
    storage += "\xEF\xBF\xBD";
    at = bad + invalid_length(text, bad);
    bad = first_invalid(text, at);
  }
}

bool is_white_space(char32_t code) {
  return (code >= 9 && code <= 13) || code == ' ' || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

// Most text is in its normal form already. Only runs of characters that are not inert go through
// the library, with the character before them, which they may join.
void append_normalized(std::string& out, std::string_view text, NormalForm form) {
  size_t done = 0;
  for (size_t at = ascii_end(text, 0); at < text.size();) {
    const auto [code, bytes] = character_at(text, at);
    if (is_inert(code, form)) {
      at += bytes;
      continue;
    }
    size_t end = at + bytes;
    while (end < text.size() && !is_inert(character_at(text, end).code, form))
      end += character_at(text, end).bytes;
    const size_t begin = at > done ? character_before(text, at) : at;
    out += text.substr(done, begin - done);
    append_by_library(out, text.substr(begin, end - begin), form);
    done = at = end;
  }
  out += text.substr(done);
}

void append_lowercase(std::string& out, std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto [code, bytes] = character_at(text, at);
    if (code < 0x80) {
      out += static_cast<char>(code >= 'A' && code <= 'Z' ? code + 32 : code);
    } else if (code == 0x130) {
      out += "i\xCC\x87";  // the one character that has two in lower case
    } else {
      append_character(out, static_cast<char32_t>(utf8proc_tolower(static_cast<int32_t>(code))));
    }
    at += bytes;
  }
}

void append_without_marks(std::string& out, std::string_view text, MarkKind marks) {
  each_character(text, [&](char32_t code, std::string_view character) {
    const auto category = category_of(code);
    const bool is_mark = category == UTF8PROC_CATEGORY_MN ||
                         (marks == MarkKind::all &&
                          (category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME));
    if (!is_mark) out += character;
  });
}

void append_cleaned(std::string& out, std::string_view text) {
  each_character(text, [&](char32_t code, std::string_view character) {
    const auto category = category_of(code);
    const bool is_blank = code == '\t' || code == '\n' || code == '\r';
    if (is_blank || category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
        category == UTF8PROC_CATEGORY_ZP) {
      out += ' ';
    } else if (code != 0xFFFD && category != UTF8PROC_CATEGORY_CC &&
               category != UTF8PROC_CATEGORY_CF && category != UTF8PROC_CATEGORY_CO) {
      out += character;
    }
  });
}

void append_spaced_ideographs(std::string& out, std::string_view text) {
  each_character(text, [&](char32_t code, std::string_view character) {
    const bool is_ideograph = is_bert_ideograph(code);
    if (is_ideograph) out += ' ';
    out += character;
    if (is_ideograph) out += ' ';
  });
}

}  // namespace binade::data
