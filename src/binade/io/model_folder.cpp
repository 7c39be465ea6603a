#include "binade/io/model_folder.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "binade/base/error.h"
#include "binade/io/file.h"

namespace binade::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view step_prefix = "step-";
constexpr const char* companion_names[] = {"tokenizer_config.json", "special_tokens_map.json",
                                           "added_tokens.json", "generation_config.json",
                                           "chat_template.jinja"};
// tokenizer_config.json lists added tokens, of which there may be thousands.
constexpr int64_t max_companion = int64_t{64} << 20;

std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(step_prefix)) return {};
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + step_prefix.size(), end, step);
  if (error != std::errc() || stop != end || step < 0) return {};
  return step;
}

}  // namespace

std::string checkpoint_name(int64_t step) {
  return std::string(step_prefix) + std::to_string(step);
}

std::vector<Checkpoint> list_checkpoints(const Path& folder) {
  std::vector<Checkpoint> result;
  for (const std::string& name : folder.names()) {
    if (const auto step = step_of(name); step && (folder / name / "manifest.json").exists())
      result.push_back({*step, (folder / name).plain()});
  }
  std::sort(result.begin(), result.end(),
            [](const Checkpoint& a, const Checkpoint& b) { return a.step < b.step; });
  return result;
}

fs::path model_folder(const fs::path& given, std::string_view caller) {
  std::error_code error;
  if (fs::exists(given / "config.json", error) || fs::exists(given / "adapter_config.json", error))
    return given;
  if (fs::is_directory(given, error)) {
    const Path all = Path(Directory(given, caller)) / "checkpoints";
    all.require_folder_of_files(caller);
    const auto checkpoints = list_checkpoints(all);
    if (!checkpoints.empty()) return checkpoints.back().path;
  }
  fail(caller, {.argument = given.string(),
                .expected = "a model's folder, a checkpoint or the folder of a run with one",
                .found = fs::exists(given, error) ? "none of them" : "nothing there"});
}

bool is_companion(std::string_view name) {
  return std::find(std::begin(companion_names), std::end(companion_names), name) !=
         std::end(companion_names);
}

CompanionFiles read_companions(const Path& folder, std::string_view caller) {
  CompanionFiles files;
  for (const char* name : companion_names) {
    if ((folder / name).exists()) files[name] = read_text(folder / name, caller, max_companion);
  }
  return files;
}

void write_companions(const CompanionFiles& files, const Path& folder, std::string_view caller) {
  for (const auto& [name, text] : files) {
    AtomicFile file(folder / name, caller);
    file.append(text);
    file.commit();
  }
}

}  // namespace binade::io
