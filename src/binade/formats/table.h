#pragma once

#include <string>

namespace binade::formats {

// The table of `binade formats`: one aligned line per format, at most 100 columns.
std::string table_text();

// The table as a JSON array of objects. Numbers read back as the exact double; min_subnormal is
// null for a format without subnormals.
std::string table_json();

// The bits of each format as letters, one aligned line each: S for the sign, E for the exponent, M
// for the mantissa.
std::string layout_text();

// A number times a scale, computed exactly and rounded once to each signed format: its bits, value
// and relative error, and whether it overflows, is subnormal or becomes zero.
std::string number_text(double number, double scale);

}  // namespace binade::formats
