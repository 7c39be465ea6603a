#pragma once

#include <span>
#include <string>

#include "binade/formats/format.h"

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

// The same in one format: its code, the error, the neighboring numbers and the bits drawn.
std::string number_text(double number, double scale, const Format& format);

// The same as a JSON object with an entry per format. Numbers that are not finite, and neighbors
// that do not exist, are null.
std::string number_json(double number, double scale, std::span<const Format> formats);

// The formats of number_text(number, scale).
std::span<const Format> number_formats();

}  // namespace binade::formats
