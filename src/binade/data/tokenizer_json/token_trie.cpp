#include "binade/data/tokenizer_json/token_trie.h"

namespace binade::data {

TokenTrie::TokenTrie(const Vocabulary& vocabulary) : ends_(1, -1) {
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    Node node = root;
    for (const char byte : vocabulary.token(id)) {
      Node child = next(node, byte);
      if (child == none) {
        child = ends_.size();
        edges_.set(edge(node, byte), child);
        ends_.push_back(-1);
      }
      node = child;
    }
    ends_[node] = id;
  }
}

}  // namespace binade::data
