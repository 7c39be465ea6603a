#ifdef BINADE_CUDA

#include "binade/backend/cuda/matmul/tuning_cache.h"

#include <gtest/gtest.h>

#include "backend/cuda/cache_folder.h"

namespace binade::backend::cuda {
namespace {

using AlgorithmFileTest = CacheFolderTest;

GemmKey key(int64_t rows) {
  GemmKey key = {};
  key[0] = rows;
  return key;
}

cublasLtMatmulAlgo_t algorithm(uint64_t word) {
  cublasLtMatmulAlgo_t algorithm = {};
  algorithm.data[0] = word;
  return algorithm;
}

uint64_t word_of(const std::optional<cublasLtMatmulAlgo_t>& algorithm) {
  return algorithm ? algorithm->data[0] : 0;
}

TEST_F(AlgorithmFileTest, SustainedChoicesWinAndAreNeverTakenFromBriefOnes) {
  AlgorithmFile(gpu(), Tuning::brief).add(key(1), algorithm(11));
  AlgorithmFile(gpu(), Tuning::brief).add(key(2), algorithm(12));
  EXPECT_EQ(word_of(AlgorithmFile(gpu(), Tuning::sustained).find(key(1))), 0u);
  AlgorithmFile sustained(gpu(), Tuning::sustained);
  sustained.add(key(1), algorithm(21));
  EXPECT_EQ(word_of(sustained.find(key(1))), 21u);
  EXPECT_EQ(word_of(sustained.find_again(key(2))), 0u);
  const AlgorithmFile later(gpu(), Tuning::brief);
  EXPECT_EQ(word_of(later.find(key(1))), 21u);
  EXPECT_EQ(word_of(later.find(key(2))), 12u);
  EXPECT_EQ(word_of(later.find(key(3))), 0u);
}

}  // namespace
}  // namespace binade::backend::cuda

#endif  // BINADE_CUDA
