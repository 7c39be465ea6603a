#include "binade/lab/replay/reproduce.h"

#include <fmt/format.h>

#include <algorithm>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/base/random.h"
#include "binade/lab/replay/replayer.h"
#include "binade/train/checkpoint.h"
#include "binade/train/config/component_options.h"
#include "binade/train/run/folder.h"
#include "binade/version.h"

namespace binade::lab {
namespace {

// Steps beyond those of the settings would be replayed without end.
void check_manifest_steps(const train::Reproduction& manifest, const train::Config& config,
                          const std::string& file) {
  if (manifest.links.empty())
    fail("reproduce", {.argument = file, .expected = "hashes of the run", .found = "none"});
  const auto check = [&file](const char* what, int64_t found, int64_t most) {
    if (found > most)
      fail("reproduce", {.argument = file,
                         .expected = fmt::format("{} of at most {}", what, most),
                         .found = std::to_string(found)});
  };
  check("steps", manifest.steps, config.train.steps);
  check("a last hash", manifest.links.back().step, manifest.steps);
}

train::Config config_of(const train::Reproduction& manifest, const std::string& file) {
  train::Config config = train::saved_values(manifest.config, file + " (config)");
  check_manifest_steps(manifest, config, file);
  return config;
}

// Where segments begin: the start and the checkpoints; and where the last one ends.
std::vector<AuditedSegment> segments_of(const RecordedRun& run) {
  std::vector<int64_t> ends = {0};
  for (const io::Checkpoint& one : run.checkpoints) ends.push_back(one.step);
  if (!run.chain.links.empty()) ends.push_back(run.chain.links.back().step);
  std::ranges::sort(ends);
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::vector<AuditedSegment> segments;
  for (size_t i = 0; i + 1 < ends.size(); ++i)
    segments.push_back(
        {.from = ends[i], .to = ends[i + 1], .compared = 0, .checked = false, .difference = {}});
  return segments;
}

// `count` of them, in the order of steps. Each choice depends on the seed alone.
std::vector<AuditedSegment> chosen_segments(std::vector<AuditedSegment> all, int64_t count,
                                            uint64_t seed) {
  for (size_t i = all.size(); i > 1; --i) {
    const uint32_t drawn = random::bits(seed, 0, i);
    std::swap(all[i - 1], all[drawn % i]);
  }
  all.resize(std::min(all.size(), static_cast<size_t>(count)));
  std::ranges::sort(all, {}, &AuditedSegment::from);
  return all;
}

void replay_segment(const RecordedRun& run, AuditedSegment& segment) {
  Replayer replayer(run);
  const io::Checkpoint* const begin = run.checkpoint_before(segment.from);
  begin != nullptr && begin->step == segment.from ? replayer.load(*begin) : replayer.start();
  const int64_t before = replayer.compared();
  while (replayer.trainer().steps() < segment.to && !replayer.difference()) replayer.step();
  segment.compared = replayer.compared();
  segment.checked = segment.compared > before || replayer.difference();
  if (const auto& one = replayer.difference())
    segment.difference =
        fmt::format("step {}: {} differ from those of {}", one->step, one->parts, one->record);
}

}  // namespace

train::Reproduction manifest_of(const std::string& folder) {
  RecordedRun run = read_recorded(folder);
  if (run.chain.links.empty() || !run.chain.broken.empty())
    fail("reproduce", {.argument = folder,
                       .expected = "a run with an unbroken chain of hashes",
                       .found = run.chain.links.empty() ? "one without hashes"
                                                        : fmt::format("one that breaks at step {}",
                                                                      run.chain.broken.front()),
                       .hint = "train with hash_every above 0"});
  if (!run.earlier.empty())
    fail("reproduce", {.argument = folder,
                       .expected = "a run with the same settings from its start to its end",
                       .found = fmt::format("one that was resumed with others after step {}",
                                            run.earlier.back().last)});
  open_data(run, "reproduce");
  const train::Config& config = run.config;
  train::Reproduction manifest{
      .config = train::to_toml(config),
      .origin = {.run = {},
                 .data = train::describe_data(run.split),
                 .arithmetic = train::describe_arithmetic(train::device_of(config)),
                 .version = run.origin.version.empty() ? version() : run.origin.version,
                 .base = run.origin.base},
      .tokenizer = train::describe_tokenizer(run.tokenizer->model()),
      .steps = run.steps,
      .links = run.chain.links};
  check_manifest_steps(manifest, config, folder);
  return manifest;
}

std::vector<std::string> obstacles(const train::Reproduction& manifest, const train::Config& config,
                                   const data::Split& split, std::string_view tokenizer) {
  std::vector<std::string> found;
  const auto compare = [&found](const char* what, const std::string& expected,
                                const std::string& here, const char* meaning) {
    if (!expected.empty() && expected != here)
      found.push_back(fmt::format("{}: the run had {}, here is {}{}", what, expected,
                                  here.empty() ? "none" : here, meaning));
  };
  compare("arithmetic", manifest.origin.arithmetic,
          train::describe_arithmetic(train::device_of(config)),
          " (another processor rounds its sums in another order)");
  compare("data", manifest.origin.data, train::describe_data(split),
          " (give the same with --data)");
  if (config.lora.rank > 0)
    compare("weights", manifest.origin.base,
            train::describe_weights(io::model_folder(config.model.init_from, "--init-from")),
            " (give the same with --init-from)");
  compare("tokenizer", manifest.tokenizer, train::describe_tokenizer(tokenizer),
          " (give the same with --tokenizer)");
  return found;
}

train::Config repeating_config(const std::string& file, const std::string& out,
                               const std::string& data, const std::string& tokenizer,
                               const std::string& init_from) {
  const train::Reproduction manifest = train::read_reproduction(file);
  train::Config config = config_of(manifest, file);
  if (!data.empty()) config.data.source = data;
  if (!tokenizer.empty()) config.data.tokenizer = tokenizer;
  if (!init_from.empty()) config.model.init_from = init_from;
  config.run.out = out;
  config.run.resume = false;
  config.run.verify = file;
  config.run.metrics_file.clear();  // a stranger's path, which would be written to
  select_arithmetic(config, manifest.origin.arithmetic, "reproduce");
  const auto opened = data::open_tokenizer(config.data.tokenizer);
  data::Source source = train::data_source(config, opened.get());
  source.cache = train::token_cache(config);
  const std::vector<std::string> missing =
      obstacles(manifest, config, data::read_split(source), opened->model());
  if (missing.empty()) return config;
  std::string details;
  for (const std::string& one : missing) details += "  " + one + "\n";
  fail("reproduce",
       {.argument = file,
        .expected = "the data and the processor of the run",
        .found = fmt::format("{} difference{}", missing.size(), missing.size() == 1 ? "" : "s"),
        .details = details});
}

bool Audit::equal() const {
  return std::ranges::all_of(segments,
                             [](const AuditedSegment& one) { return one.difference.empty(); });
}

Audit audit_run(const std::string& file, const std::string& folder, int64_t count, uint64_t seed) {
  const train::Reproduction manifest = train::read_reproduction(file);
  RecordedRun run = read_recorded(folder);
  // The manifest's settings and links are what is audited; the folder gives data and states.
  const train::DataSettings own = run.config.data;
  run.config = config_of(manifest, file);
  run.earlier.clear();
  run.config.data.source = own.source;
  run.config.data.tokenizer = own.tokenizer;
  run.chain.links = manifest.links;
  run.origin.arithmetic = manifest.origin.arithmetic;
  run.origin.data = manifest.origin.data;
  open_data(run, "reproduce");
  const std::vector<AuditedSegment> all = segments_of(run);
  Audit audit{.segments = chosen_segments(all, count, seed),
              .available = std::ssize(all),
              .steps = manifest.steps,
              .notes = run.notes};
  for (AuditedSegment& segment : audit.segments) {
    replay_segment(run, segment);
    if (segment.checked) audit.checked_steps += segment.to - segment.from;
  }
  return audit;
}

std::string audit_text(const Audit& audit) {
  std::string text;
  for (const AuditedSegment& one : audit.segments)
    text += fmt::format("steps {} to {}: {}\n", one.from + 1, one.to,
                        !one.difference.empty() ? one.difference
                        : !one.checked          ? "not checked: nothing recorded their states"
                                                : fmt::format("equal ({} hash{})", one.compared,
                                                     one.compared == 1 ? "" : "es"));
  return text + fmt::format("checked: {} of {} steps, in {} of {} segments; {}\n",
                            audit.checked_steps, audit.steps, audit.segments.size(),
                            audit.available,
                            audit.equal() ? "all equal" : "the run is not what the manifest says");
}

std::string audit_json(const Audit& audit) {
  json::Writer out(2);
  out.begin_object().key("equal").value(audit.equal()).key("steps").value(audit.steps);
  out.key("checked_steps").value(audit.checked_steps);
  out.key("available_segments").value(audit.available).key("segments").begin_array();
  for (const AuditedSegment& one : audit.segments) {
    out.begin_object().key("from").value(one.from).key("to").value(one.to);
    out.key("hashes_compared").value(one.compared).key("checked").value(one.checked);
    out.key("difference").value(one.difference);
    out.end_object();
  }
  return out.end_array().end_object().text() + "\n";
}

}  // namespace binade::lab
