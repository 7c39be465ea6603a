#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace binade::data {

// Converts text to token ids and back. The ids do not depend on the number of threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Ids are below this.
  virtual int64_t vocab() const = 0;
  virtual std::vector<int64_t> encode(std::string_view text) const = 0;
  // The text of ids; one past the vocabulary becomes a question mark. The text need not be UTF-8:
  // a model may generate any sequence of ids.
  virtual std::string decode(std::span<const int64_t> ids) const = 0;
  // The bytes of the tokenizer's file; empty for byte_tokenizer.
  virtual std::string_view model() const = 0;
};

// The name of the tokenizer whose tokens are the bytes of a text, and its vocabulary.
inline constexpr std::string_view byte_tokenizer = "bytes";
inline constexpr int64_t byte_vocabulary = 256;

// The name of the tokenizer's file in a checkpoint, as Hugging Face has it.
inline constexpr const char* tokenizer_file = "tokenizer.model";

// byte_tokenizer, or the path of a SentencePiece model.
std::unique_ptr<const Tokenizer> open_tokenizer(const std::string& name);

// The tokenizer of a model's folder: its tokenizer.model, or bytes if there is none and the model
// has the vocabulary of bytes. Fails for any other model, and for a tokenizer with ids past
// `vocab`.
std::unique_ptr<const Tokenizer> tokenizer_of(const std::filesystem::path& folder, int64_t vocab);

}  // namespace binade::data
