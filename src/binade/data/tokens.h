#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace binade::data {

// A run of token ids, one, two or four bytes each, in memory or in a mapped file. Copies share it.
class Tokens {
 public:
  Tokens() = default;
  // `count` little-endian ids of `width` bytes at `data`, which lives as long as `owner`.
  Tokens(std::shared_ptr<const void> owner, const std::byte* data, int width, int64_t count)
      : owner_(std::move(owner)), data_(data), width_(width), count_(count) {}

  // Every byte of a text is a token.
  static Tokens of_bytes(std::string text);

  int64_t size() const { return count_; }
  int64_t operator[](int64_t index) const;
  Tokens slice(int64_t begin, int64_t end) const;
  // The largest id; -1 where there are none.
  int64_t largest() const;

 private:
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  int width_ = 1;
  int64_t count_ = 0;
};

struct Split {
  Tokens train;
  Tokens validation;
};

// The last `share` of the tokens, at least one sequence of `context` + 1, is for validation. Fails
// where either part would be shorter than that.
Split split(const Tokens& tokens, double share, int64_t context, const std::string& source);

}  // namespace binade::data
