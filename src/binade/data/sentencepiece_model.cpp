#include "binade/data/sentencepiece_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/base/error.h"
#include "binade/data/tokenizer.h"

namespace binade::data {
namespace {

constexpr int64_t max_pieces = 1 << 20;
constexpr int64_t max_piece_bytes = 4096;
constexpr int64_t max_other_fields = 1 << 16;
constexpr int64_t max_charsmap = 4 << 20;
constexpr int64_t max_expansion = 256;
constexpr float max_score = 1e9F;
// Sizes of the library's own buffers for matches at one position of a text.
constexpr int max_rules_at_a_position = 32;
constexpr size_t max_symbols_at_a_position = 64;
constexpr int max_rule_bytes = 64;

// Field numbers of the format.
enum Model : uint32_t {
  pieces = 1,
  trainer_spec = 2,
  normalizer = 3,
  self_test = 4,
  denormalizer = 5
};
enum Piece : uint32_t { piece_text = 1, piece_score = 2, piece_type = 3 };
constexpr uint32_t model_type = 3;  // of the trainer_spec
constexpr uint32_t charsmap = 2;    // of a normalizer
constexpr int32_t user_defined = 4;

enum class Wire : uint8_t { varint = 0, fixed64 = 1, length = 2, fixed32 = 5 };

struct Field {
  uint32_t number = 0;
  Wire wire = Wire::varint;
  uint64_t value = 0;                     // of a varint or fixed one
  std::span<const std::byte> bytes = {};  // of a length-delimited one
  int64_t offset = 0;                     // of its first byte in the file
};

// Reads the fields of one message in order.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, int64_t offset, const std::string& name)
      : bytes_(bytes), start_(offset), name_(name) {}

  bool done() const { return at_ == bytes_.size(); }

  Field next() {
    Field field;
    field.offset = here();
    const uint64_t tag = varint();
    field.number = static_cast<uint32_t>(tag >> 3);
    if (tag > UINT32_MAX || field.number == 0)
      refuse(field.offset, "the tag of a field", std::to_string(tag));
    field.wire = static_cast<Wire>(tag & 7);
    switch (field.wire) {
      case Wire::varint:
        field.value = varint();
        break;
      case Wire::fixed64:
        field.value = fixed(8);
        break;
      case Wire::fixed32:
        field.value = fixed(4);
        break;
      case Wire::length:
        field.bytes = take(varint());
        break;
      default:
        refuse(field.offset, "a field of wire type 0, 1, 2 or 5", std::to_string(tag & 7));
    }
    return field;
  }

  // The first byte of a field's content.
  int64_t content_offset(const Field& field) const {
    return start_ + (field.bytes.data() - bytes_.data());
  }

  [[noreturn]] void refuse(int64_t offset, std::string expected, std::string found) const {
    fail("tokenizer", {.argument = name_ + ", byte " + std::to_string(offset),
                       .expected = std::move(expected),
                       .found = std::move(found),
                       .hint = "not a SentencePiece model, or a damaged one"});
  }

 private:
  int64_t here() const { return start_ + static_cast<int64_t>(at_); }

  std::span<const std::byte> take(uint64_t count) {
    if (count > bytes_.size() - at_)
      refuse(here(),
             "a field within its message, which has " + std::to_string(bytes_.size() - at_) +
                 " bytes more",
             std::to_string(count) + " bytes");
    const auto result = bytes_.subspan(at_, static_cast<size_t>(count));
    at_ += static_cast<size_t>(count);
    return result;
  }

  uint64_t fixed(size_t count) {
    uint64_t value = 0;
    std::memcpy(&value, take(count).data(), count);
    return value;
  }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      const auto byte = std::to_integer<uint64_t>(take(1)[0]);
      if (shift < 64) value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    refuse(here(), "a number of at most 10 bytes", "more");
  }

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  int64_t start_;
  const std::string& name_;
};

// Checks the library's table of normalization rules: the size of a double-array trie, the trie, and
// the zero-terminated texts that its values point into.
class Charsmap {
 public:
  Charsmap(std::span<const std::byte> bytes, int64_t offset, const Reader& reader)
      : offset_(offset), reader_(reader) {
    if (bytes.empty()) return;
    if (std::cmp_greater(bytes.size(), max_charsmap))
      refuse("a normalization table of at most " + std::to_string(max_charsmap) + " bytes",
             std::to_string(bytes.size()));
    uint32_t trie_bytes = 0;
    if (bytes.size() >= 4) std::memcpy(&trie_bytes, bytes.data(), 4);
    if (bytes.size() < 4 || trie_bytes > bytes.size() - 4 || trie_bytes % 4 != 0 || trie_bytes == 0)
      refuse("the size of a trie within a normalization table of " + std::to_string(bytes.size()) +
                 " bytes",
             std::to_string(trie_bytes));
    units_.resize(trie_bytes / 4);
    std::memcpy(units_.data(), bytes.data() + 4, trie_bytes);
    check_texts(bytes.subspan(4 + trie_bytes));
    chains_.assign(units_.size(), unseen);
    chain_below(offset_of(units_[0]), 0);
  }

