#pragma once

#include <cublasLt.h>

#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "binade/backend/gpu.h"

// Which of cuBLASLt's algorithms was fastest for a product, remembered on disk.
namespace binade::backend::cuda {

// All that the choice depends on, as numbers.
using ProductKey = std::array<int64_t, 28>;

class AlgorithmFile {
 public:
  // The choices made for this kind of GPU and this cuBLASLt, in
  // $XDG_CACHE_HOME/binade or ~/.cache/binade. Without either, nothing is remembered.
  explicit AlgorithmFile(const Gpu& gpu);

  std::optional<cublasLtMatmulAlgo_t> find(const ProductKey& key) const;
  // Adds a choice and writes the file, together with what others have written meanwhile. A file
  // that cannot be written is no error: the next process chooses anew.
  void add(const ProductKey& key, const cublasLtMatmulAlgo_t& algorithm);

 private:
  void read();
  void write() const;

  std::filesystem::path path_;  // empty: nowhere
  std::string header_;          // a file that starts otherwise is not ours
  std::map<ProductKey, cublasLtMatmulAlgo_t> choices_;
};

}  // namespace binade::backend::cuda
