#include "binade/data/token_text.h"

namespace binade::data {

std::string token_text(const Tokenizer& tokenizer, std::optional<int64_t> before, int64_t id) {
  const int64_t one[] = {id};
  if (!before) return tokenizer.decode(one);
  // The first token of a text may lose a space.
  const int64_t two[] = {*before, id};
  const std::string both = tokenizer.decode(two), first = tokenizer.decode({two, 1});
  return both.starts_with(first) ? both.substr(first.size()) : tokenizer.decode(one);
}

}  // namespace binade::data