 private:
  static constexpr uint8_t unseen = 255, open = 254;

  // A unit encodes the offset of its children, the byte that leads to it and whether it has a
  // value.
  static uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1U << 9)) >> 6); }
  static uint32_t label_of(uint32_t unit) { return unit & ((1U << 31) | 0xFFU); }
  static bool has_value(uint32_t unit) { return ((unit >> 8) & 1U) == 1; }
  static uint32_t value_of(uint32_t unit) { return unit & ((1U << 31) - 1); }

  void check_texts(std::span<const std::byte> texts) {
    text_bytes_ = texts.size();
    if (texts.empty() || texts.back() != std::byte{0})
      refuse("a zero byte at the end of the normalization table", "none");
    int64_t length = 0;
    for (const std::byte byte : texts) {
      length = byte == std::byte{0} ? 0 : length + 1;
      if (length > max_expansion)
        refuse("normalized texts of at most " + std::to_string(max_expansion) + " bytes", "more");
    }
  }

  // The most values on one path down from a state. States may be shared but not cyclic.
  int chain_below(uint32_t state, int depth) {
    if ((state | 0xFFU) >= units_.size())
      refuse("a trie whose states stay within its " + std::to_string(units_.size()) + " units",
             "one at " + std::to_string(state));
    if (depth > max_rule_bytes || chains_[state] == open)
      refuse("normalization rules of at most " + std::to_string(max_rule_bytes) + " bytes",
             "longer or endless ones");
    if (chains_[state] != unseen) return chains_[state];
    chains_[state] = open;
    int longest = 0;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t child = state ^ byte, unit = units_[child];
      if (label_of(unit) != byte) continue;
      const uint32_t next = child ^ offset_of(unit);
      const int below = chain_below(next, depth + 1);
      if (has_value(unit) && value_of(units_[next]) >= text_bytes_)
        refuse("values within the " + std::to_string(text_bytes_) + " bytes of texts",
               std::to_string(value_of(units_[next])));
      longest = std::max(longest, below + (has_value(unit) ? 1 : 0));
    }
    if (longest > max_rules_at_a_position)
      refuse("at most " + std::to_string(max_rules_at_a_position) + " rules that begin alike",
             "more");
    chains_[state] = static_cast<uint8_t>(longest);
    return longest;
  }

  [[noreturn]] void refuse(std::string expected, std::string found) const {
    reader_.refuse(offset_, std::move(expected), std::move(found));
  }

  int64_t offset_;
  const Reader& reader_;
  std::vector<uint32_t> units_;
  size_t text_bytes_ = 0;
  std::vector<uint8_t> chains_;
};

class Checker {
 public:
  explicit Checker(const std::string& name) : name_(name) {}

  void check(std::span<const std::byte> bytes) {
    Reader reader(bytes, 0, name_);
    if (bytes.empty()) reader.refuse(0, "a SentencePiece model", "an empty file");
    if (std::cmp_greater(bytes.size(), max_tokenizer_bytes))
      reader.refuse(0, "at most " + std::to_string(max_tokenizer_bytes) + " bytes",
                    std::to_string(bytes.size()));
    while (!reader.done()) {
      const Field field = reader.next();
      if (field.wire != Wire::length) continue;
      Reader inside(field.bytes, reader.content_offset(field), name_);
      switch (field.number) {
        case Model::pieces:
          check_piece(inside, field.offset);
          break;
        case Model::trainer_spec:
          check_trainer_spec(inside);
          break;
        case Model::normalizer:
        case Model::denormalizer:
          check_normalizer(inside);
          break;
        case Model::self_test:
          count_fields(inside);
          break;
        default:
          count_other(reader, field.offset);
      }
    }
    if (piece_count_ == 0)
      reader.refuse(static_cast<int64_t>(bytes.size()), "pieces", "the end of the file");
    check_symbols(reader);
  }

 private:
  void count_other(const Reader& reader, int64_t offset) {
    if (++other_fields_ > max_other_fields)
      reader.refuse(offset, "at most " + std::to_string(max_other_fields) + " fields beside pieces",
                    "more");
  }

  void count_fields(Reader& reader) {
    while (!reader.done()) count_other(reader, reader.next().offset);
  }

