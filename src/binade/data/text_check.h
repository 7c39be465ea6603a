#pragma once

#include <string>
#include <vector>

namespace binade::data {

// Looks at the first megabyte of a source of text (text_reader.h) that is one file and holds no
// JSON, unpacked. Returns warnings about what is not text there. Fails for zero bytes, as in binary
// files and UTF-16, unless the text is trained on by its bytes.
std::vector<std::string> check_text(const std::string& where, bool by_bytes);

}  // namespace binade::data
