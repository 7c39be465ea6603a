#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace binade::structure {

// Rooms from left to right: a room includes itself and the rooms before it.
const std::vector<std::string>& rooms();

// Position of `room` in rooms(), or -1.
int room_index(std::string_view room);

// Paths of the project's headers named by the #include lines of `text`, e.g. "binade/base/error.h".
std::vector<std::string> project_includes(std::string_view text);

// Headers of the system and of other libraries that `text` includes in angle brackets.
std::vector<std::string> system_includes(std::string_view text);

// What is wrong with the includes of one file; `path` is relative to src/, e.g.
// "binade/ops/norm.cpp".
std::vector<std::string> include_violations(const std::string& path, std::string_view text);

// Files under `folder` (relative to the source root) with one of the extensions, as paths relative
// to the source root, sorted. Empty when the folder is not there.
std::vector<std::string> files_under(const std::string& folder,
                                     const std::vector<std::string>& extensions);

bool source_exists(const std::string& path);
std::string read_source(const std::string& path);

}  // namespace binade::structure
