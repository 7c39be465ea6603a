#pragma once

#include <string>

namespace binade::formats {

// The table of `binade formats`: one aligned line per format, at most 100 columns.
std::string table_text();

// The same as a JSON array of objects. Numbers read back as the exact double; min_subnormal is null
// for a format without subnormals.
std::string table_json();

}  // namespace binade::formats
