#include "binade/ops/shape/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "binade/ops/create/create.h"
#include "support/values.h"

namespace binade {
namespace {

using testing::ElementsAre;

std::vector<int64_t> sizes_of(const std::vector<Tensor>& parts, int64_t axis) {
  std::vector<int64_t> sizes;
  for (const Tensor& part : parts) sizes.push_back(part.size(axis));
  return sizes;
}

// torch.chunk: parts of ceil(size / count), which may be fewer than asked for.
TEST(Chunk, GivesEqualPartsAndARest) {
  const Tensor x = arange(7);
  EXPECT_THAT(sizes_of(chunk(x, 3), 0), ElementsAre(3, 3, 1));
  EXPECT_THAT(sizes_of(chunk(x, 4), 0), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(sizes_of(chunk(x, 5), 0), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(sizes_of(chunk(x, 100), 0), ElementsAre(1, 1, 1, 1, 1, 1, 1));
  EXPECT_THAT(test::read(chunk(x, 3)[1]), ElementsAre(3, 4, 5));
  EXPECT_THAT(sizes_of(chunk(zeros({2, 6}), 2, -1), 1), ElementsAre(3, 3));
  EXPECT_EQ(chunk(zeros({0}), 3).size(), 1u);
  EXPECT_THROW(chunk(x, 0), Error);
}

}  // namespace
}  // namespace binade
