#include "structure/source_tree.h"

#include <algorithm>
#include <fstream>
#include <iterator>

namespace binade::structure {
namespace fs = std::filesystem;

const std::vector<std::string>& rooms() {
  static const std::vector<std::string> order = {
      "base",  "formats", "tensor", "backend", "autograd", "amp",   "ops", "nn",
      "optim", "io",      "data",   "dist",    "train",    "bench", "lab", "cli"};
  return order;
}

int room_index(std::string_view room) {
  const auto found = std::find(rooms().begin(), rooms().end(), room);
  return found == rooms().end() ? -1 : static_cast<int>(found - rooms().begin());
}

namespace {

void skip_blanks(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
}

bool skip_word(std::string_view& text, std::string_view word) {
  skip_blanks(text);
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

// What the #include lines of `text` name, with the bracket or quote it stands in.
std::vector<std::pair<char, std::string>> includes_of(std::string_view text) {
  std::vector<std::pair<char, std::string>> found;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!skip_word(line, "#") || !skip_word(line, "include")) continue;
    skip_blanks(line);
    const bool quoted = line.starts_with('"');
    if (!quoted && !line.starts_with('<')) continue;
    found.emplace_back(line[0], line.substr(1, line.find(quoted ? '"' : '>', 1) - 1));
  }
  return found;
}

}  // namespace

std::vector<std::string> project_includes(std::string_view text) {
  std::vector<std::string> paths;
  for (auto& [mark, path] : includes_of(text)) {
    if (path.starts_with("binade/") || (mark == '"' && !path.starts_with("hwy/"))) {
      paths.push_back(std::move(path));
    }
  }
  return paths;
}

std::vector<std::string> system_includes(std::string_view text) {
  std::vector<std::string> paths;
  for (auto& [mark, path] : includes_of(text)) {
    if (mark == '<' && !path.starts_with("binade/")) paths.push_back(std::move(path));
  }
  return paths;
}

namespace {

// "binade/ops/norm.h" -> "ops"; "" for a file that stands in no room.
std::string room_of(const std::string& path) {
  if (!path.starts_with("binade/")) return "";
  const size_t begin = std::string_view("binade/").size();
  const size_t end = path.find('/', begin);
  return end == std::string::npos ? "" : path.substr(begin, end - begin);
}

std::string violation(const std::string& path, const std::string& room, const std::string& target) {
  const std::string arrow = path + " includes " + target + ": ";
  const std::string target_room = room_of(target);
  if (!target.starts_with("binade/"))
    return arrow + "project headers are written binade/<room>/<stem>.h";
  if (target == "binade/version.h") return "";  // stands beside the rooms and includes nothing
  if (target_room.empty()) return arrow + "a room may not include the umbrella header";
  if (room_index(target_room) < 0) return arrow + "'" + target_room + "' is not a room";
  // Device code stays behind its tables.
  if (room != "backend" && target.starts_with("binade/backend/cuda/")) {
    return arrow + "backend/cuda is private to backend";
  }
  if (room_index(target_room) > room_index(room)) return arrow + "the arrow points right";
  return "";
}

}  // namespace

std::vector<std::string> include_violations(const std::string& path, std::string_view text) {
  const std::string room = room_of(path);
  if (room.empty()) return {};  // the umbrella header may include every room
  if (room_index(room) < 0) return {path + ": '" + room + "' is not a room"};
  std::vector<std::string> found;
  for (const std::string& target : project_includes(text)) {
    if (std::string wrong = violation(path, room, target); !wrong.empty()) found.push_back(wrong);
  }
  return found;
}

std::vector<std::string> files_under(const std::string& folder,
                                     const std::vector<std::string>& extensions) {
  const fs::path root = BINADE_SOURCE_DIR;
  std::vector<std::string> files;
  if (!fs::exists(root / folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    const std::string extension = entry.path().extension().string();
    if (!entry.is_regular_file()) continue;
    if (std::find(extensions.begin(), extensions.end(), extension) == extensions.end()) continue;
    files.push_back(entry.path().lexically_relative(root).generic_string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool source_exists(const std::string& path) {
  return fs::exists(fs::path(BINADE_SOURCE_DIR) / path);
}

std::string read_source(const std::string& path) {
  std::ifstream file(fs::path(BINADE_SOURCE_DIR) / path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace binade::structure
