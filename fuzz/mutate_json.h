#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// Changes of JSON that keep it JSON, so that most inputs get past the parser and into the checks of
// fields: values of other kinds and at the edges of their ranges, members that are missing, moved,
// renamed or given twice.
namespace binade::fuzz {

class JsonMutator {
 public:
  // `words` are the names and texts that the reader knows.
  JsonMutator(std::initializer_list<const char*> words, unsigned seed)
      : words_(words.begin(), words.end()), draw_(seed) {}

  uint32_t below(size_t n) { return static_cast<uint32_t>(draw_() % std::max<size_t>(n, 1)); }

  // The text with some changes; itself if it is not JSON or too deep to walk.
  std::string mutated(const std::string& text) {
    constexpr std::ptrdiff_t max_brackets = 4000;
    const auto opens = [](char c) { return c == '[' || c == '{'; };
    if (std::count_if(text.begin(), text.end(), opens) > max_brackets) return text;
    nlohmann::json root = nlohmann::json::parse(text, nullptr, false);
    if (root.is_discarded()) return text;
    for (uint32_t i = 0, count = 1 + below(3); i < count; ++i) change(root);
    std::string result = root.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (below(16) == 0) repeat_member(result);
    return result;
  }

 private:
  void collect(nlohmann::json& node, std::vector<nlohmann::json*>& nodes) {
    nodes.push_back(&node);
    if (!node.is_structured()) return;
    for (auto& child : node) collect(child, nodes);
  }

  nlohmann::json edge() {
    static const nlohmann::json edges[] = {nullptr,
                                           true,
                                           false,
                                           0,
                                           1,
                                           -1,
                                           2,
                                           7,
                                           255,
                                           256,
                                           65535,
                                           65536,
                                           2147483647,
                                           2147483648,
                                           9007199254740993,
                                           INT64_MAX,
                                           INT64_MIN,
                                           UINT64_MAX,
                                           0.5,
                                           -0.0,
                                           1e-300,
                                           1e300,
                                           1e308,
                                           "",
                                           "x",
                                           "..",
                                           "/",
                                           "\x01",
                                           std::string("a\0b", 3),
                                           "\xEF\xBF\xBD",
                                           nlohmann::json::array(),
                                           nlohmann::json::object()};
    return edges[below(std::size(edges))];
  }
  std::string word() { return words_.empty() ? "x" : words_[below(words_.size())]; }

  void change(nlohmann::json& root) {
    std::vector<nlohmann::json*> nodes;
    collect(root, nodes);
    nlohmann::json& node = *nodes[below(nodes.size())];
    switch (below(8)) {
      case 0:
        node = edge();
        break;
      case 1:
        node = word();
        break;
      case 2:  // another part of the document
        node = nlohmann::json(*nodes[below(nodes.size())]);
        break;
      case 3:
        node = nlohmann::json::array({node});
        break;
      case 4:
        // Unsigned, so that the largest number may wrap.
        if (node.is_number_integer())
          node = static_cast<int64_t>(node.get<uint64_t>() + (below(2) == 0 ? 1u : ~uint64_t{0}));
        break;
      case 5:
        erase_from(node);
        break;
      case 6:
        if (node.is_object()) node[word()] = edge();
        if (node.is_array()) node.push_back(edge());
        break;
      default:
        if (node.is_object() && !node.empty()) rename_in(node);
        if (node.is_array() && !node.empty())
          node.push_back(nlohmann::json(node[below(node.size())]));
        break;
    }
  }

  void erase_from(nlohmann::json& node) {
    if (node.is_array() && !node.empty()) node.erase(below(node.size()));
    if (node.is_object() && !node.empty()) {
      auto at = node.begin();
      std::advance(at, below(node.size()));
      node.erase(at);
    }
  }

  void rename_in(nlohmann::json& node) {
    auto at = node.begin();
    std::advance(at, below(node.size()));
    const nlohmann::json value = *at;
    node.erase(at);
    node[word()] = value;
  }

  // A library's objects have every name once; its text can have it twice.
  void repeat_member(std::string& text) {
    const size_t open = text.find('{', below(text.size())), comma = text.find(',', open);
    if (open == text.npos || comma == text.npos) return;
    text.insert(open + 1, text.substr(open + 1, comma - open));
  }

  std::vector<std::string> words_;
  std::mt19937 draw_;
};

inline size_t put(const std::string& text, uint8_t* data, size_t max_size) {
  const size_t size = std::min(text.size(), max_size);
  std::memcpy(data, text.data(), size);
  return size;
}

// For an input that is JSON as a whole. One in eight is changed by libFuzzer, byte by byte.
inline size_t mutate_json(uint8_t* data, size_t size, size_t max_size, unsigned seed,
                          std::initializer_list<const char*> words) {
  JsonMutator mutator(words, seed);
  if (mutator.below(8) == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::string result = mutator.mutated(text);
  if (result == text || result.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  return put(result, data, max_size);
}

}  // namespace binade::fuzz
