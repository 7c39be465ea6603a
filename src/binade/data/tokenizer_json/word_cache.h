#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace binade::data {

// A bounded cache of words and their ids: direct-mapped, so a new word replaces the one in its
// slot. Results do not depend on its content.
class WordCache {
 public:
  static constexpr size_t max_bytes = 40, max_ids = 9;  // of a word; nearly all are shorter

  WordCache() : entries_(places) {}

  // The ids of a word; null data on a miss.
  std::span<const int32_t> find(std::string_view word, uint64_t hash) const {
    const Entry& entry = entries_[hash % places];
    if (entry.hash != hash || entry.bytes != word.size() ||
        std::memcmp(entry.text.data(), word.data(), word.size()) != 0)
      return {};
    return {entry.ids.data(), entry.count};
  }

  void put(std::string_view word, uint64_t hash, std::span<const int32_t> ids) {
    if (word.size() > max_bytes || ids.size() > max_ids) return;
    Entry& entry = entries_[hash % places];
    entry.hash = hash;
    entry.bytes = static_cast<uint8_t>(word.size());
    entry.count = static_cast<uint8_t>(ids.size());
    std::memcpy(entry.text.data(), word.data(), word.size());
    std::copy(ids.begin(), ids.end(), entry.ids.begin());
  }

  // Hashes the length and the first max_bytes bytes.
  static uint64_t hash_of(std::string_view word);

 private:
  // 1.4 MB a thread, about a core's second-level cache.
  static constexpr size_t places = 1 << 14;

  struct Entry {
    uint64_t hash = 0;
    uint8_t bytes = 0, count = 0;  // no word is empty, so 0 bytes match none
    std::array<char, max_bytes> text = {};
    std::array<int32_t, max_ids> ids = {};
  };

  std::vector<Entry> entries_;
};

// Eight bytes at a time, each mixed by a product of 128 bits (as in wyhash).
inline uint64_t WordCache::hash_of(std::string_view word) {
  const auto mix = [](uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64U);
  };
  uint64_t hash = word.size() * 0x9E3779B97F4A7C15U;
  const size_t length = word.size() < max_bytes ? word.size() : max_bytes;
  for (size_t at = 0; at < length; at += 8) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, word.data() + at, length - at < 8 ? length - at : 8);
    hash = mix(hash ^ bytes ^ 0xA0761D6478BD642FU, 0xE7037ED1A0B428DBU);
  }
  return hash;
}

}  // namespace binade::data
