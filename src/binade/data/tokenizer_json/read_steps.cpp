#include <algorithm>
#include <optional>

#include "binade/base/error.h"
#include "binade/data/tokenizer_json/byte_level.h"
#include "binade/data/tokenizer_json/read_parts.h"

namespace binade::data {
namespace {

using json::Value;

constexpr size_t max_steps = 64, max_text_bytes = 4096;

// A text of bounded length, since steps multiply texts.
const std::string& short_text(const Value& value) {
  const std::string& text = value.string();
  if (text.size() > max_text_bytes)
    value.refuse("at most " + std::to_string(max_text_bytes) + " bytes",
                 std::to_string(text.size()));
  return text;
}

const std::string& single_character(const Value& value) {
  const std::string& text = text_of(value);
  if (character_at(text, 0).bytes != text.size()) value.refuse("one character", value.describe());
  return text;
}

Pattern read_pattern(const Value& value) {
  expect_members(value, {"String", "Regex"});
  if (const Value* text = value.find("String")) {
    text_of(*text);
    return Pattern(short_text(*text));
  }
  const Value& regex = value.at("Regex");
  text_of(regex);
  try {
    return Pattern(Regex(short_text(regex), "pattern"));
  } catch (const Error& error) {
    regex.refuse(error.facts().expected, error.facts().found);
  }
}

// Calls add(step) for the steps of a part: itself, or those in a Sequence's member `items`.
template <class Add>
void each_step(const Value& value, std::string_view items, size_t& count, Add&& add) {
  if (value.at("type").string() != "Sequence") {
    if (++count > max_steps)
      value.refuse("at most " + std::to_string(max_steps) + " steps", "more");
    return add(value);
  }
  expect_members(value, {"type", items});
  for (const Value& item : value.at(items).array()) each_step(item, items, count, add);
}

std::optional<NormalForm> normal_form(std::string_view type) {
  if (type == "NFC") return NormalForm::nfc;
  if (type == "NFD") return NormalForm::nfd;
  if (type == "NFKC") return NormalForm::nfkc;
  if (type == "NFKD") return NormalForm::nfkd;
  return std::nullopt;
}

// Its steps, in the order in which the package takes them.
std::vector<NormalizerStep> read_bert_normalizer(const Value& value) {
  expect_members(value,
                 {"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  const bool lowercase = value.at("lowercase").boolean();
  std::vector<NormalizerStep> steps;
  if (value.at("clean_text").boolean()) steps.emplace_back(CleanText());
  if (value.at("handle_chinese_chars").boolean()) steps.emplace_back(SpaceIdeographs());
  // Without a word about accents, lower case has none.
  if (optional_flag(value, "strip_accents", lowercase)) {
    steps.emplace_back(NormalForm::nfd);
    steps.emplace_back(StripAccents{MarkKind::nonspacing});
  }
  if (lowercase) steps.emplace_back(Lowercase());
  return steps;
}

NormalizerStep read_normalizer_step(const Value& value) {
  const Value& type = value.at("type");
  if (const auto form = normal_form(type.string())) {
    expect_members(value, {"type"});
    return *form;
  }
  if (type.string() == "Lowercase") {
    expect_members(value, {"type"});
    return Lowercase();
  }
  if (type.string() == "StripAccents") {
    expect_members(value, {"type"});
    return StripAccents();
  }
  if (type.string() == "Prepend") {
    expect_members(value, {"type", "prepend"});
    return Prepend{short_text(value.at("prepend"))};
  }
  if (type.string() == "Replace") {
    expect_members(value, {"type", "pattern", "content"});
    return Replace{read_pattern(value.at("pattern")), short_text(value.at("content"))};
  }
  type.refuse(
      "a normalizer NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, BertNormalizer, Prepend, "
      "Replace or Sequence",
      type.describe());
}

SplitBehavior read_behavior(const Value& behavior) {
  static constexpr std::pair<std::string_view, SplitBehavior> behaviors[] = {
      {"Isolated", SplitBehavior::isolated},
      {"Removed", SplitBehavior::removed},
      {"MergedWithPrevious", SplitBehavior::merged_with_previous},
      {"MergedWithNext", SplitBehavior::merged_with_next},
      {"Contiguous", SplitBehavior::contiguous},
  };
  for (const auto& [name, meant] : behaviors) {
    if (behavior.string() == name) return meant;
  }
  behavior.refuse("Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous",
                  behavior.describe());
}

SplitPattern read_split(const Value& value) {
  expect_members(value, {"type", "pattern", "behavior", "invert"});
  const SplitBehavior behavior = read_behavior(value.at("behavior"));
  return {read_pattern(value.at("pattern")), behavior, value.at("invert").boolean()};
}

ByteLevel read_byte_level(const Value& value) {
  expect_members(value, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
  ByteLevel step{.add_prefix_space = value.at("add_prefix_space").boolean()};
  if (optional_flag(value, "use_regex", true))
    step.pattern.emplace(Regex(gpt2_pattern, "GPT-2's pattern"));
  return step;
}

// Older files say add_prefix_space, and repeat the replacement as str_rep.
Metaspace read_metaspace(const Value& value) {
  expect_members(value,
                 {"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  Metaspace step{.replacement = single_character(value.at("replacement")),
                 .split = optional_flag(value, "split", true)};
  if (const Value* scheme = optional_member(value, "prepend_scheme")) {
    if (scheme->string() == "first") {
      step.prepend = Metaspace::Prepend::first;
    } else if (scheme->string() == "never") {
      step.prepend = Metaspace::Prepend::never;
    } else if (scheme->string() != "always") {
      scheme->refuse("always, first or never", scheme->describe());
    }
  }
  const bool prepends = step.prepend != Metaspace::Prepend::never;
  if (prepends && !optional_flag(value, "add_prefix_space", true))
    value.at("add_prefix_space").refuse("true, or a prepend_scheme \"never\"", "false");
  return step;
}

SplitPattern read_digits(const Value& value) {
  expect_members(value, {"type", "individual_digits"});
  return {Pattern(Regex("\\p{N}", "digits")), value.at("individual_digits").boolean()
                                                  ? SplitBehavior::isolated
                                                  : SplitBehavior::contiguous};
}

SplitPattern white_space() {
  return {Pattern(Regex("\\s+", "white space")), SplitBehavior::removed};
}

// Unicode's, and all of ASCII's.
SplitPattern punctuation(SplitBehavior behavior) {
  return {Pattern(Regex(R"([\p{P}$+<=>^`|~])", "punctuation")), behavior};
}

// \w as the package's other regular expressions have it, those of Rust.
SplitPattern words_and_symbols() {
  const std::string word = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d})";
  return {Pattern(Regex("[" + word + "]+|[^" + word + "\\s]+", "words")), SplitBehavior::removed,
          true};
}

// Appends the steps of a pre-tokenizer without options that splits at white space.
bool append_word_splits(std::string_view type, std::vector<PreTokenizerStep>& steps) {
  if (type == "Whitespace") {
    steps.emplace_back(words_and_symbols());
  } else if (type == "WhitespaceSplit" || type == "BertPreTokenizer") {
    steps.emplace_back(white_space());
    if (type == "BertPreTokenizer") steps.emplace_back(punctuation(SplitBehavior::isolated));
  } else {
    return false;
  }
  return true;
}

PreTokenizerStep read_pre_tokenizer_step(const Value& value) {
  const Value& type = value.at("type");
  if (type.string() == "Split") return read_split(value);
  if (type.string() == "ByteLevel") return read_byte_level(value);
  if (type.string() == "Metaspace") return read_metaspace(value);
  if (type.string() == "Digits") return read_digits(value);
  if (type.string() == "Punctuation") {
    expect_members(value, {"type", "behavior"});
    return punctuation(read_behavior(value.at("behavior")));
  }
  type.refuse(
      "a pre-tokenizer Split, ByteLevel, Metaspace, Digits, Punctuation, Whitespace, "
      "WhitespaceSplit, BertPreTokenizer or Sequence",
      type.describe());
}

DecoderStep read_decoder_step(const Value& value) {
  const Value& type = value.at("type");
  if (type.string() == "ByteLevel") {
    expect_members(value, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return ByteLevelDecoder();
  }
  if (type.string() == "ByteFallback" || type.string() == "Fuse") {
    expect_members(value, {"type"});
    return type.string() == "Fuse" ? DecoderStep(FuseDecoder()) : ByteFallbackDecoder();
  }
  if (type.string() == "Replace") {
    expect_members(value, {"type", "pattern", "content"});
    const Value& pattern = value.at("pattern");
    expect_members(pattern, {"String"});
    text_of(pattern.at("String"));
    return ReplaceDecoder{short_text(pattern.at("String")), short_text(value.at("content"))};
  }
  if (type.string() == "Strip") {
    expect_members(value, {"type", "content", "start", "stop"});
    return StripDecoder{single_character(value.at("content")),
                        static_cast<size_t>(value.at("start").integer(0, INT32_MAX)),
                        static_cast<size_t>(value.at("stop").integer(0, INT32_MAX))};
  }
  if (type.string() == "Metaspace") {
    const Metaspace step = read_metaspace(value);
    return MetaspaceDecoder{step.replacement, step.prepend != Metaspace::Prepend::never};
  }
  if (type.string() == "WordPiece") {
    expect_members(value, {"type", "prefix", "cleanup"});
    return WordPieceDecoder{short_text(value.at("prefix")), value.at("cleanup").boolean()};
  }
  type.refuse(
      "a decoder ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace, WordPiece or Sequence",
      type.describe());
}

}  // namespace

Normalizer read_normalizer(const Value& value) {
  std::vector<NormalizerStep> steps;
  size_t count = 0;
  each_step(value, "normalizers", count, [&](const Value& item) {
    if (item.at("type").string() == "BertNormalizer") {
      for (NormalizerStep& step : read_bert_normalizer(item)) steps.push_back(std::move(step));
    } else {
      steps.push_back(read_normalizer_step(item));
    }
  });
  return Normalizer(std::move(steps));
}

PreTokenizer read_pre_tokenizer(const Value& value) {
  std::vector<PreTokenizerStep> steps;
  size_t count = 0;
  each_step(value, "pretokenizers", count, [&](const Value& item) {
    // A later step would see mapped bytes.
    if (!steps.empty() && std::holds_alternative<ByteLevel>(steps.back()))
      item.refuse("ByteLevel as the last pre-tokenizer", "another behind it");
    if (append_word_splits(item.at("type").string(), steps)) {
      expect_members(item, {"type"});
    } else {
      steps.push_back(read_pre_tokenizer_step(item));
    }
  });
  return PreTokenizer(std::move(steps));
}

Decoder read_decoder(const Value& value) {
  std::vector<DecoderStep> steps;
  size_t count = 0;
  each_step(value, "decoders", count, [&](const Value& item) {
    steps.push_back(read_decoder_step(item));
    // ByteLevel reads characters, which these no longer are.
    const bool reads_bytes =
        std::holds_alternative<ByteLevelDecoder>(steps.back()) &&
        std::any_of(steps.begin(), steps.end() - 1, [](const DecoderStep& step) {
          return std::holds_alternative<ByteLevelDecoder>(step) ||
                 std::holds_alternative<ByteFallbackDecoder>(step);
        });
    if (reads_bytes) item.refuse("ByteLevel before what makes bytes", "ByteLevel behind it");
  });
  return Decoder(std::move(steps));
}

}  // namespace binade::data
