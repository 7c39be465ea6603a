#pragma once

#include <string>
#include <vector>

namespace binade::data {

// One of the sources that data are mixed from.
struct MixturePart {
  std::string where;
  double weight = 1;  // sequences are drawn from the sources in proportion to their weights
};

// The sources of a value of --data: "3*books,1*code.jsonl.zst" has two, each with its weight; any
// other text is one. A comma separates sources only before a number and an asterisk.
std::vector<MixturePart> mixture_of(const std::string& data);

// Whether all sources are token files (token_file.h).
bool are_token_files(const std::string& data);

}  // namespace binade::data
