#include "binade/data/tokenizer_json/decoder.h"

#include <optional>

#include "binade/base/error.h"
#include "binade/data/tokenizer_json/byte_level.h"

namespace binade::data {
namespace {

using TokenTexts = std::vector<std::string>;

// Bounds for hostile files; real ones replace a character by a space.
constexpr size_t max_decoder_growth = 16, max_decoder_extra = 64 << 10;

size_t bytes_in(const TokenTexts& tokens) {
  size_t bytes = 0;
  for (const std::string& token : tokens) bytes += token.size();
  return bytes;
}

std::string replaced(std::string_view text, std::string_view old, std::string_view by) {
  std::string result;
  for (size_t at = 0;;) {
    const size_t found = text.find(old, at);
    result += text.substr(at, found - at);
    if (found == std::string_view::npos) return result;
    result += by;
    at = found + old.size();
  }
}

std::optional<char> byte_in(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  unsigned value = 0;
  for (const char c : token.substr(3, 2)) {
    const bool digit = c >= '0' && c <= '9';
    const char lower = static_cast<char>(c | 0x20);
    if (!digit && (lower < 'a' || lower > 'f')) return std::nullopt;
    value = value * 16 + static_cast<unsigned>(digit ? c - '0' : lower - 'a' + 10);
  }
  return static_cast<char>(value);
}

// In the package's order.
constexpr std::pair<std::string_view, std::string_view> cleanups[] = {
    {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
    {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
    {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};

struct ApplyDecoder {
  TokenTexts& tokens;
  size_t limit;

  void operator()(ByteLevelDecoder) const {
    for (std::string& token : tokens) {
      if (auto bytes = byte_level_bytes(token)) token = std::move(*bytes);
    }
    (*this)(FuseDecoder());
  }
  void operator()(ByteFallbackDecoder) const {
    for (std::string& token : tokens) {
      if (const auto byte = byte_in(token)) token.assign(1, *byte);
    }
  }
  void operator()(FuseDecoder) const {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens.clear();
    tokens.push_back(std::move(all));
  }
  void operator()(const ReplaceDecoder& step) const {
    size_t bytes = 0;
    for (std::string& token : tokens) {
      token = replaced(token, step.text, step.content);
      bytes += token.size();
      if (bytes > limit) {
        fail("tokenizer", {.argument = "the decoder",
                           .expected = "at most " + std::to_string(limit) + " bytes",
                           .found = "more"});
      }
    }
  }
  void operator()(const StripDecoder& step) const {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (size_t i = 0; i < step.start && rest.starts_with(step.character); ++i)
        rest.remove_prefix(step.character.size());
      for (size_t i = 0; i < step.stop && rest.ends_with(step.character); ++i)
        rest.remove_suffix(step.character.size());
      token = std::string(rest);
    }
  }
  void operator()(const MetaspaceDecoder& step) const {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replaced(tokens[i], step.replacement, i == 0 && step.drop_first ? "" : " ");
  }
  void operator()(const WordPieceDecoder& step) const {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0 && token.starts_with(step.prefix)) {
        token.erase(0, step.prefix.size());
      } else if (i > 0) {
        token.insert(0, " ");
      }
      if (!step.cleanup) continue;
      for (const auto& [text, by] : cleanups) token = replaced(token, text, by);
    }
  }
};

}  // namespace

std::string Decoder::apply(std::vector<std::string> tokens) const {
  const size_t limit = bytes_in(tokens) * max_decoder_growth + max_decoder_extra;
  for (const DecoderStep& step : steps_) std::visit(ApplyDecoder{tokens, limit}, step);
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && !exists_) text += ' ';
    text += tokens[i];
  }
  return text;
}

}  // namespace binade::data
