#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "binade/io/path.h"

// layers.jsonl of a run: the statistics of its linear layers over time (docs/doctor.md).
namespace binade::train {

struct LayerHistory {
  // By these indices: the tensors of a layer, and the formats their statistics are for.
  static constexpr const char* tensor_names[] = {"input", "weight", "gradient"};
  static constexpr const char* format_names[] = {"f16", "bf16", "e4m3", "e5m2"};
  static constexpr size_t formats = 4;

  // NaN if a file has no such value.
  struct Tensor {
    double amax = 0, zeros = 0;  // largest magnitude, fraction of zeros
    double outliers = 0;         // fraction of channels with outliers
    std::array<double, formats> sqnr = {}, underflow = {}, saturate = {};  // dB, fractions
    // Fractions of the elements by exponent, from first_exponent on.
    int64_t first_exponent = 0;
    std::vector<double> exponents = {};
  };
  struct Layer {
    double harm = 0;  // of the recipe
    std::array<Tensor, 3> tensors = {};
  };
  std::vector<std::string> modules;        // in the order of the model
  std::vector<int64_t> steps;              // ascending
  std::vector<std::vector<Layer>> layers;  // by step, then by module
};

// The records of a file, at most 200 of them, evenly spread. An incomplete last line is ignored;
// of two records of one step the later counts. Damaged ones are left out and counted in `damaged`.
// Empty if there is no such file.
LayerHistory read_layer_history(const io::Path& path, int64_t* damaged = nullptr);

// The modules to show, by index in the order of the model: those that the recipe harms most, as
// many as a chart has room for.
std::vector<size_t> most_harmed(const LayerHistory& history);

// Charts of the harm of the recipe by layer and of the largest magnitudes. Empty without records.
std::string layer_charts(const LayerHistory& history);

}  // namespace binade::train
