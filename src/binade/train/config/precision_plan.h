#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace binade::train {

// A module of an FP8 run that was moved to bf16. A run with auto_precision writes a plan of them;
// other runs apply it from their first step.
struct Promotion {
  std::string module;
  int64_t step = 0;  // of the run that wrote the plan
  double harm = 0;   // fraction of the layer's signal lost to FP8 at that step, 0 to 1

  bool operator==(const Promotion&) const = default;
};

struct PrecisionPlan {
  std::vector<Promotion> bf16;

  bool contains(const std::string& module) const;
  bool operator==(const PrecisionPlan&) const = default;
};

// As JSON. Reading is strict: an error names the file, the position, expected and found.
PrecisionPlan read_precision_plan(const std::filesystem::path& path);
void write_precision_plan(const PrecisionPlan& plan, const std::filesystem::path& path);

}  // namespace binade::train
