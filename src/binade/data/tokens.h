#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace binade::data {

// A run of token ids, one, two or four bytes each, in memory or in mapped files. Copies share it.
class Tokens {
 public:
  Tokens() = default;
  // `count` little-endian ids of `width` bytes at `data`, which lives as long as `owner`.
  Tokens(std::shared_ptr<const void> owner, const std::byte* data, int width, int64_t count);

  // Every byte of a text is a token.
  static Tokens of_bytes(std::string text);
  // Ids as they lie in memory, `width` bytes each.
  static Tokens of_ids(std::string bytes, int width);
  // One run after another.
  static Tokens joined(std::span<const Tokens> runs);

  int64_t size() const { return parts_.empty() ? 0 : parts_.back().end; }
  int64_t operator[](int64_t index) const;
  // Fills `ids` with those from `begin` on.
  void read(int64_t begin, std::span<int64_t> ids) const;
  Tokens slice(int64_t begin, int64_t end) const;
  // The largest id; -1 where there are none.
  int64_t largest() const;

 private:
  struct Part {
    std::shared_ptr<const void> owner;
    const std::byte* data;
    int width;
    int64_t begin, end;  // of the whole run
  };
  void append(const Part& part, int64_t begin, int64_t end);

  std::vector<Part> parts_;
};

struct Split {
  Tokens train;
  Tokens validation;
};

// The last `share` of the tokens, at least one sequence of `context` + 1, is for validation. Fails
// where either part would be shorter than that.
Split split(const Tokens& tokens, double share, int64_t context, const std::string& source);

}  // namespace binade::data
