#pragma once

#include <cublasLt.h>

#include <array>
#include <optional>

#include "binade/backend/cuda/choice_file.h"

// Remembers on disk which of cuBLASLt's algorithms was fastest for a GEMM.
namespace binade::backend::cuda {

// Everything the choice depends on, as numbers.
using GemmKey = std::array<int64_t, 28>;

class AlgorithmFile {
 public:
  explicit AlgorithmFile(const Gpu& gpu);

  // As those of ChoiceFile.
  std::optional<cublasLtMatmulAlgo_t> find(const GemmKey& key) const;
  std::optional<cublasLtMatmulAlgo_t> find_again(const GemmKey& key);
  ChoiceFile::Lock lock() const { return ChoiceFile::Lock(file_); }
  void add(const GemmKey& key, const cublasLtMatmulAlgo_t& algorithm);

 private:
  ChoiceFile file_;
};

}  // namespace binade::backend::cuda
