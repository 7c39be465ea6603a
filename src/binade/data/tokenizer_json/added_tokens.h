#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "binade/base/function_ref.h"
#include "binade/data/tokenizer_json/work_budget.h"

namespace binade::data {

// A token that is matched in the text before it is split into words.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // matches only if no letter, digit or _ is next to it
  bool lstrip = false;       // includes the white space before it
  bool rstrip = false;       // includes the white space after it
  bool normalized = true;    // is matched in the normalized text
  bool special = false;      // is omitted from decoded text
};

// For what is done once with the contents of all tokens.
WorkBudget budget_of(const std::vector<AddedToken>& tokens);

// Splits texts at added tokens.
class AddedTokenMatcher {
 public:
  struct Entry {
    std::string text;  // to match; not empty, unique
    AddedToken token;
  };
  explicit AddedTokenMatcher(std::vector<Entry> entries);

  // Calls on_text(piece) for the text between tokens and on_token(id) for tokens, in order. The
  // leftmost match counts, of several there the longest.
  void split(std::string_view text, WorkBudget& budget, FunctionRef<void(std::string_view)> on_text,
             FunctionRef<void(int32_t)> on_token) const;

  bool empty() const { return entries_.empty(); }

 private:
  struct Match {
    size_t begin, end;
    const AddedToken* token;  // null: none
  };
  Match find(std::string_view text, size_t from, WorkBudget& budget) const;

  std::vector<Entry> entries_;
  std::bitset<256> first_bytes_;
  std::unordered_map<uint64_t, uint32_t> edges_;  // a trie: node and byte to node
  std::vector<int32_t> ends_;                     // per node: the entry that ends there, or -1
};

}  // namespace binade::data
