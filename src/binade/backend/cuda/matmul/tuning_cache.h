#pragma once

#include <cublasLt.h>

#include <array>
#include <optional>

#include "binade/backend/cuda/choice_file.h"
#include "binade/backend/cuda/tuning.h"

// Remembers on disk which of cuBLASLt's algorithms was fastest for a GEMM.
namespace binade::backend::cuda {

// Everything the choice depends on, as numbers.
using GemmKey = std::array<int64_t, 28>;

class AlgorithmFile {
 public:
  AlgorithmFile(const Gpu& gpu, Tuning tuning);

  // As those of ChoiceFile. Brief tuning takes what sustained tuning has found before; sustained
  // tuning takes only its own.
  std::optional<cublasLtMatmulAlgo_t> find(const GemmKey& key) const;
  std::optional<cublasLtMatmulAlgo_t> find_again(const GemmKey& key);
  ChoiceFile::Lock lock() const { return ChoiceFile::Lock(own()); }
  void add(const GemmKey& key, const cublasLtMatmulAlgo_t& algorithm);

 private:
  const ChoiceFile& own() const { return tuning_ == Tuning::sustained ? sustained_ : brief_; }
  ChoiceFile& own() { return tuning_ == Tuning::sustained ? sustained_ : brief_; }

  Tuning tuning_;
  ChoiceFile brief_, sustained_;
};

}  // namespace binade::backend::cuda
