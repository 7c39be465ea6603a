#include "binade/train/run/saver.h"

#include <fmt/format.h>

#include <exception>
#include <string_view>

#include "binade/base/error.h"
#include "binade/io/file.h"
#include "binade/train/companions.h"
#include "binade/train/run/restore_files.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;

void write_file(const io::Path& path, std::string_view content) {
  io::AtomicFile file(path, "train");
  file.append(content);
  file.commit();
}

}  // namespace

io::Path best_folder(const RunState& run) { return run.folder.path() / "best"; }

io::Path resumed_path(const RunState& run) {
  return run.folder.checkpoints() / run.folder.resumed()->path.filename();
}

bool RunSaver::read_companions() {
  companions_ = current_companions();
  return run_.folder.resumed() &&
         set_damaged_aside(run_.folder.path(), run_.tokenizer->model(), companions_);
}

// The checkpoint's files, whose hashes are known, before the folder's own.
io::CompanionFiles RunSaver::current_companions() const {
  io::CompanionFiles files;
  if (run_.folder.resumed()) files = io::read_companions(resumed_path(run_), "train");
  files.merge(companions_of(run_.config, *run_.tokenizer, run_.folder.path()));
  return files;
}

// Resuming needs only the run's folder, so the tokenizer is saved too.
void RunSaver::save_settings(const fs::path& name) {
  const io::Path folder = run_.folder.path();
  const std::string_view tokenizer = run_.tokenizer->model();
  Config saved = run_.config;
  saved.run.out = name.string();
  if (!tokenizer.empty()) {
    const char* file = data::tokenizer_file(tokenizer);
    saved.data.tokenizer = (name / file).string();
    write_file(folder / file, tokenizer);
  }
  io::write_companions(companions_, folder, "train");
  write_file(folder / "config.toml", to_toml(saved));
}

void RunSaver::open() {
  run_.log.emplace(run_.folder.path(), run_.trainer.steps());
  if (StepAudit* const audit = run_.trainer.audit())
    audit->on_finding([this](const AuditFinding& finding) { keep(finding); });
  writer_.emplace(run_.folder.checkpoints(), run_.config.run.keep, origin_);
}

// What an audit has found, for good: the run may be about to end.
void RunSaver::keep(const AuditFinding& finding) {
  io::AppendFile file(run_.folder.path() / "audit.jsonl", "train");
  file.append(to_json(finding) + "\n");
  file.sync();
  if (run_.config.run.audit_continue) run_.warn("audit: " + to_text(finding));
}

void RunSaver::save() {
  const auto write = [this] {
    note_checkpoint(
        writer_->save(run_.trainer, run_.tokenizer->model(), with_plan(), run_.chain->newest()));
  };
  try {
    // A checkpoint is never ahead of its log.
    if (run_.observer != nullptr) run_.observer->before_checkpoint(run_.trainer);
    run_.log->sync();
  } catch (const Error&) {
    write();
    throw;
  }
  write();
  run_.meter.leave_out_time();
}

void RunSaver::save_before_failing() {
  try {
    save();
    wait();
  } catch (const std::exception&) {  // the first failure says more
  }
}

// The checkpoint's companions: with auto_precision, the plan of its step, too.
io::CompanionFiles RunSaver::with_plan() const {
  io::CompanionFiles files = companions_;
  const io::Path plan = run_.folder.path() / precision_plan_file;
  if (run_.config.precision.automatic && plan.exists())
    files[precision_plan_file] = io::read_text(plan, "train", 1 << 20);
  return files;
}

void RunSaver::save_best() {
  note_checkpoint(
      writer_->save_model(run_.trainer, run_.tokenizer->model(), companions_, best_folder(run_)));
  run_.meter.leave_out_time();
}

void RunSaver::note_checkpoint(const std::optional<fs::path>& written) {
  if (!written) return;
  if (written->filename() == best_folder(run_).filename())
    return run_.note("best so far: " + written->string());
  checkpoint_ = *written;
  if (const std::string warning = run_.newest->note_checkpoint(); !warning.empty())
    run_.warn(warning);
  const std::vector<Checkpoint> all = list_checkpoints(run_.folder.checkpoints());
  run_.folder.note_checkpoint(all.empty() ? -1 : all.back().step);
  run_.note("checkpoint: " + checkpoint_.string());
}

void RunSaver::follow_folder() {
  if (!run_.folder.is_ours()) end_in_new_folder();
  if (!run_.folder.was_renamed()) return;
  const std::string name = run_.folder.path().string();
  save_settings(name);
  run_.warn("the run's folder was renamed; it is now " + name);
}

// Someone has removed the run's folder, and with it the log and the checkpoints so far: the state
// of now is saved.
void RunSaver::end_in_new_folder() {
  const std::string removed = run_.folder.path().string();
  run_.trainer.finish_all();
  run_.folder.replace();
  const std::string name = run_.folder.path().string();
  save_settings(name);
  run_.folder.note_checkpoint(-1);
  open();
  writer_->save(run_.trainer, run_.tokenizer->model(), companions_, run_.chain->newest());
  wait();
  fail("train", {.argument = removed,
                 .expected = "the run's folder",
                 .found = "none: it was removed while the run wrote to it",
                 .hint = fmt::format("step {} was saved: 'train --resume --out {}' continues "
                                     "from there",
                                     run_.trainer.steps(), name)});
}

}  // namespace binade::train
