#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace binade::data {

// Looks at the first megabyte of a source of text (text_reader.h) that is one file and holds no
// JSON, unpacked. Returns warnings about what is not text there. Fails for zero bytes, as in binary
// files and UTF-16, unless the text is trained on by its bytes.
std::vector<std::string> check_text(const std::string& where, bool by_bytes);

// Fails for a file that begins like Parquet, saying how to convert it.
void refuse_parquet(const std::filesystem::path& path, std::string_view beginning);

}  // namespace binade::data
