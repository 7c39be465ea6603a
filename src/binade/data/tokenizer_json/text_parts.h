#pragma once

#include <cstddef>
#include <string_view>

#include "binade/base/function_ref.h"

namespace binade::data {

// The end of the part of a text that begins at `begin`: after about 64 kB, at a likely word
// boundary
// ("word| word", "word|\n" or ".\n|Word") that `accepts` approves; between any two characters if
// there is none within a megabyte.
size_t text_part_end(std::string_view text, size_t begin, FunctionRef<bool(size_t)> accepts);

}  // namespace binade::data
