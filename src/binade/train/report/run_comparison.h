#pragma once

#include "binade/train/report/report.h"

namespace binade::train {

// One page for several runs: overlaid curves, and a table of their last records.
std::string comparison_html(const std::vector<RunSummary>& runs);

// A run with auto_precision beside its baselines: a table for the report, and one for a terminal;
// empty if it has none.
std::string baselines_html(const RunSummary& run);
std::string baselines_text(const RunSummary& run);
// The page of these runs.
std::string baselines_page(const RunSummary& run);

}  // namespace binade::train
