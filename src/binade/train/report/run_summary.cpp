#include "binade/train/report/run_summary.h"

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/io/file.h"
#include "binade/train/config/component_options.h"
#include "binade/train/forecast.h"

namespace binade::train {
namespace {

constexpr const char* reader = "summary";
constexpr const char* file_name = "summary.json";
constexpr int64_t max_summary = 64 << 20;
constexpr int64_t largest_count = int64_t{1} << 60;

Provenance provenance_of(const json::Value& origin) {
  return {.date = origin.at("date").string(),
          .version = origin.at("version").string(),
          .command = origin.at("command").string(),
          .machine = origin.at("machine").string()};
}

void read_summary(const io::Path& path, RunSummary& run) {
  const std::string text = io::read_text(path, reader, max_summary);
  const json::Document document = json::parse(text, {reader, path.string()});
  const json::Value& root = document.root();
  run.parameters = root.at("parameters").integer(0, largest_count);
  run.full_speed = root.at("full_speed").number();
  run.sample = root.at("sample").string();
  // Folders of earlier versions lack these.
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

}  // namespace

void write_summary(const RunSummary& run, const io::Path& folder) {
  json::Writer out(2);
  out.begin_object().key("parameters").value(run.parameters);
  out.key("memory_at_peak").begin_object();
  for (int i = 0; i < memory::category_count; ++i) {
    out.key(memory::name(static_cast<memory::Category>(i)))
        .value(run.memory.at_peak[static_cast<size_t>(i)]);
  }
  out.end_object().key("full_speed").value(run.full_speed).key("sample").value(run.sample);
  out.key("bytes_per_token").value(run.bytes_per_token);
  out.key("origin").begin_object();
  out.key("date").value(run.origin.date).key("version").value(run.origin.version);
  out.key("command").value(run.origin.command).key("machine").value(run.origin.machine);
  out.end_object();
  if (!run.ranks.empty()) {
    out.key("ranks").begin_array();
    for (const RankTime& rank : run.ranks) {
      out.begin_object().key("seconds").value(rank.seconds).key("waited").value(rank.waited);
      out.key("sent").value(rank.sent).end_object();
    }
    out.end_array();
  }
  io::AtomicFile file(folder / file_name, reader);
  file.append(out.end_object().text() + "\n");
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
  run.config = resolve({.file = folder / "config.toml", .options = {}});
  run.records = read_metrics(folder / "metrics.jsonl", &run.damaged);
  if (run.records.empty()) {
    fail(reader, {.argument = (folder / "metrics.jsonl").string(),
                  .expected = "at least one step",
                  .found = "none"});
  }
  run.layers = read_layer_history(folder / "layers.jsonl");
  const io::Path plan = folder / "precision_plan.json";
  if (run.config.auto_precision && plan.exists()) run.moves = read_precision_plan(plan);
  for (const char* precision : baseline_precisions) {
    const io::Path baseline = baseline_folder(folder, precision);
    baseline.require(io::EntryKind::folder, reader);
    if (!run.config.auto_precision || !(baseline / file_name).exists()) continue;
    run.baselines.push_back(read_run(baseline));
    run.baselines.back().name = precision;
  }
  run.bytes_per_token = trains_bytes(run.config) ? 1 : 0;
  if ((folder / file_name).exists()) {
    read_summary(folder / file_name, run);
  } else {
    run.parameters = make_model(run.config, {Device::meta(), DType::f32})->parameter_count();
    run.memory = forecast_memory(run.config);
  }
  return run;
}

}  // namespace binade::train
