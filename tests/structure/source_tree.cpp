#include "structure/source_tree.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include "support/paths.h"

namespace binade::structure {
namespace fs = std::filesystem;

const std::vector<std::string>& components() {
  static const std::vector<std::string> order = {
      "base", "formats", "tensor", "backend", "autograd", "amp",   "ops",   "nn", "optim", "io",
      "data", "ranks",   "train",  "bench",   "lab",      "serve", "torch", "c",  "cli"};
  return order;
}

int component_index(std::string_view component) {
  const auto found = std::find(components().begin(), components().end(), component);
  return found == components().end() ? -1 : static_cast<int>(found - components().begin());
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

std::string component_of(const std::string& path) {
  if (!path.starts_with("binade/")) return "";
  const size_t begin = std::string_view("binade/").size();
  const size_t end = path.find('/', begin);
  return end == std::string::npos ? "" : path.substr(begin, end - begin);
}

namespace {

bool starts_with_any(const std::string& path, const std::vector<std::string_view>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&path](std::string_view prefix) { return path.starts_with(prefix); });
}

// An order of folders inside a component: of the files under `scope`, those under `from` include
// only those under `allowed`. Files under `exempt` may include anything.
struct FolderRule {
  std::string_view from, scope;
  std::vector<std::string_view> allowed, exempt;
  std::string_view reason;

  bool forbids(const std::string& path, const std::string& target) const {
    return path.starts_with(from) && target.starts_with(scope) &&
           !starts_with_any(target, allowed) && !starts_with_any(path, exempt);
  }
};

const std::vector<FolderRule>& folder_rules() {
  static const std::vector<FolderRule> rules = {
      {.from = "binade/train/config/",
       .scope = "binade/train/",
       .allowed = {"binade/train/config/"},
       .exempt = {},
       .reason = "train/config is the bottom of train"},
      {.from = "binade/train/",
       .scope = "binade/train/report/",
       .allowed = {},
       .exempt = {"binade/train/report/", "binade/train/run/ending.",
                  "binade/train/run/live_report."},
       .reason = "in train only the end of a run includes train/report"},
      {.from = "binade/backend/cpu/rows/",
       .scope = "binade/backend/cpu/",
       .allowed = {"binade/backend/cpu/rows/"},
       .exempt = {},
       .reason = "rows is the bottom of backend/cpu"},
      {.from = "binade/backend/cuda/common/",
       .scope = "binade/backend/cuda/",
       .allowed = {"binade/backend/cuda/common/", "binade/backend/cuda/device.h"},
       .exempt = {},
       .reason = "common is the bottom of backend/cuda"},
      {.from = "binade/backend/cpu/",
       .scope = "binade/backend/cuda/",
       .allowed = {},
       .exempt = {},
       .reason = "CPU code does not depend on CUDA code"},
  };
  return rules;
}

std::string violation(const std::string& path, const std::string& component,
                      const std::string& target) {
  const std::string arrow = path + " includes " + target + ": ";
  const std::string target_component = component_of(target);
  if (!target.starts_with("binade/"))
    return arrow + "project headers are written binade/<component>/<stem>.h";
  // These include nothing of the project.
  if (target == "binade/version.h" || target == "binade/c.h") return "";
  if (target_component.empty()) return arrow + "a component may not include the umbrella header";
  if (component_index(target_component) < 0)
    return arrow + "'" + target_component + "' is not a component";
  // Device code stays behind its tables.
  if (component != "backend" && target.starts_with("binade/backend/cuda/"))
    return arrow + "backend/cuda is private to backend";
  if (component_index(target_component) > component_index(component))
    return arrow + "the arrow points right";
  for (const FolderRule& rule : folder_rules()) {
    if (rule.forbids(path, target)) return arrow + std::string(rule.reason);
  }
  return "";
}

}  // namespace

std::vector<std::string> include_violations(const std::string& path, std::string_view text) {
  const std::string component = component_of(path);
  if (component.empty()) return {};  // the umbrella header may include every component
  if (component_index(component) < 0) return {path + ": '" + component + "' is not a component"};
  std::vector<std::string> found;
  for (const std::string& target : project_includes(text)) {
    if (std::string wrong = violation(path, component, target); !wrong.empty())
      found.push_back(wrong);
  }
  return found;
}

std::vector<std::string> files_under(const std::string& folder,
                                     const std::vector<std::string>& extensions) {
  const fs::path root = test::source_dir();
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

bool source_exists(const std::string& path) { return fs::exists(test::source_dir() / path); }

std::string read_source(const std::string& path) {
  std::ifstream file(test::source_dir() / path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string without_comments(const std::string& text) {
  std::string code;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    code += line.substr(0, line.find("//")) + '\n';
    begin = end + 1;
  }
  return code;
}

}  // namespace binade::structure
