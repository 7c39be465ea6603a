#include "binade/backend/cuda/matmul/tuning_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

namespace binade::backend::cuda {
namespace {

std::string text_of(const GemmKey& key) { return fmt::format("{} ", fmt::join(key, " ")); }

// The words in hexadecimal; none if the text holds anything else.
std::optional<cublasLtMatmulAlgo_t> parse(const std::string& text) {
  cublasLtMatmulAlgo_t algorithm;
  std::istringstream in(text);
  in >> std::hex;
  for (uint64_t& word : algorithm.data) in >> word;
  std::string rest;
  return in && !(in >> rest) ? std::optional(algorithm) : std::nullopt;
}

std::optional<cublasLtMatmulAlgo_t> parse(const std::optional<std::string>& choice) {
  return choice ? parse(*choice) : std::nullopt;
}

}  // namespace

AlgorithmFile::AlgorithmFile(const Gpu& gpu, Tuning tuning)
    : tuning_(tuning),
      brief_("cublaslt", cublasLtGetVersion(), gpu),
      sustained_("cublaslt-sustained", cublasLtGetVersion(), gpu) {}

std::optional<cublasLtMatmulAlgo_t> AlgorithmFile::find(const GemmKey& key) const {
  const std::string problem = text_of(key);
  const std::optional<std::string> sustained = sustained_.find(problem);
  return parse(sustained ? sustained : own().find(problem));
}

std::optional<cublasLtMatmulAlgo_t> AlgorithmFile::find_again(const GemmKey& key) {
  return parse(own().find_again(text_of(key)));
}

void AlgorithmFile::add(const GemmKey& key, const cublasLtMatmulAlgo_t& algorithm) {
  own().add(text_of(key), fmt::format(" {:x}", fmt::join(algorithm.data, " ")));
}

}  // namespace binade::backend::cuda
