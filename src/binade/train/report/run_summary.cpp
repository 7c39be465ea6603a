#include "binade/train/report/run_summary.h"

#include <fmt/format.h>

#include <functional>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/io/checksum.h"
#include "binade/io/file.h"
#include "binade/train/config/component_options.h"
#include "binade/train/memory/forecast.h"
#include "binade/train/run/resume_settings.h"
#include "binade/train/run/start.h"

namespace binade::train {
namespace {

constexpr const char* reader = "summary";
constexpr const char* file_name = "summary.json";
constexpr int64_t max_summary = 64 << 20;
constexpr int64_t largest_count = int64_t{1} << 60;

Provenance provenance_of(const json::Value& origin) {
  return {
      .date = origin.at("date").string(),
      .version = origin.at("version").string(),
      .command = origin.at("command").string(),
      .resumed_by = origin.find("resumed_by") == nullptr ? "" : origin.at("resumed_by").string(),
      .machine = origin.at("machine").string()};
}

void read_summary(const io::Path& path, RunSummary& run) {
  const std::string text = io::read_text(path, reader, max_summary);
  const json::Document document = json::parse(text, {reader, path.string()});
  io::check_checksum(text, path.string(), reader);
  const json::Value& root = document.root();
  run.parameters = root.at("parameters").integer(0, largest_count);
  run.trained_parameters = run.parameters;
  run.full_speed = root.at("full_speed").number();
  run.sample = root.at("sample").string();
  // Folders of earlier versions lack these.
  if (const json::Value* value = root.find("steps")) run.steps = value->integer(0, largest_count);
  if (const json::Value* value = root.find("trained_parameters"))
    run.trained_parameters = value->integer(0, run.parameters);
  if (const json::Value* value = root.find("epoch_steps")) run.epoch_steps = value->number();
  if (const json::Value* value = root.find("bytes_per_token"))
    run.bytes_per_token = value->number();
  if (const json::Value* value = root.find("origin")) run.origin = provenance_of(*value);
  if (const json::Value* value = root.find("ranks")) {
    for (const json::Value& rank : value->array())
      run.ranks.push_back({.seconds = rank.at("seconds").number(),
                           .waited = rank.at("waited").number(),
                           .sent = rank.at("sent").number()});
  }
  for (int i = 0; i < memory::category_count; ++i) {
    const auto name = memory::name(static_cast<memory::Category>(i));
    const int64_t bytes = root.at("memory_at_peak").at(name).integer(0, largest_count);
    run.memory.at_peak[static_cast<size_t>(i)] = bytes;
    run.memory.peak += bytes;
  }
}

// Calls `read`. If it fails, the report does without what it reads. Returns whether it succeeded.
bool or_warn(RunSummary& run, const std::function<void()>& read) {
  const RunSummary before = run;
  try {
    read();
    return true;
  } catch (const Error& error) {
    run = before;
    run.warnings.push_back(std::string("left out: ") + error.what());
    return false;
  }
}

void read_logs(const io::Path& folder, RunSummary& run) {
  const auto note = [&run](const char* file, int64_t damaged) {
    if (damaged > 0)
      run.warnings.push_back(fmt::format("{}: {} damaged line{} left out", file, damaged,
                                         damaged == 1 ? " was" : "s were"));
  };
  const io::Path log = folder / "metrics.jsonl";
  int64_t damaged = 0;
  if (log.exists()) run.records = read_metrics(log, &damaged);
  note("metrics.jsonl", damaged);
  if (run.records.empty())
    fail(reader, {.argument = log.string(),
                  .expected = "at least one step",
                  .found = damaged > 0 ? fmt::format("{} damaged lines", damaged) : "none",
                  .hint = "train --resume begins a new log and trains on"});
  damaged = 0;
  (folder / "layers.jsonl").require(io::EntryKind::file, reader);
  or_warn(run, [&] { run.layers = read_layer_history(folder / "layers.jsonl", &damaged); });
  note("layers.jsonl", damaged);
}

}  // namespace

void write_summary(const RunSummary& run, const io::Path& folder) {
  json::Writer out(2);
  out.begin_object().key("parameters").value(run.parameters).key("steps").value(run.steps);
  out.key("trained_parameters").value(run.trained_parameters);
  out.key("memory_at_peak").begin_object();
  for (int i = 0; i < memory::category_count; ++i) {
    out.key(memory::name(static_cast<memory::Category>(i)))
        .value(run.memory.at_peak[static_cast<size_t>(i)]);
  }
  out.end_object().key("full_speed").value(run.full_speed).key("sample").value(run.sample);
  out.key("bytes_per_token").value(run.bytes_per_token);
  out.key("epoch_steps").value(run.epoch_steps);
  out.key("origin").begin_object();
  out.key("date").value(run.origin.date).key("version").value(run.origin.version);
  out.key("command").value(run.origin.command).key("machine").value(run.origin.machine);
  if (!run.origin.resumed_by.empty()) out.key("resumed_by").value(run.origin.resumed_by);
  out.end_object();
  if (!run.ranks.empty()) {
    out.key("ranks").begin_array();
    for (const ranks::RankTime& rank : run.ranks) {
      out.begin_object().key("seconds").value(rank.seconds).key("waited").value(rank.waited);
      out.key("sent").value(rank.sent).end_object();
    }
    out.end_array();
  }
  io::AtomicFile file(folder / file_name, reader);
  file.append(io::with_checksum(out.end_object().text()) + "\n");
  file.commit();
}

io::Path baseline_folder(const io::Path& run, const char* precision) {
  return run / "baselines" / precision;
}

RunSummary read_run(const io::Path& given) {
  // A run's folder may come from someone else: no link in it is followed.
  const io::Path folder =
      given.is_guarded() ? given : io::Path(io::Directory(given.plain(), reader));
  RunSummary run{.name = given.plain().lexically_normal().string()};
  ResumeSettings settings = saved_settings(folder, {});
  run.config = std::move(settings.config);
  run.warnings = std::move(settings.warnings);
  read_logs(folder, run);
  const io::Path plan = folder / "precision_plan.json";
  for (const io::Path& file : {plan, folder / file_name, folder / run_file_name})
    file.require(io::EntryKind::file, reader);  // a link is no damage
  if (run.config.precision.automatic && plan.exists())
    or_warn(run, [&] { run.moves = read_precision_plan(plan); });
  for (const char* precision : baseline_precisions) {
    const io::Path baseline = baseline_folder(folder, precision);
    baseline.require(io::EntryKind::folder, reader);
    if (!run.config.precision.automatic || !(baseline / file_name).exists()) continue;
    run.baselines.push_back(read_run(baseline));
    run.baselines.back().name = precision;
  }
  or_warn(run, [&] {
    if (const auto file = read_run_file(folder)) run.arrangement = file->arrangement;
  });
  const io::Path diagnoses = folder / "doctor.txt";
  diagnoses.require(io::EntryKind::file, reader);
  if (diagnoses.exists())
    or_warn(run, [&] { run.diagnoses = io::read_text(diagnoses, reader, max_summary); });
  run.bytes_per_token = trains_bytes(run.config) && !run.config.objective.has_pairs() ? 1 : 0;
  if (!(folder / file_name).exists() ||
      !or_warn(run, [&] { read_summary(folder / file_name, run); })) {
    const auto model = make_model(run.config, {Device::meta(), DType::f32});
    run.parameters = model->parameter_count();
    run.trained_parameters = train::trained_parameters(*model);
    run.memory = forecast_memory(run.config);
  }
  return run;
}

}  // namespace binade::train
