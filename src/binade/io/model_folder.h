#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "binade/io/path.h"

// Models in folders: a model's own, a checkpoint's, a run's.
namespace binade::io {

struct Checkpoint {
  int64_t step = 0;
  std::filesystem::path path;
};

// The name of a checkpoint's folder: "step-12".
std::string checkpoint_name(int64_t step);

// The complete checkpoints in a folder, oldest first. Half-written ones have other names.
std::vector<Checkpoint> list_checkpoints(const Path& folder);
// The checkpoints and the step folders that have lost their manifest.
std::vector<Checkpoint> list_step_folders(const Path& folder);

struct ModelChoice {
  std::filesystem::path folder;
  std::vector<std::string> notes = {};  // what was passed over, and why; for the user
};
// The folder of the model that a path on the command line stands for: of a run, its newest
// checkpoint that matches its manifest; else itself, if it is a GGUF file, or holds a config.json
// or an adapter_config.json (and matches its manifest, if it is a checkpoint). Fails as `caller` if
// there is neither, or if there are links among the run's checkpoints.
ModelChoice choose_model(const std::filesystem::path& given, std::string_view caller);
// The folder that choose_model() chooses, without its notes.
std::filesystem::path model_folder(const std::filesystem::path& given, std::string_view caller);

// Fails as `caller` if a model must not be written there: into a run's folder, where it would stand
// beside the run's own, or among its checkpoints.
void check_not_a_run(const std::filesystem::path& target, std::string_view caller);

// Files beside a model that say how its tokenizer and text generation are set up
// (tokenizer_config.json, chat_template.jinja, generation_config.json, ...): contents by name. They
// travel unchanged with a model. Those of a GGUF file are made of its keys.
using CompanionFiles = std::map<std::string, std::string>;

bool is_companion(std::string_view name);
CompanionFiles read_companions(const Path& folder, std::string_view caller);
void write_companions(const CompanionFiles& files, const Path& folder, std::string_view caller);

}  // namespace binade::io