  void check_piece(Reader& reader, int64_t offset) {
    if (++piece_count_ > max_pieces)
      reader.refuse(offset, "at most " + std::to_string(max_pieces) + " pieces", "more");
    std::string_view text;
    int32_t type = 1;
    while (!reader.done()) {
      const Field field = reader.next();
      if (field.number == Piece::piece_text && field.wire == Wire::length) {
        text = {reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()};
        if (std::cmp_greater(text.size(), max_piece_bytes))
          reader.refuse(field.offset,
                        "a piece of at most " + std::to_string(max_piece_bytes) + " bytes",
                        std::to_string(text.size()));
        if (text.find('\0') != std::string_view::npos)
          reader.refuse(field.offset, "a piece without zero bytes", "one with them");
      } else if (field.number == Piece::piece_score && field.wire == Wire::fixed32) {
        float score = 0;
        std::memcpy(&score, &field.value, 4);
        if (!(std::abs(score) <= max_score))
          reader.refuse(field.offset, "a score of at most 1e9 in magnitude",
                        fmt::format("{}", score));
      } else if (field.number == Piece::piece_type && field.wire == Wire::varint) {
        type = static_cast<int32_t>(field.value);
        if (type < 1 || type > 6)
          reader.refuse(field.offset, "a piece of type 1 to 6", std::to_string(type));
      } else {
        count_other(reader, field.offset);
      }
    }
    if (text.empty()) reader.refuse(offset, "a piece with a text", "an empty one");
    if (type == user_defined) symbols_.push_back(text);
  }

  void check_trainer_spec(Reader& reader) {
    while (!reader.done()) {
      const Field field = reader.next();
      count_other(reader, field.offset);
      if (field.number != model_type || field.wire != Wire::varint) continue;
      const auto type = static_cast<int32_t>(field.value);
      if (type != 1 && type != 2)
        reader.refuse(field.offset, "a model of type 1 (unigram) or 2 (BPE)", std::to_string(type));
    }
  }

  void check_normalizer(Reader& reader) {
    while (!reader.done()) {
      const Field field = reader.next();
      count_other(reader, field.offset);
      if (field.number == charsmap && field.wire == Wire::length)
        Charsmap(field.bytes, field.offset, reader);
    }
  }

  // User-defined symbols with a common prefix can all match at one position.
  void check_symbols(const Reader& reader) {
    std::sort(symbols_.begin(), symbols_.end());
    std::vector<std::string_view> prefixes;
    for (const std::string_view symbol : symbols_) {
      while (!prefixes.empty() && !symbol.starts_with(prefixes.back())) prefixes.pop_back();
      prefixes.push_back(symbol);
      if (prefixes.size() > max_symbols_at_a_position)
        reader.refuse(0,
                      "at most " + std::to_string(max_symbols_at_a_position) +
                          " user-defined symbols that begin alike",
                      "more");
    }
  }

  const std::string& name_;
  int64_t piece_count_ = 0, other_fields_ = 0;
  std::vector<std::string_view> symbols_;
};

std::string string_of(const Field& field) {
  return {reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()};
}

SentencePieceContents::Piece read_piece(Reader& reader) {
  SentencePieceContents::Piece piece;
  while (!reader.done()) {
    const Field field = reader.next();
    if (field.number == Piece::piece_text) piece.text = string_of(field);
    if (field.number == Piece::piece_score) std::memcpy(&piece.score, &field.value, 4);
    if (field.number == Piece::piece_type)
      piece.type = static_cast<SentencePieceContents::Type>(field.value);
  }
  return piece;
}

void read_trainer_spec(Reader& reader, SentencePieceContents& contents) {
  constexpr uint32_t suffix_space = 24, byte_fallback = 35;
  while (!reader.done()) {
    const Field field = reader.next();
    if (field.number == model_type) contents.is_unigram = field.value == 1;
    if (field.number == suffix_space) contents.suffix_space = field.value != 0;
    if (field.number == byte_fallback) contents.byte_fallback = field.value != 0;
  }
}

void read_normalizer(Reader& reader, SentencePieceContents& contents) {
  constexpr uint32_t add_dummy_prefix = 3, remove_extra_whitespaces = 4;
  while (!reader.done()) {
    const Field field = reader.next();
    if (field.number == charsmap) contents.charsmap = string_of(field);
    if (field.number == add_dummy_prefix) contents.add_dummy_prefix = field.value != 0;
    if (field.number == remove_extra_whitespaces)
      contents.remove_extra_whitespaces = field.value != 0;
  }
}

}  // namespace

void check_sentencepiece_model(std::span<const std::byte> bytes, const std::string& name) {
  Checker(name).check(bytes);
}

SentencePieceContents read_sentencepiece_model(std::span<const std::byte> bytes,
                                               const std::string& name) {
  check_sentencepiece_model(bytes, name);
  SentencePieceContents contents;
  for (Reader reader(bytes, 0, name); !reader.done();) {
    const Field field = reader.next();
    if (field.wire != Wire::length) continue;
    Reader inside(field.bytes, reader.content_offset(field), name);
    if (field.number == Model::pieces) contents.pieces.push_back(read_piece(inside));
    if (field.number == Model::trainer_spec) read_trainer_spec(inside, contents);
    if (field.number == Model::normalizer) read_normalizer(inside, contents);
  }
  return contents;
}

}  // namespace binade::data
