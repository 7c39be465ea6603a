#pragma once

#include <filesystem>

#include "binade/tensor/memory.h"
#include "binade/train/metrics.h"

namespace binade::train {

// The content of a run's report.
struct RunSummary {
  std::string name = {};  // its folder
  Config config = {};
  int64_t parameters = 0;
  std::vector<Record> records = {};
  int64_t damaged = 0;  // lines of the log that are not records
  memory::Statistics memory = {};
  double full_speed = 0;    // tokens/s at the machine's matmul rate; 0: unknown
  std::string sample = {};  // generated text; may be empty
};

// A self-contained page: charts as inline SVG, no script, light and dark.
std::string report_html(const RunSummary& run);
void write_report(const RunSummary& run, const std::filesystem::path& path);

}  // namespace binade::train
