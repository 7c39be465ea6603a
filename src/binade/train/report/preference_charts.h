#pragma once

#include <string>

#include "binade/train/report/report.h"

// What a report shows of a run on pairs of answers (train/preferences.h); empty for other runs.
namespace binade::train {

std::string preference_tiles(const RunSummary& run);
std::string preference_charts(const RunSummary& run);

}  // namespace binade::train
