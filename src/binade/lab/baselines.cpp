#include "binade/lab/baselines.h"

#include <fmt/format.h>

#include "binade/amp/diverged_error.h"
#include "binade/lab/doctor.h"
#include "binade/train/config/presets.h"
#include "binade/train/report/run_summary.h"

namespace binade::lab {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The run's configuration in another precision, in a folder of its own.
train::Config baseline_config(train::Config config, const char* precision, const fs::path& folder) {
  config.precision.automatic = false;
  config.precision.plan.clear();
  config.run.out = folder.string();
  config.run.resume = is_file(folder / "config.toml");
  config.run.sample = 0;            // the report compares losses
  config.run.metrics_file.clear();  // the run's own
  return train::with_precision(std::move(config), train::parse_precision(precision));
}

// The summary is written at the end of a run, or when it is interrupted.
bool is_complete(const fs::path& folder, int64_t steps) {
  return is_file(folder / "summary.json") && train::read_run(folder).records.back().step >= steps;
}

}  // namespace

std::optional<train::RunResult> train_baselines(
    const train::Config& config, const train::RunResult& run, train::Progress::Mode mode,
    const std::function<void(const std::string&)>& log) {
  for (const char* precision : train::baseline_precisions) {
    const io::Path below = train::baseline_folder(io::Directory(run.folder, "train"), precision);
    below.require(io::EntryKind::folder, "train");
    const fs::path folder = below.plain();
    if (is_complete(folder, config.train.steps)) continue;
    if (log) log(fmt::format("baseline {}:", precision));
    try {
      Doctor doctor;
      train::RunResult result =
          train::run(baseline_config(config, precision, folder), mode, &doctor);
      if (result.interrupted) return result;
    } catch (const amp::DivergedError& error) {
      // A result too: it is listed with its steps.
      if (!is_file(folder / "metrics.jsonl")) throw;
      if (log) log(fmt::format("baseline {} diverged: {}", precision, error.what()));
      train::write_summary(train::read_run(folder), folder);
    }
  }
  const io::Path folder(io::Directory(run.folder, "train"));
  train::write_report(train::read_run(folder), folder / run.report.filename());
  return {};
}

}  // namespace binade::lab
