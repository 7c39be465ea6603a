#include "binade/data/loader.h"

#include <gtest/gtest.h>

namespace binade::data {
namespace {

Tokens some_tokens() {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * i % 251);
  return Tokens::of_bytes(text);
}

std::vector<int64_t> values(const Batch& batch) {
  const auto count = batch.tokens.numel();
  std::vector<int64_t> all(batch.tokens.data<int64_t>(), batch.tokens.data<int64_t>() + count);
  all.insert(all.end(), batch.targets.data<int64_t>(), batch.targets.data<int64_t>() + count);
  return all;
}

TEST(Loader, PreparedOrNotTheBatchesAreThoseOfSeedAndStep) {
  const Tokens tokens = some_tokens();
  Loader::Options options{.shape = {3, 16}, .accumulate = 2, .seed = 9, .step = 40};
  for (const int64_t ahead : {0, 1, 2, 7}) {
    options.ahead = ahead;
    Loader loader(tokens, options);
    for (int64_t step = 40; step < 60; ++step) {
      for (int64_t micro = 0; micro < 2; ++micro)
        ASSERT_EQ(values(loader.next()), values(training_batch(tokens, {3, 16}, 9, step, micro)))
            << "step " << step << ", ahead " << ahead;
    }
  }
}

TEST(Loader, EndsWithBatchesLeftOver) {
  for (int i = 0; i < 50; ++i) Loader(some_tokens(), {.shape = {2, 8}, .ahead = 3});
}

}  // namespace
}  // namespace binade::data
