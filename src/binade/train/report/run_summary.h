#pragma once

#include "binade/train/report/report.h"

// summary.json: what a run's report needs beside its configuration and metrics.
namespace binade::train {

void write_summary(const RunSummary& run, const std::filesystem::path& folder);

// The run in a folder, from config.toml, metrics.jsonl, layers.jsonl and summary.json. A run that
// was killed has no summary.json: its memory by category is forecast, and it has no sample.
RunSummary read_run(const std::filesystem::path& folder);

}  // namespace binade::train
