#pragma once

#include <string>
#include <string_view>

#include "binade/data/tokens.h"

namespace binade::data {

// The project's own sources and documents, as they were when the program was built.
std::string_view builtin_corpus();

// The text of a file, or of all text files below a folder in the order of their paths. Hidden
// files, links and files with zero bytes in them are passed over. Fails where nothing is left.
std::string read_text(const std::string& path);

// What `where` names as tokens: "builtin", a text file or a folder by bytes; a file that ends in
// .bin as a token file (data/token_file.h). Every id is below `vocab`.
Tokens read_tokens(const std::string& where, int64_t vocab);

}  // namespace binade::data
