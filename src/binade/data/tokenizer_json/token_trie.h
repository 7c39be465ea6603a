#pragma once

#include <cstdint>
#include <vector>

#include "binade/data/tokenizer_json/flat_map.h"
#include "binade/data/tokenizer_json/model.h"

namespace binade::data {

// The tokens of a vocabulary by their bytes, to find all that a text begins with in one pass.
class TokenTrie {
 public:
  using Node = uint64_t;
  static constexpr Node root = 0, none = FlatMap::none;

  explicit TokenTrie(const Vocabulary& vocabulary);

  // `none` if no token goes on with this byte. `node` is not none.
  Node next(Node node, char byte) const { return edges_.find(edge(node, byte)); }
  // The token that ends at a node, or -1.
  int32_t token_at(Node node) const { return ends_[node]; }

 private:
  static uint64_t edge(Node node, char byte) {
    return node << 8U | static_cast<unsigned char>(byte);
  }

  FlatMap edges_;  // node and byte to node
  std::vector<int32_t> ends_;
};

}  // namespace binade::data
