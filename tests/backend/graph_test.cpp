#include "binade/backend/graph.h"

#include <gtest/gtest.h>

#include "binade/backend/async_scalar.h"
#include "binade/backend/backend.h"
#include "binade/backend/gpu.h"
#include "binade/backend/transfer.h"
#include "support/values.h"

namespace binade::backend::graph_test {
namespace {

TEST(Graph, IsNotSupportedOnACpu) {
  EXPECT_FALSE(Graph::is_supported(Device::cpu()));
  EXPECT_FALSE(Graph::is_supported(Device::meta()));
  EXPECT_FALSE(Graph().captured());
}

TEST(Transfer, FillsAnExistingTensor) {
  const Tensor x = Tensor::empty({3}, DType::i64), y = Tensor::empty({3}, DType::i64);
  test::write(x, {1, 2, 3});
  transfer(x, y);
  EXPECT_EQ(test::read(y), test::read(x));
}

class GraphGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (gpus().empty()) GTEST_SKIP() << "there is no GPU";
    const Tensor x = filled(1, 0);
    add(x, x);  // loads the kernel's code, which must not happen during a capture
  }

  static Tensor filled(int64_t n, double value) {
    const Tensor x = Tensor::empty({n}, DType::f32, Device::cuda());
    of(x).elementwise.fill(x, value);
    return x;
  }
  static void add(const Tensor& x, const Tensor& y) {  // x += y
    of(x).elementwise.axpby(1, y, 1, x);
  }
};

TEST_F(GraphGpu, RunsAtEachReplayAndNotDuringCapture) {
  const Tensor sum = filled(1, 0), step = filled(1, 2);
  Graph graph;
  AsyncScalar total;
  graph.capture(Device::cuda(), [&] {
    add(sum, step);
    total = AsyncScalar(sum);
  });
  EXPECT_TRUE(graph.captured());
  EXPECT_TRUE(total.captured());
  EXPECT_ANY_THROW(total.get());
  EXPECT_EQ(sum.item(), 0);
  std::vector<AsyncScalar> seen;
  for (int i = 0; i < 3; ++i) {
    graph.replay();
    seen.push_back(total.replayed());
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)].get(), 2 * (i + 1));
  of(step).elementwise.fill(step, 10);
  graph.replay();
  EXPECT_EQ(sum.item(), 16) << "it reads what is there when it runs";
}

TEST_F(GraphGpu, HasAPrivateMemoryPool) {
  constexpr int64_t n = 1 << 20;
  const Tensor sum = filled(n, 0);
  { const Tensor warm = filled(n, 0), another = filled(n, 0); }
  const int64_t misses = memory::statistics(Device::cuda()).misses;
  Graph graph;
  graph.capture(Device::cuda(), [&] {
    const Tensor one = filled(n, 1);
    add(sum, one);
    const Tensor two = filled(n, 2);
    add(sum, two);
  });
  EXPECT_EQ(memory::statistics(Device::cuda()).misses, misses) << "the cache had enough";
  std::vector<Tensor> others;
  for (int i = 0; i < 4; ++i) others.push_back(filled(n, 7));
  graph.replay();
  graph.replay();
  for (const Tensor& other : others) EXPECT_EQ(test::read(other), std::vector<double>(n, 7));
  EXPECT_EQ(test::read(sum), std::vector<double>(n, 6));
  {
    const memory::PrivatePool::Use use(graph.pool());
    const int64_t before = memory::statistics(Device::cuda()).misses;
    const Tensor lent = filled(n, 9);
    EXPECT_EQ(lent.strided({}, {}, n - 1).item(), 9);
    EXPECT_EQ(memory::statistics(Device::cuda()).misses, before);
  }
  graph.replay();
  EXPECT_EQ(test::read(sum), std::vector<double>(n, 9));
}

TEST_F(GraphGpu, WorkThatFailsLeavesTheDeviceUsable) {
  const Tensor x = filled(4, 1);
  Graph graph;
  EXPECT_ANY_THROW(graph.capture(Device::cuda(), [&] {
    add(x, x);
    fail("work", {.argument = "it", .expected = "success", .found = "none"});
  }));
  EXPECT_FALSE(graph.captured());
  add(x, x);
  EXPECT_EQ(test::read(x), std::vector<double>(4, 2));
}

}  // namespace
}  // namespace binade::backend::graph_test
