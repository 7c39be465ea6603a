#pragma once

#include "binade/train/report/report.h"

// summary.json: what a run's report needs beside its configuration and metrics.
namespace binade::train {

void write_summary(const RunSummary& run, const io::Path& folder);

// The run in a folder, from config.toml, metrics.jsonl, layers.jsonl and summary.json. A run that
// was killed has no summary.json: its memory by category is forecast, and it has no sample. A run
// with auto_precision may have baselines below its folder, which are read, too.
RunSummary read_run(const io::Path& folder);

// Runs that one with auto_precision is compared with.
inline constexpr const char* baseline_precisions[] = {"bf16", "fp8"};
io::Path baseline_folder(const io::Path& run, const char* precision);

}  // namespace binade::train
