#pragma once

#include <cstddef>
#include <string_view>

#include "binade/base/function_ref.h"

namespace binade::data {

// Rejected boundaries are rare; a text full of them is not searched to its end: this many are tried
// before and after the wanted end.
inline constexpr int max_part_tries = 64;

// The end of the part of a text that begins at `begin`: after about 64 kB, at a likely word
// boundary
// ("word| word", "word|\n" or ".\n|Word") that `accepts` approves; between any two characters if
// there is none within a megabyte.
size_t text_part_end(std::string_view text, size_t begin, FunctionRef<bool(size_t)> accepts);

}  // namespace binade::data
