#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace binade::structure {

// Components from left to right: one includes itself and the components before it.
const std::vector<std::string>& components();

// Position of `component` in components(), or -1.
int component_index(std::string_view component);

// The component of a path below src/: "binade/ops/norm/norm.h" -> "ops"; "" for a file outside the
// components.
std::string component_of(const std::string& path);

// Paths of the project's headers named by the #include lines of `text`, e.g. "binade/base/error.h".
std::vector<std::string> project_includes(std::string_view text);

// Headers of the system and of other libraries that `text` includes in angle brackets.
std::vector<std::string> system_includes(std::string_view text);

// The includes of one file that break the order of components, or of folders inside one; `path` is
// relative to src/, e.g. "binade/ops/norm/norm.cpp".
std::vector<std::string> include_violations(const std::string& path, std::string_view text);

// Files under `folder` (relative to the source root) with one of the extensions, as paths relative
// to the source root, sorted. Empty if there is no such folder.
std::vector<std::string> files_under(const std::string& folder,
                                     const std::vector<std::string>& extensions);

bool source_exists(const std::string& path);
std::string read_source(const std::string& path);

// Source text without its line comments.
std::string without_comments(const std::string& text);

}  // namespace binade::structure
