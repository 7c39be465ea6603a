#pragma once

#include <map>
#include <string>
#include <vector>

#include "support/pattern.h"

// What a page says: its tiles, tables and facts.
namespace binade::test {

struct TileText {
  std::string value, note;
  bool operator==(const TileText&) const = default;
};

inline std::map<std::string, TileText> tiles_of(const std::string& html) {
  static const Pattern tile("<dt>([^<]*)</dt><dd>([^<]*)(?:<small>([^<]*)</small>)?</dd>");
  std::map<std::string, TileText> tiles;
  for (const auto& one : tile.find_all(html)) tiles[one[1]] = {one[2], one[3]};
  return tiles;
}

using Rows = std::vector<std::vector<std::string>>;

// Header first.
inline std::vector<Rows> tables_of(const std::string& html) {
  static const Pattern row("<tr>(.*)</tr>"), cell("<t[hd][^>]*>([^<]*)</t[hd]>");
  std::vector<Rows> tables;
  for (size_t at = html.find("<table>"); at != std::string::npos; at = html.find("<table>", at)) {
    const size_t end = html.find("</table>", at);
    tables.emplace_back();
    for (const auto& one : row.find_all(html.substr(at, end - at))) {
      tables.back().emplace_back();
      for (const auto& text : cell.find_all(one[1])) tables.back().back().push_back(text[1]);
    }
    at = end;
  }
  return tables;
}

}  // namespace binade::test
