#pragma once

#include <string>

namespace binade::formats {

// What `binade formats` prints: one line per format, aligned, at most 100 columns.
std::string table_text();

// The same as a JSON array of objects. Every number reads back as the exact double; min_subnormal
// is null for a format without subnormals.
std::string table_json();

}  // namespace binade::formats
