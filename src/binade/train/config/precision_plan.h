#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace binade::train {

// Which modules of an FP8 run stay in bf16, since which step and why: written by a run that found
// out, replayed by others from their first step.
struct Promotion {
  std::string module;
  int64_t step = 0;  // of the run that found it
  double harm = 0;   // share of the layer's signal lost to FP8 then, 0 to 1

  bool operator==(const Promotion&) const = default;
};

struct PrecisionPlan {
  std::vector<Promotion> bf16;

  bool contains(const std::string& module) const;
  bool operator==(const PrecisionPlan&) const = default;
};

// As JSON. Reading is strict: the error names the file, the place, expected and found.
PrecisionPlan read_precision_plan(const std::filesystem::path& path);
void write_precision_plan(const PrecisionPlan& plan, const std::filesystem::path& path);

}  // namespace binade::train
