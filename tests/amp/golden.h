#pragma once

#include <limits>
#include <string>

#include "binade/base/json.h"
#include "binade/io/file.h"
#include "support/paths.h"

namespace binade::test {

// Reads a golden JSON file.
inline json::Document golden_json(const std::string& name) {
  const std::string path = test::golden_dir() + "/" + name;
  return json::parse(io::read_text(path, "golden", int64_t{1} << 26), {"golden", path, 0});
}

// A number that may be written as "inf", "-inf" or "nan".
inline double golden_number(const json::Value& value) {
  if (value.describe().starts_with('"')) {
    const std::string& text = value.string();
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
    return std::numeric_limits<double>::quiet_NaN();
  }
  return value.number();
}

}  // namespace binade::test
