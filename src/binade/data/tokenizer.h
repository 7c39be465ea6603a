#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace binade::data {

// How text becomes token ids and back. The same text gives the same ids for any number of threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Ids are below this.
  virtual int64_t vocab() const = 0;
  virtual std::vector<int64_t> encode(std::string_view text) const = 0;
  // The text of ids; one that is past the vocabulary becomes a question mark. What a model made up
  // need not be UTF-8.
  virtual std::string decode(std::span<const int64_t> ids) const = 0;
  // The bytes of the file it was read from; none for bytes.
  virtual std::string_view model() const = 0;
};

// The name of the tokenizer's file in a checkpoint, as Hugging Face has it.
inline constexpr const char* tokenizer_file = "tokenizer.model";

// "bytes", where every byte is a token, or the path of a SentencePiece model.
std::unique_ptr<const Tokenizer> open_tokenizer(const std::string& name);

// The tokenizer of a model's folder: its tokenizer.model, or bytes where there is none and the
// model knows 256 tokens. Fails for any other model, and for a tokenizer with ids past `vocab`.
std::unique_ptr<const Tokenizer> tokenizer_of(const std::filesystem::path& folder, int64_t vocab);

}  // namespace binade::data
