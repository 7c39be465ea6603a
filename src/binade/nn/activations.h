#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace binade::nn {

// What a model's blocks keep of the forward for the backward. The first blocks may keep nothing but
// their input and run again in the backward; the last ones may keep everything; those between are
// lean: what costs little (results of activation functions, quantized data) is computed again on a
// GPU and kept on a CPU. The last blocks are those whose backward comes first. Results have the
// same bits for every choice.
struct Activations {
  static constexpr int64_t all = int64_t{1} << 20;  // more than any model's blocks

  int64_t kept = 0;    // the last blocks
  int64_t lean = all;  // those before them; the rest is recomputed

  static constexpr Activations keep() { return {.kept = all, .lean = 0}; }
  // All blocks run again; unless `whether`, all are lean.
  static constexpr Activations recompute(bool whether = true) {
    return {.kept = 0, .lean = whether ? 0 : all};
  }

  bool keeps(int64_t block, int64_t blocks) const { return blocks - block <= kept; }
  bool recomputes(int64_t block, int64_t blocks) const { return blocks - block > kept + lean; }

  bool operator==(const Activations&) const = default;
};

// "keep", "lean", "recompute", "keep = 8", "lean = 8", "keep = 8, lean" or "keep = 8, lean = 4":
// what is not named is recomputed.
std::string to_text(const Activations& activations);
// The same, or a number alone, which means "keep = N"; spaces do not matter; none for any other
// text.
std::optional<Activations> parse_activations(std::string_view text);

}  // namespace binade::nn
