#include "binade/data/tokenizer.h"

#include "binade/base/error.h"
#include "binade/data/sentencepiece.h"

namespace binade::data {
namespace {

class Bytes final : public Tokenizer {
 public:
  int64_t vocab() const override { return byte_vocabulary; }
  std::vector<int64_t> encode(std::string_view text) const override {
    std::vector<int64_t> ids;
    ids.reserve(text.size());
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string decode(std::span<const int64_t> ids) const override {
    std::string text;
    for (const int64_t id : ids) text += id >= 0 && id < vocab() ? static_cast<char>(id) : '?';
    return text;
  }
  std::string_view model() const override { return {}; }
};

}  // namespace

std::unique_ptr<const Tokenizer> open_tokenizer(const std::string& name) {
  if (name == byte_tokenizer) return std::make_unique<Bytes>();
  std::error_code error;
  if (!std::filesystem::exists(name, error)) {
    fail("tokenizer", {.argument = name,
                       .expected = "bytes, or the path of a SentencePiece model",
                       .found = error ? error.message() : "no file of that name"});
  }
  return open_sentencepiece(name);
}

std::unique_ptr<const Tokenizer> tokenizer_of(const std::filesystem::path& folder, int64_t vocab) {
  const std::filesystem::path file = folder / tokenizer_file;
  std::error_code ignored;  // opening it reports what is wrong
  if (std::filesystem::exists(file, ignored)) {
    auto tokenizer = open_sentencepiece(file);
    if (tokenizer->vocab() > vocab) {
      fail("tokenizer", {.argument = file.string(),
                         .expected = "at most the model's " + std::to_string(vocab) + " pieces",
                         .found = std::to_string(tokenizer->vocab())});
    }
    return tokenizer;
  }
  if (vocab != byte_vocabulary) {
    fail("tokenizer", {.argument = file.string(),
                       .expected = "a tokenizer: the model has " + std::to_string(vocab) +
                                   " tokens, not the 256 of bytes",
                       .found = "none"});
  }
  return std::make_unique<Bytes>();
}

}  // namespace binade::data
