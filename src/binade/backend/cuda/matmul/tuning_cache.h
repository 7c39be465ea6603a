#pragma once

#include <cublasLt.h>

#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "binade/backend/gpu.h"

// Remembers on disk which of cuBLASLt's algorithms was fastest for a GEMM.
namespace binade::backend::cuda {

// Everything the choice depends on, as numbers.
using GemmKey = std::array<int64_t, 28>;

class AlgorithmFile {
 public:
  // Reads the choices for this GPU model and version of cuBLASLt from $XDG_CACHE_HOME/binade or
  // ~/.cache/binade. Without either, choices last for this process only.
  explicit AlgorithmFile(const Gpu& gpu);

  std::optional<cublasLtMatmulAlgo_t> find(const GemmKey& key) const;
  // The same, with choices that other processes have added meanwhile.
  std::optional<cublasLtMatmulAlgo_t> find_again(const GemmKey& key);
  // For its lifetime, other processes with the same file wait in its constructor: the ranks of a
  // run must multiply alike, so the first to need a GEMM tunes it for all. Without a file, or if it
  // cannot be locked, nobody waits.
  class [[nodiscard]] Lock {
   public:
    explicit Lock(const AlgorithmFile& file);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    int descriptor_ = -1;
  };
  // Adds a choice and rewrites the file, keeping choices that other processes have added meanwhile.
  // Failing to write is not an error: the next process tunes again.
  void add(const GemmKey& key, const cublasLtMatmulAlgo_t& algorithm);

 private:
  void read();
  void write() const;

  std::filesystem::path path_;  // empty: no file
  std::string header_;          // first line; files with another one are ignored
  std::map<GemmKey, cublasLtMatmulAlgo_t> choices_;
};

}  // namespace binade::backend::cuda
