#pragma once

#include "binade/train/report/report.h"

namespace binade::train {

// Several runs in one page: their curves over each other, and a table of where each ended.
std::string comparison_html(const std::vector<RunSummary>& runs);

}  // namespace binade::train
