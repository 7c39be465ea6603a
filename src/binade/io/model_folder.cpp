#include "binade/io/model_folder.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "binade/base/error.h"

namespace binade::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step-";

std::optional<int64_t> step_of(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(prefix)) return {};
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, step);
  if (error != std::errc() || stop != end || step < 0) return {};
  return step;
}

}  // namespace

std::string checkpoint_name(int64_t step) { return std::string(prefix) + std::to_string(step); }

std::vector<Checkpoint> list_checkpoints(const fs::path& folder) {
  std::vector<Checkpoint> result;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (const auto step = step_of(at->path()); step && fs::exists(at->path() / "manifest.json"))
      result.push_back({*step, at->path()});
  }
  std::sort(result.begin(), result.end(),
            [](const Checkpoint& a, const Checkpoint& b) { return a.step < b.step; });
  return result;
}

fs::path model_folder(const fs::path& given, std::string_view caller) {
  std::error_code error;
  if (fs::exists(given / "config.json", error)) return given;
  const auto checkpoints = list_checkpoints(given / "checkpoints");
  if (!checkpoints.empty()) return checkpoints.back().path;
  fail(caller, {.argument = given.string(),
                .expected = "a model's folder, a checkpoint or the folder of a run with one",
                .found = fs::exists(given, error) ? "none of them" : "nothing there"});
}

}  // namespace binade::io
