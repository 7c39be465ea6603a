#include "binade/train/run/start.h"

#include <fmt/format.h>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/base/text.h"
#include "binade/io/checksum.h"
#include "binade/io/file.h"
#include "binade/train/checkpoint.h"
#include "binade/train/run/metrics.h"
#include "binade/train/run/origin.h"

namespace binade::train {
namespace {

constexpr int64_t max_run_file = 1 << 16;
constexpr int64_t largest_number = int64_t{1} << 60;

bool has_logged_steps(const io::Path& folder) {
  bool found = false;
  if ((folder / "metrics.jsonl").exists()) {
    visit_metrics(
        folder / "metrics.jsonl",
        [&](const Record& record, std::string_view) { found |= record.step > 0; },
        [](const std::string&, std::string_view) {});
  }
  return found;
}

// Guarded, as the run's folder is.
io::Path checkpoint_in(const io::Path& folder, const io::Checkpoint& checkpoint) {
  return folder / "checkpoints" / checkpoint.path.filename();
}

// The run's id according to a checkpoint; empty if its manifest cannot be read or has none.
std::string run_id_in(const io::Path& checkpoint) {
  try {
    return read_origin(checkpoint).run;
  } catch (const Error&) {
    return {};
  }
}

void check_same_run(const io::Path& checkpoint, const std::string& expected) {
  const std::string found = run_id_in(checkpoint);
  if (found.empty() || found == expected) return;
  fail("train", {.argument = "--resume from " + checkpoint.string(),
                 .expected = "a checkpoint of run " + expected,
                 .found = "one of run " + json::in_quotes(found),
                 .hint = "move it out of the run's folder"});
}

// From run.json; if that is missing or damaged, from the newest checkpoint that names a run.
RunFile identify(const io::Path& folder, const std::vector<io::Checkpoint>& found,
                 RunStart& start) {
  try {
    if (const auto saved = read_run_file(folder)) return *saved;
  } catch (const io::VersionError&) {
    throw;
  } catch (const Error& error) {
    start.damaged.push_back(folder / run_file_name);
    start.warnings.push_back(fmt::format("run.json is written anew: {}", error.what()));
  }
  RunFile file;
  for (auto at = found.rbegin(); at != found.rend() && file.id.empty(); ++at)
    file.id = run_id_in(checkpoint_in(folder, *at));
  return file;
}

void choose_checkpoint(const io::Path& folder, const std::vector<io::Checkpoint>& found,
                       RunStart& start) {
  for (auto at = found.rbegin(); at != found.rend(); ++at) {
    const io::Path path = checkpoint_in(folder, *at);
    check_same_run(path, start.run.id);
    if (start.checkpoint) continue;  // older ones stay as they are
    try {
      verify_checkpoint(path);
      start.checkpoint = *at;
    } catch (const io::VersionError&) {
      throw;
    } catch (const Error& error) {
      start.damaged.push_back(path);
      start.warnings.push_back(
          fmt::format("{} is passed over: {}", io::checkpoint_name(at->step), error.what()));
    }
  }
}

// Whether checkpoints were written, or might have been, of which none can be used.
bool has_lost_checkpoints(const io::Path& folder, const RunStart& start, bool any_found) {
  if (any_found || start.run.checkpoint >= 0) return true;
  return (!(folder / run_file_name).exists() || !start.damaged.empty()) && has_logged_steps(folder);
}

Arrangement arrangement_in(const json::Value& memory) {
  const json::Value& text = memory.at("activations");
  const auto activations = nn::parse_activations(text.string());
  if (!activations) text.refuse("what blocks keep, such as \"keep = 8\"", text.describe());
  return {.activations = *activations,
          .peak = memory.at("forecast").integer(0, largest_number),
          .budget = memory.at("available").integer(0, largest_number)};
}

}  // namespace

std::string to_json(const RunFile& file) {
  json::Writer out(2);
  out.begin_object().key("format").value("binade-run").key("version").value(1);
  out.key("run").value(file.id).key("checkpoint").value(file.checkpoint);
  if (!file.command.empty()) out.key("command").value(visible(file.command));
  if (const auto& chosen = file.arrangement) {
    out.key("memory").begin_object().key("activations").value(nn::to_text(chosen->activations));
    out.key("forecast").value(chosen->peak).key("available").value(chosen->budget).end_object();
  }
  return io::with_checksum(out.end_object().text()) + "\n";
}

std::optional<RunFile> read_run_file(const io::Path& folder) {
  const io::Path path = folder / run_file_name;
  if (!path.exists()) return {};
  const std::string text = io::read_text(path, "train", max_run_file);
  const json::Document document = json::parse(text, {"train", path.string()});
  io::check_checksum(text, path.string(), "train");
  const json::Value& root = document.root();
  if (root.at("format").string() != "binade-run")
    root.at("format").refuse("\"binade-run\"", root.at("format").describe());
  io::check_version(root.at("version"), text, path.string(), "train");
  const json::Value *command = root.find("command"), *memory = root.find("memory");
  return RunFile{
      .id = root.at("run").string(),
      .checkpoint = root.at("checkpoint").integer(-1, largest_number),
      .command = command == nullptr ? "" : command->string(),
      .arrangement = memory == nullptr ? std::nullopt : std::optional(arrangement_in(*memory))};
}

RunStart find_start(const io::Path& folder, const Config& config) {
  const auto found = io::list_step_folders(folder / "checkpoints");
  RunStart start;
  start.run = identify(folder, found, start);
  if (start.run.id.empty()) start.run.id = new_run_id();
  if (!config.run.resume) return start;
  choose_checkpoint(folder, found, start);
  const int64_t known = start.run.checkpoint;
  if (start.checkpoint) {
    if (found.back().step < known)
      start.warnings.push_back(fmt::format("{} is missing: continuing from {}",
                                           io::checkpoint_name(known),
                                           io::checkpoint_name(start.checkpoint->step)));
    return start;
  }
  // A run that was killed before its first checkpoint has lost nothing by starting over.
  if (config.run.start_over || !has_lost_checkpoints(folder, start, !found.empty())) return start;
  fail("train", {.argument = "--resume from " + folder.string(),
                 .expected = !found.empty() ? "an undamaged checkpoint"
                             : known >= 0   ? io::checkpoint_name(known)
                                            : "a checkpoint",
                 .found = found.empty() ? "none, though steps were logged"
                                        : fmt::format("none: {}", start.warnings.back()),
                 .hint = "put the checkpoints back, or add --start-over to train from step 0 and "
                         "replace the log"});
}

}  // namespace binade::train
