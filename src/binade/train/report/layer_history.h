#pragma once

#include <filesystem>
#include <string>
#include <vector>

// layers.jsonl of a run: the statistics of its linear layers over time (docs/doctor.md).
namespace binade::train {

struct LayerHistory {
  // The largest magnitudes of a layer's tensors, and the harm of FP8.
  struct Layer {
    double harm = 0;
    double input = 0, weight = 0, gradient = 0;  // amax
  };
  std::vector<std::string> modules;        // in the order of the model
  std::vector<int64_t> steps;              // ascending
  std::vector<std::vector<Layer>> layers;  // by step, then by module
};

// The records of a file, at most 200 of them, evenly spread. An incomplete last line is ignored;
// of two records of one step the later counts. Empty if there is no such file.
LayerHistory read_layer_history(const std::filesystem::path& path);

// Charts of the harm of FP8 by layer and of the largest magnitudes. Empty without records.
std::string layer_charts(const LayerHistory& history);

}  // namespace binade::train
