#include "binade/io/model_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "binade/base/error.h"
#include "binade/io/file.h"
#include "binade/io/gguf/companions.h"
#include "binade/io/manifest.h"

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

bool has_file(const fs::path& folder, const char* name) {
  std::error_code ignored;  // reading reports what is wrong
  return fs::exists(folder / name, ignored);
}

bool has_model(const fs::path& folder) {
  return has_file(folder, "config.json") || has_file(folder, "adapter_config.json");
}

// Other folders of models may have a manifest.json of their own kind.
bool is_checkpoint(const fs::path& folder) {
  return has_file(folder, "manifest.json") && has_file(folder, "config.toml");
}

bool is_run(const fs::path& folder) {
  return has_file(folder, "run.json") || !list_step_folders(folder / "checkpoints").empty();
}

// The checkpoints of a run's folder, in which no link is followed: others may have made it.
Path checkpoints_of(const fs::path& run, std::string_view caller) {
  return Path(Directory(run, caller)) / "checkpoints";
}

// Fails as `caller` if there are links among them.
bool has_checkpoints(const fs::path& run, std::string_view caller) {
  const Path all = checkpoints_of(run, caller);
  // A model's folder may have anything of that name.
  if (has_model(run) && all.kind() != EntryKind::folder) return false;
  all.require(EntryKind::folder, caller);
  if (list_step_folders(all).empty() && has_model(run)) return false;
  all.require_folder_of_files(caller);
  return !list_step_folders(all).empty();
}

// For the name of a model on Hugging Face's hub, "organization/name"; else nothing.
std::string how_to_download(const std::string& given) {
  const size_t slash = given.find('/');
  if (slash == std::string::npos || given.find('/', slash + 1) != std::string::npos) return {};
  const std::string first = given.substr(0, slash), name = given.substr(slash + 1);
  std::error_code error;
  if (first.empty() || name.empty() || first[0] == '.' || fs::exists(first, error)) return {};
  return fmt::format("if it is a name on Hugging Face's hub: hf download {} --local-dir {}", given,
                     name);
}

// The newest checkpoint of a run that matches its manifest.
ModelChoice newest_intact(const fs::path& run, std::string_view caller) {
  const Path all = checkpoints_of(run, caller);
  const std::vector<Checkpoint> checkpoints = list_step_folders(all);
  ModelChoice choice;
  for (auto at = checkpoints.rbegin(); at != checkpoints.rend(); ++at) {
    try {
      verify_model(all / at->path.filename(), caller);
      choice.folder = at->path;
      return choice;
    } catch (const Error& error) {
      choice.notes.push_back(
          fmt::format("{} is passed over: {}", checkpoint_name(at->step), error.what()));
    }
  }
  fail(caller, {.argument = run.string(),
                .expected = "an undamaged checkpoint",
                .found = fmt::format("{} damaged, the newest: {}", checkpoints.size(),
                                     choice.notes.front()),
                .hint = has_model(run / "best") ? "use " + (run / "best").string()
                                                : "put the files back from a copy"});
}

}  // namespace

std::string checkpoint_name(int64_t step) {
  return std::string(step_prefix) + std::to_string(step);
}

std::vector<Checkpoint> list_checkpoints(const Path& folder) {
  std::vector<Checkpoint> result = list_step_folders(folder);
  std::erase_if(result, [&folder](const Checkpoint& one) {
    return !(folder / one.path.filename() / "manifest.json").exists();
  });
  return result;
}

std::vector<Checkpoint> list_step_folders(const Path& folder) {
  std::vector<Checkpoint> result;
  for (const std::string& name : folder.names()) {
    if (const auto step = step_of(name); step && (folder / name).kind() == EntryKind::folder)
      result.push_back({*step, (folder / name).plain()});
  }
  std::sort(result.begin(), result.end(),
            [](const Checkpoint& a, const Checkpoint& b) { return a.step < b.step; });
  return result;
}

ModelChoice choose_model(const fs::path& given, std::string_view caller) {
  std::error_code error;
  if (fs::is_directory(given, error) && has_checkpoints(given, caller)) {
    ModelChoice choice = newest_intact(given, caller);
    if (has_model(given))
      choice.notes.push_back(
          fmt::format("{} has a model's files beside the run's checkpoints: they are passed over "
                      "for {}; move them to a folder of their own to use them",
                      given.string(), choice.folder.string()));
    return choice;
  }
  if (gguf::is_gguf(given) && fs::exists(given, error)) return {given};
  if (has_model(given)) {
    if (is_checkpoint(given)) verify_model(given, caller);
    return {given};
  }
  const bool is_there = fs::exists(given, error);
  fail(caller, {.argument = given.string(),
                .expected = "a model's folder, a GGUF file, a checkpoint or the folder of a run "
                            "with one",
                .found = is_there ? "none of them" : "nothing there",
                .hint = is_there ? "" : how_to_download(given.string())});
}

fs::path model_folder(const fs::path& given, std::string_view caller) {
  return choose_model(given, caller).folder;
}

void check_not_a_run(const fs::path& target, std::string_view caller) {
  std::error_code error;
  // Resolves "run/" and links to the folder itself.
  const fs::path folder = fs::weakly_canonical(target / ".", error);
  const fs::path parent = folder.has_filename() ? folder : folder.parent_path();
  const fs::path above = parent.parent_path();
  const bool in_checkpoints = above.filename() == "checkpoints" && is_run(above.parent_path());
  if (!in_checkpoints && !is_run(parent) && !is_checkpoint(parent)) return;
  const fs::path run = in_checkpoints ? above.parent_path() : is_run(above) ? above : parent;
  fail(caller, {.argument = target.string(),
                .expected = "a folder of its own",
                .found = is_run(parent) ? "the folder of a run" : "a folder of a run's checkpoints",
                .hint = fmt::format("name another one, such as {}-hf", run.filename().string())});
}

bool is_companion(std::string_view name) {
  return std::find(std::begin(companion_names), std::end(companion_names), name) !=
         std::end(companion_names);
}

CompanionFiles read_companions(const Path& folder, std::string_view caller) {
  if (gguf::is_gguf(folder.plain())) return gguf::companions_of(gguf::File(folder));
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
