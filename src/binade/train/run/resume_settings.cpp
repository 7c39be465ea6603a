#include "binade/train/run/resume_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>

#include "binade/base/error.h"
#include "binade/data/tokenizer.h"
#include "binade/io/file.h"
#include "binade/io/manifest.h"
#include "binade/io/model_folder.h"
#include "binade/train/run/origin.h"

namespace binade::train {
namespace {

constexpr const char* config_name = "config.toml";
constexpr int64_t max_saved_config = 1 << 20;

bool is_file(const io::Path& path) { return path.kind() == io::EntryKind::file; }

// The newest checkpoint whose manifest is undamaged, as are those of its files that `wanted` names.
struct Copies {
  io::Path folder;
  std::vector<std::string> files;
};
std::optional<Copies> newest_copies(const io::Path& run,
                                    const std::function<bool(const std::string&)>& wanted) {
  const io::Path all = run / "checkpoints";
  all.require(io::EntryKind::folder, "train");
  const auto found = io::list_step_folders(all);
  for (auto at = found.rbegin(); at != found.rend(); ++at) {
    const io::Path checkpoint = all / at->path.filename();
    checkpoint.require_folder_of_files("train");
    try {
      const io::Manifest manifest = io::read_manifest(checkpoint, "train");
      Copies copies{checkpoint, {}};
      for (const auto& [name, file] : manifest.files) {
        if (!wanted(name)) continue;
        io::verify_file(checkpoint, manifest, name, "train");
        copies.files.push_back(name);
      }
      if (!copies.files.empty()) return copies;
    } catch (const Error&) {  // resuming says what is wrong with it
    }
  }
  return {};
}

bool is_of_tokenizer(const std::string& name) {
  return name == "tokenizer.json" || name == "tokenizer.model" || io::is_companion(name);
}

Config values_in(const io::Path& file) {
  return saved_values(io::read_text(file, "train", max_saved_config), file.string());
}

// Harmless differences between config.toml and its copy: someone may have edited it, or the disk
// may have. Those that change a run's bits are refused later.
void note_edits(const io::Path& own, const io::Path& copy, std::vector<std::string>& notes) {
  for (const SettingChange& change : all_changed_settings(values_in(copy), values_in(own))) {
    const bool is_path = change.name == "out" || change.name == "tokenizer";
    if (!is_path && !change.changes_bits)
      notes.push_back(
          fmt::format("config.toml has {} {}; the newest checkpoint was written with {}",
                      change.name, change.to, change.from));
  }
}

bool is_same(const io::Path& file, const io::Path& copy) {
  return is_file(file) && io::read_text(file, "train", data::max_tokenizer_bytes) ==
                              io::read_text(copy, "train", data::max_tokenizer_bytes);
}

// The checkpoint's tokenizer as an option, if the run's own or a file beside it is not the same.
Sources::Options undamaged_tokenizer(const io::Path& folder, std::vector<std::string>& warnings) {
  const auto copies = newest_copies(folder, is_of_tokenizer);
  if (!copies) return {};
  bool damaged = false;
  for (const std::string& name : copies->files) {
    const io::Path file = folder / name, copy = copies->folder / name;
    if (is_same(file, copy)) continue;
    damaged = true;
    warnings.push_back(fmt::format("{} is {}: it is written anew from {}", file.string(),
                                   is_file(file) ? "not as the run wrote it" : "missing",
                                   copy.string()));
  }
  const auto tokenizer = data::find_tokenizer(copies->folder.plain());
  if (!damaged || !tokenizer) return {};
  return {{"tokenizer", tokenizer->string()}};
}

// The settings in a checkpoint's config.toml, in terms of the run's folder. Fails as `failure` if
// they cannot be read either: then the options are wrong rather than the run's own file.
Config settings_of_copy(const io::Path& folder, const io::Path& checkpoint,
                        Sources::Options options, const std::exception_ptr& failure) {
  // First, so that other options override them.
  options.insert(options.begin(), {"out", folder.string()});
  if (const auto tokenizer = data::find_tokenizer(checkpoint.plain()))
    options.insert(options.begin(), {"tokenizer", tokenizer->string()});
  try {
    return resolve({checkpoint / config_name, options});
  } catch (const Error&) {
    std::rethrow_exception(failure);
  }
}

}  // namespace

ResumeSettings saved_settings(const io::Path& folder, const Sources::Options& options) {
  const io::Path own = folder / config_name;
  own.require(io::EntryKind::file, "train");  // a link is no damage
  ResumeSettings settings;
  Sources::Options all = undamaged_tokenizer(folder, settings.warnings);
  all.insert(all.end(), options.begin(), options.end());
  const auto copy =
      newest_copies(folder, [](const std::string& name) { return name == config_name; });
  if (!own.exists() && !copy)
    fail("config", {.argument = folder.string(),
                    .expected = "the folder of a run, with its config.toml",
                    .found = "a folder without one"});
  std::exception_ptr failure;
  try {
    settings.config = resolve({own, all});
    if (copy) note_edits(own, copy->folder / config_name, settings.warnings);
  } catch (const Error& error) {
    if (!copy) throw;
    failure = std::current_exception();
    settings.warnings.push_back(fmt::format("the settings are those of {}: {}",
                                            (copy->folder / config_name).string(), error.what()));
  }
  if (failure) settings.config = settings_of_copy(folder, copy->folder, all, failure);
  return settings;
}

}  // namespace binade::train
