#include "binade/lab/replay/branch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "binade/base/error.h"
#include "binade/io/file.h"
#include "binade/lab/replay/recorded_run.h"
#include "binade/lab/replay/replayer.h"
#include "binade/train/checkpoint.h"
#include "binade/train/companions.h"
#include "binade/train/run/earlier_settings.h"
#include "binade/train/run/resume_check.h"
#include "binade/train/run/resume_settings.h"
#include "binade/train/run/start.h"
#include "binade/version.h"

namespace binade::lab {
namespace {

namespace fs = std::filesystem;

train::Sources::Options parsed_settings(const BranchOptions& options) {
  train::Sources::Options result = {{"out", options.folder}};
  for (const std::string& one : options.settings) {
    const size_t equals = one.find('=');
    if (equals == one.npos || equals == 0)
      fail("at", {.argument = "--set",
                  .expected = "KEY=VALUE, such as lr=1e-4",
                  .found = "'" + one + "'"});
    result.emplace_back(one.substr(0, equals), one.substr(equals + 1));
  }
  return result;
}

void write_branch_file(const fs::path& path, std::string_view content) {
  io::AtomicFile file(path, "at");
  file.append(content);
  file.commit();
}

std::string newest_link(const RecordedRun& run, int64_t step) {
  std::string text;
  for (const train::Link& link : run.chain.links) {
    if (link.step <= step) text = train::to_text(train::LinkName{link.step, link.digest});
  }
  return text;
}

// The settings of the step after which the branch begins, with other ones over them.
train::Config branch_settings(const RecordedRun& run, const BranchOptions& options) {
  for (const RecordedRun::Earlier& one : run.earlier) {
    if (options.step < one.last)
      return train::resolve({run.folder / train::earlier_name(one.last), parsed_settings(options)});
  }
  return train::saved_settings(run.folder, parsed_settings(options)).config;
}

// The files of a run that stopped after the step.
void write_branch(const RecordedRun& run, Replayer& replayer, const BranchOptions& options,
                  const train::Config& config) {
  const fs::path folder = options.folder;
  train::Snapshot snapshot =
      train::take_snapshot(replayer.trainer(), run.tokenizer->model(),
                           train::companions_of(run.config, *run.tokenizer, run.folder));
  snapshot.origin = {.run = train::new_run_id(),
                     .data = train::describe_data(run.split),
                     .arithmetic = train::describe_arithmetic(replayer.trainer().device()),
                     .version = version(),
                     .base = run.origin.base};
  snapshot.link = newest_link(run, options.step);
  fs::create_directories(folder / "checkpoints");
  train::write_checkpoint(snapshot, io::Path(folder / "checkpoints"), 1);
  fs::copy_file((run.folder / "metrics.jsonl").plain(), folder / "metrics.jsonl");
  for (const RecordedRun::Earlier& one : run.earlier) {
    if (one.last < options.step)
      train::note_earlier_settings(folder, {one.last, train::to_toml(one.config)});
  }
  write_branch_file(folder / "config.toml", train::to_toml(config));
  write_branch_file(
      folder / train::run_file_name,
      train::to_json(train::RunFile{.id = snapshot.origin.run, .checkpoint = options.step}));
}

// Names of the settings that differ and must be allowed.
std::vector<std::string> changed_names(const train::Config& before, const train::Config& now) {
  std::vector<std::string> names;
  for (const train::SettingChange& change : train::all_changed_settings(before, now)) {
    if (change.changes_bits) names.push_back(change.name);
  }
  return names;
}

}  // namespace

Branch branch_run(const RecordedRun& run, const BranchOptions& options) {
  if (fs::exists(options.folder))
    fail("at", {.argument = "--branch",
                .expected = "a folder that does not exist",
                .found = options.folder + ", which does"});
  train::Config config = branch_settings(run, options);
  if (options.step < 0 || options.step >= config.train.steps)
    fail("at", {.argument = "--step",
                .expected = fmt::format("0 to {}, so that the new run of {} steps has one left",
                                        config.train.steps - 1, config.train.steps),
                .found = std::to_string(options.step)});
  Replayer replayer(run);
  replayer.go_to(options.step);
  if (const auto& difference = replayer.difference())
    fail("at", {.argument = run.folder.string(),
                .expected = fmt::format("the state that {} records for step {}", difference->record,
                                        difference->step),
                .found = "other " + difference->parts,
                .hint = "a branch would not continue this run"});
  const std::vector<std::string> changed = changed_names(run.settings_of(options.step + 1), config);
  Branch branch{.folder = options.folder, .command = {}, .notes = run.notes};
  try {
    write_branch(run, replayer, options, config);
    config.run.allow_changes = changed;
    const train::Origin now{.run = {},
                            .data = train::describe_data(run.split),
                            .arithmetic = train::describe_arithmetic(replayer.trainer().device()),
                            .version = version(),
                            .base = run.origin.base};
    train::check_unchanged(
        config, now, *run.tokenizer,
        io::Path(options.folder) / "checkpoints" / io::checkpoint_name(options.step));
  } catch (const Error&) {
    std::error_code ignored;
    fs::remove_all(options.folder, ignored);
    throw;
  }
  branch.command = fmt::format(
      "binade train --resume --out {}{}", options.folder,
      changed.empty() ? "" : fmt::format(" --allow-changes {}", fmt::join(changed, ",")));
  return branch;
}

}  // namespace binade::lab
