#include "binade/data/tokenizer_json/model.h"

#include <fmt/format.h>

namespace binade::data {

Vocabulary::Vocabulary(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
  ids_.reserve(tokens_.size());
  for (size_t id = 0; id < tokens_.size(); ++id) {
    if (tokens_[id].empty()) continue;
    ids_[tokens_[id]] = static_cast<int32_t>(id);
    ++count_;
  }
}

std::optional<int32_t> Vocabulary::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int32_t> Vocabulary::id_of_byte(unsigned char byte) const {
  return id_of(fmt::format("<0x{:02X}>", byte));
}

}  // namespace binade::data
