#include "binade/data/tokens.h"

#include <algorithm>
#include <cmath>

#include "binade/base/error.h"

namespace binade::data {

Tokens Tokens::of_bytes(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  const auto* data = reinterpret_cast<const std::byte*>(owner->data());
  const auto count = static_cast<int64_t>(owner->size());
  return {std::move(owner), data, 1, count};
}

int64_t Tokens::operator[](int64_t index) const {
  uint32_t id = 0;
  for (int i = 0; i < width_; ++i)
    id |= static_cast<uint32_t>(data_[index * width_ + i]) << (8 * i);
  return id;
}

Tokens Tokens::slice(int64_t begin, int64_t end) const {
  return {owner_, data_ + begin * width_, width_, end - begin};
}

int64_t Tokens::largest() const {
  int64_t result = -1;
  for (int64_t i = 0; i < count_; ++i) result = std::max(result, (*this)[i]);
  return result;
}

Split split(const Tokens& tokens, double share, int64_t context, const std::string& source) {
  const int64_t sequence = context + 1;
  const auto wanted = static_cast<int64_t>(std::floor(share * static_cast<double>(tokens.size())));
  const int64_t validation = std::max(wanted, sequence);
  if (tokens.size() - validation < sequence) {
    fail("data",
         {.argument = source,
          .expected = "at least " + std::to_string(2 * sequence) +
                      " tokens: one sequence of context + 1 to train on and one to validate on",
          .found = std::to_string(tokens.size()),
          .hint = "give more text or a smaller --context"});
  }
  const int64_t cut = tokens.size() - validation;
  return {tokens.slice(0, cut), tokens.slice(cut, tokens.size())};
}

}  // namespace binade::data
