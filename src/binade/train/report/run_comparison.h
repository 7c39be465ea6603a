#pragma once

#include "binade/train/report/report.h"

namespace binade::train {

// One page for several runs: overlaid curves, and a table of their last records.
std::string comparison_html(const std::vector<RunSummary>& runs);

}  // namespace binade::train
