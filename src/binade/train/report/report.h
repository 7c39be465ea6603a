#pragma once

#include <filesystem>

#include "binade/tensor/memory.h"
#include "binade/train/metrics.h"

namespace binade::train {

// What a report tells of a run.
struct RunSummary {
  std::string name = {};  // its folder
  Config config = {};
  int64_t parameters = 0;
  std::vector<Record> records = {};
  memory::Statistics memory = {};
  double full_speed = 0;    // tokens per second at the machine's peak; 0: not known
  std::string sample = {};  // generated text; may be empty
};

// A page that needs nothing but itself: charts as inline SVG, no script, light and dark.
std::string report_html(const RunSummary& run);
void write_report(const RunSummary& run, const std::filesystem::path& path);

}  // namespace binade::train
