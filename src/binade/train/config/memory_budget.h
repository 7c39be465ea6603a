#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace binade::train {

// How much memory of its device a run may take.
struct MemoryBudget {
  enum class Kind : uint8_t { automatic, bytes, least };

  Kind kind = Kind::automatic;  // what is free when the run starts
  int64_t bytes = 0;            // of kind bytes

  bool operator==(const MemoryBudget&) const = default;
};

// A size with its unit: "16GB", "512 MB", "24GiB", "8000000000 B"; none for any other text, a
// number alone included.
std::optional<int64_t> parse_bytes(std::string_view text);
// The same with the largest unit that needs no fraction.
std::string spelled_bytes(int64_t bytes);

// "auto", "least" or a size.
std::optional<MemoryBudget> parse_budget(std::string_view text);
std::string to_text(const MemoryBudget& budget);

}  // namespace binade::train
