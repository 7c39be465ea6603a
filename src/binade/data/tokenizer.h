#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/base/function_ref.h"

namespace binade::data {

// The largest file of a tokenizer that is read: those of public models stay below 40 MB.
inline constexpr int64_t max_tokenizer_bytes = 64 << 20;

// Ids that belong around a text, such as BOS and EOS.
struct TemplateIds {
  std::vector<int64_t> before = {}, after = {};
};

// Converts text to token ids and back. The ids do not depend on the number of threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Ids are below this.
  virtual int64_t vocab() const = 0;

  // The ids of a text, without template_ids().
  std::vector<int64_t> encode(std::string_view text) const;
  // The ids of the text from `begin` to `end` as a part of it: those before `begin` and these are
  // the ids up to `end` if may_cut(text, begin).
  std::vector<int64_t> encode_between(std::string_view text, size_t begin, size_t end) const;
  // Whether a text has the ids of its parts before and after `at`, as far as the text around `at`
  // shows.
  bool may_cut(std::string_view text, size_t at) const;
  // Encodes a whole text in parts: calls `sink` with the ids of each part, in order, and the number
  // of bytes done. Threads share the work; a few parts per thread are in memory at a time.
  using Sink = FunctionRef<void(std::span<const int32_t>, size_t)>;
  void encode_in_parts(std::string_view text, Sink sink) const;
  // encode_in_parts() for a text that `more` appends in blocks until it returns false. A few blocks
  // are in memory at a time.
  using More = FunctionRef<bool(std::string&)>;
  void encode_stream(More more, Sink sink) const;
  virtual TemplateIds template_ids() const { return {}; }
  // The ids of a prompt: those of the template before a text, and the text's.
  std::vector<int64_t> encode_prompt(std::string_view text) const;

  // The text of ids. Ids past the vocabulary become question marks, special tokens become nothing.
  // The result need not be UTF-8.
  virtual std::string decode(std::span<const int64_t> ids) const = 0;
  // The bytes of the tokenizer's file; empty for byte_tokenizer.
  virtual std::string_view model() const = 0;

 protected:
  // The end of the part that begins at `begin`. Parts are encoded independently. It depends on no
  // more than `lookahead` bytes from `begin` on and `lookback` bytes before it, except for whether
  // `begin` is 0.
  static constexpr size_t lookahead = 2 << 20, lookback = 4096;
  virtual size_t part_end(std::string_view text, size_t begin) const = 0;
  virtual std::vector<int32_t> encode_part(std::string_view text, size_t begin,
                                           size_t end) const = 0;

 private:
  // Encodes the parts that begin before `until` and returns the end of the last.
  size_t encode_range(std::string_view text, size_t begin, size_t until, Sink sink) const;
};

// The name of the tokenizer whose tokens are the bytes of a text, and its vocabulary.
inline constexpr std::string_view byte_tokenizer = "bytes";
inline constexpr int64_t byte_vocabulary = 256;

// Bytes in which ids of the tokenizer are stored: one for bytes, two up to a vocabulary of 65536,
// else four.
int token_width(const Tokenizer& tokenizer);

// The name of a tokenizer's file with these bytes: tokenizer.json or tokenizer.model.
const char* tokenizer_file(std::string_view model);

// The tokenizer's file in a folder: tokenizer.json, tokenizer.model or vocab.json (with a
// merges.txt beside it), in this order. Of a GGUF file, the file itself if it has one.
std::optional<std::filesystem::path> find_tokenizer(const std::filesystem::path& folder);

// byte_tokenizer, or the path of a tokenizer.json, a vocab.json with a merges.txt beside it, a
// SentencePiece model, a GGUF file, or a folder with one of the first three.
std::unique_ptr<const Tokenizer> open_tokenizer(const std::string& name);

// The tokenizer of a model's folder, or bytes if there is none and the model has the vocabulary of
// bytes. Fails for any other model, and for a tokenizer with ids past `vocab`.
std::unique_ptr<const Tokenizer> tokenizer_of(const std::filesystem::path& folder, int64_t vocab);

}  // namespace binade::data
