#include "binade/tensor/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "binade/tensor/tensor.h"
#include "support/values.h"

// Makes a sanitizer's allocator return null for requests it cannot serve.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

namespace binade::memory {
namespace {

using testing::HasSubstr;

size_t at(Category category) { return static_cast<size_t>(category); }

TEST(Memory, CountsEachTensorUnderItsCategory) {
  const Statistics before = statistics();
  std::vector<Tensor> held;
  for (int i = 0; i < category_count; ++i) {
    const CategoryGuard guard(static_cast<Category>(i));
    held.push_back(Tensor::empty({100 * (i + 1)}, DType::f32));
  }
  const Statistics now = statistics();
  int64_t total = 0;
  for (int i = 0; i < category_count; ++i) {
    const auto index = static_cast<size_t>(i);
    EXPECT_EQ(now.live[index] - before.live[index], 400 * (i + 1))
        << name(static_cast<Category>(i));
    total += 400 * (i + 1);
  }
  EXPECT_EQ(now.allocated - before.allocated, total);
  EXPECT_EQ(allocated() - before.allocated, total);
  held.clear();
  EXPECT_EQ(allocated(), before.allocated);
}

TEST(Memory, GuardsNestAndBelongToTheirThread) {
  EXPECT_EQ(current_category(), Category::activations);
  {
    const CategoryGuard outer(Category::parameters);
    {
      const CategoryGuard inner(Category::workspace);
      EXPECT_EQ(current_category(), Category::workspace);
    }
    EXPECT_EQ(current_category(), Category::parameters);
    std::thread([] { EXPECT_EQ(current_category(), Category::activations); }).join();
  }
  EXPECT_EQ(current_category(), Category::activations);
}

TEST(Memory, RemembersThePeakByCategory) {
  reset_peak();
  const Statistics before = statistics();
  EXPECT_EQ(before.peak, before.allocated);
  const Tensor kept = Tensor::empty({250}, DType::f32);
  {
    const CategoryGuard guard(Category::gradients);
    const Tensor passing = Tensor::empty({500}, DType::f32);
  }
  const Tensor later = Tensor::empty({250}, DType::f32);
  const Statistics now = statistics();
  EXPECT_EQ(now.allocated - before.allocated, 2000);
  EXPECT_EQ(now.peak - before.allocated, 3000);
  EXPECT_EQ(peak(), now.peak);
  EXPECT_EQ(now.at_peak[at(Category::gradients)] - before.live[at(Category::gradients)], 2000);
  EXPECT_EQ(now.at_peak[at(Category::activations)] - before.live[at(Category::activations)], 1000);
  reset_peak();
  EXPECT_EQ(peak(), allocated());
}

TEST(Memory, ReusesBlocksOfSimilarSizes) {
  release_cached();
  { const Tensor first = Tensor::empty({10'000}, DType::f32); }
  const Statistics before = statistics();
  EXPECT_GE(before.cached, 40'000);
  { const Tensor second = Tensor::empty({10'000}, DType::f32); }
  { const Tensor near = Tensor::empty({9'999}, DType::f32); }
  const Statistics now = statistics();
  EXPECT_EQ(now.misses, before.misses) << "both came from the cache";
  EXPECT_EQ(now.requests, before.requests + 2);
  release_cached();
  EXPECT_EQ(statistics().cached, 0);
  { const Tensor third = Tensor::empty({10'000}, DType::f32); }
  EXPECT_EQ(statistics().misses, before.misses + 1);
}

// A gradient takes none of the blocks that the next step's activations need.
TEST(Memory, ASecondStepMissesNothing) {
  constexpr int64_t size = 54321;
  const auto step = [](Tensor& gradient) {
    Tensor activation = Tensor::empty({size}, DType::f32);
    activation = {};
    const CategoryGuard guard(Category::gradients);
    if (!gradient.defined()) gradient = Tensor::empty({size}, DType::f32);
  };
  Tensor gradient;
  step(gradient);
  const int64_t misses = statistics().misses;
  step(gradient);
  EXPECT_EQ(statistics().misses, misses);
}

TEST(Memory, MetaCountsTheSameBytesWithoutMemory) {
  const Device meta = Device::meta();
  const Statistics before = statistics(meta);
  const int64_t here = allocated();
  {
    const CategoryGuard guard(Category::parameters);
    const Tensor huge = Tensor::empty({int64_t{1} << 40}, DType::f32, meta);
    EXPECT_EQ(huge.raw_data(), nullptr);
    EXPECT_EQ(allocated(Category::parameters, meta) - before.live[at(Category::parameters)],
              int64_t{1} << 42);
  }
  EXPECT_EQ(allocated(meta), before.allocated);
  EXPECT_EQ(allocated(), here);
}

TEST(Memory, PrintsTheMemoryInUseWhenTheDeviceIsFull) {
  const CategoryGuard guard(Category::parameters);
  const Tensor held = Tensor::empty({1234}, DType::f32);
  const int64_t before = allocated();
  const std::string text = test::error_of([] { Tensor::empty({int64_t{1} << 60}, DType::u8); });
  EXPECT_THAT(text, HasSubstr("memory: cpu: expected room for 1152921504606846976 bytes of "
                              "parameters, found none left; the model itself does not fit, "
                              "whatever the batch"));
  EXPECT_THAT(text, HasSubstr("held now:\ncategory          bytes now  bytes at peak\nparameters"));
  const CategoryGuard of_batches(Category::activations);
  EXPECT_THAT(test::error_of([] { Tensor::empty({int64_t{1} << 60}, DType::u8); }),
              HasSubstr("found none left; use a smaller batch"));
  EXPECT_EQ(allocated(), before) << "a refused request is not counted";
  EXPECT_TRUE(Tensor::empty({10}, DType::f32).defined()) << "and the allocator works on";
}

TEST(Memory, TableHasOneLinePerCategoryAndATotal) {
  Statistics statistics;
  statistics.live = {10, 20, 30, 40, 50};
  statistics.at_peak = {11, 21, 31, 41, 51};
  statistics.allocated = 150;
  statistics.peak = 155;
  const std::string text = table(statistics);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + category_count + 1);
  for (int i = 0; i < category_count; ++i)
    EXPECT_THAT(text, HasSubstr(std::string(name(static_cast<Category>(i)))));
  EXPECT_THAT(text, HasSubstr("total                   150            155"));
}

// A device of 4096 bytes, for tests of a full device.
struct SmallDevice {
  static inline size_t used = 0;
  static inline int releases = 0;
};

TEST(Memory, ReleasesCachedBlocksBeforeItFails) {
  const Device device = Device::cuda(5);
  install_source(Device::Kind::cuda, {[](size_t bytes, Device) -> void* {
                                        if (SmallDevice::used + bytes > 4096) return nullptr;
                                        SmallDevice::used += bytes;
                                        void* block = std::malloc(bytes + sizeof(size_t));
                                        *static_cast<size_t*>(block) = bytes;
                                        return block;
                                      },
                                      [](void* block, Device) {
                                        SmallDevice::used -= *static_cast<size_t*>(block);
                                        ++SmallDevice::releases;
                                        std::free(block);
                                      }});
  { const Storage first(2000, device, Category::activations); }
  EXPECT_EQ(SmallDevice::releases, 0);
  const Storage second(3000, device, Category::activations);  // fits only without the cached first
  EXPECT_EQ(SmallDevice::releases, 1);
  EXPECT_THAT(test::error_of([&] { Storage(2000, device, Category::workspace); }),
              HasSubstr("memory: cuda:5: expected room for 2000 bytes of workspace"));
  release_cached(device);
  install_source(Device::Kind::cuda, {[](size_t, Device) -> void* { return nullptr; },
                                      [](void* block, Device) { std::free(block); }});
}

// Virtual memory of 64 MiB in pages of 4 KiB. The first commit of a range is at least 32 MiB.
struct PagedDevice {
  static constexpr size_t granularity = 4096, total = 64 << 20;
  static inline size_t committed = 0, limit = total;
  static inline std::vector<std::pair<char*, size_t>> commits;

  static Source source() {
    return {.acquire = [](size_t, Device) -> void* { return nullptr; },
            .release = [](void*, Device) {},
            .granularity = granularity,
            .reserve =
                [](Device) {
                  return AddressRange{std::aligned_alloc(4096, total), total};
                },
            .commit =
                [](void* begin, size_t bytes, Device) {
                  if (committed + bytes > limit) return false;
                  committed += bytes;
                  commits.emplace_back(static_cast<char*>(begin), bytes);
                  return true;
                },
            .decommit =
                [](void* begin, size_t bytes, Device) {
                  const std::pair part(static_cast<char*>(begin), bytes);
                  const auto found = std::find(commits.begin(), commits.end(), part);
                  ASSERT_NE(found, commits.end()) << "a part that was committed by one call";
                  commits.erase(found);
                  committed -= bytes;
                }};
  }
};

// Runs on a device of its own, whose allocator no other test uses.
class VirtualMemory : public testing::Test {
 protected:
  VirtualMemory() {
    PagedDevice::limit = PagedDevice::total;
    install_source(Device::Kind::cuda, PagedDevice::source());
  }
  ~VirtualMemory() override {
    release_cached(device);
    EXPECT_EQ(PagedDevice::committed, 0U);
    install_source(Device::Kind::cuda, {[](size_t, Device) -> void* { return nullptr; },
                                        [](void* block, Device) { std::free(block); }});
  }
  Storage block(size_t megabytes, Category category = Category::activations) const {
    return {megabytes << 20, device, category};
  }
  Statistics now() const { return statistics(device); }

  const Device device = Device::cuda(6);
};

TEST_F(VirtualMemory, FreedBlocksServeOtherSizes) {
  {
    const Storage first = block(10), second = block(10), third = block(10);
    EXPECT_GE(now().reserved, 30 << 20);
  }
  const int64_t reserved = now().reserved, misses = now().misses;
  const Storage joined = block(25);
  const Storage small = block(4, Category::gradients);
  EXPECT_EQ(now().reserved, reserved) << "three free neighbors are one place";
  EXPECT_EQ(now().misses, misses);
  EXPECT_EQ(now().cached + (29 << 20), reserved);
}

TEST_F(VirtualMemory, BlocksThatOutliveAStepHaveTheirOwnRange) {
  const std::byte* step = nullptr;
  {
    const Storage activation = block(10);
    step = activation.data();
  }
  const Storage moment = block(2, Category::optimizer);
  const Storage again = block(10);
  EXPECT_EQ(again.data(), step) << "the moment took no part of it";
}

TEST_F(VirtualMemory, ReleasesTheFreeEndOfARangeBeforeItFails) {
  PagedDevice::limit = 40 << 20;
  Storage kept = block(2, Category::parameters);  // commits more than it needs
  { const Storage passing = block(8); }
  EXPECT_EQ(PagedDevice::committed, 40U << 20);
  const Storage weight = block(36, Category::parameters);  // in place of the free activation
  EXPECT_THAT(test::error_of([&] { block(4); }),
              HasSubstr("memory: cuda:6: expected room for 4194304 bytes of activations"));
  EXPECT_EQ(now().allocated, 38 << 20) << "a refused request is not counted";
}

TEST_F(VirtualMemory, APrivatePoolKeepsItsBlocks) {
  void* inside = nullptr;
  {
    PrivatePool pool(device);
    pool.capture([&] { inside = block(10).data(); });
    const Storage other = block(10);
    EXPECT_NE(other.data(), inside);
    release_cached(device);
    const PrivatePool::Use use(pool);
    EXPECT_EQ(block(10).data(), inside);
  }
  EXPECT_EQ(block(10).data(), inside) << "everyone's after the pool's end";
}

// `kilobytes` must be unique in this file, so that no other test's block fits.
Tensor block_of(int64_t kilobytes) { return Tensor::empty({kilobytes << 10}, DType::u8); }

TEST(PrivatePool, OtherWorkGetsNoneOfItsBlocks) {
  PrivatePool pool(Device::cpu());
  std::vector<void*> used;
  pool.capture([&] {
    const Tensor first = block_of(801);
    used.push_back(first.raw_data());
    const Tensor second = block_of(801);
    used.push_back(second.raw_data());
  });
  const Tensor other = block_of(801), another = block_of(801);
  EXPECT_THAT(used, testing::Not(testing::Contains(other.raw_data())));
  EXPECT_THAT(used, testing::Not(testing::Contains(another.raw_data())));
  const PrivatePool::Use use(pool);
  const Tensor again = block_of(801);
  EXPECT_THAT(used, testing::Contains(again.raw_data())) << "but the pool's own work does";
}

TEST(PrivatePool, TakesFromTheCacheAndReusesItsOwn) {
  release_cached();
  void* cached = block_of(802).raw_data();
  PrivatePool pool(Device::cpu());
  const int64_t misses = statistics().misses;
  pool.capture([&] {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(block_of(802).raw_data(), cached);
  });
  EXPECT_EQ(statistics().misses, misses);
  EXPECT_NE(block_of(802).raw_data(), cached) << "it left the cache";
}

// A captured graph reads its inputs, and some of its results outlive the capture.
TEST(PrivatePool, KeepsBlocksReleasedDuringOrAfterTheCapture) {
  PrivatePool pool(Device::cpu());
  Tensor before = block_of(803), inside;
  void *first = before.raw_data(), *second = nullptr;
  pool.capture([&] {
    inside = block_of(803);
    second = inside.raw_data();
    before = {};
  });
  inside = {};
  const Tensor other = block_of(803), another = block_of(803);
  for (const void* block : {first, second}) {
    EXPECT_NE(other.raw_data(), block);
    EXPECT_NE(another.raw_data(), block);
  }
}

TEST(PrivatePool, FreeBlocksCountAsCachedAndStayWhenTheCacheIsReleased) {
  release_cached();
  {
    PrivatePool pool(Device::cpu());
    void* block = nullptr;
    pool.capture([&] { block = block_of(804).raw_data(); });
    EXPECT_GE(statistics().cached, 804 << 10);
    release_cached();
    const int64_t kept = statistics().cached;
    EXPECT_GE(kept, 804 << 10);
    {
      const PrivatePool::Use use(pool);
      EXPECT_EQ(block_of(804).raw_data(), block);
    }
    EXPECT_EQ(statistics().cached, kept);
  }
  release_cached();
  EXPECT_EQ(statistics().cached, 0) << "its blocks ended with it";
}

TEST(PrivatePool, BlocksInUseOutliveIt) {
  release_cached();
  Tensor kept;
  {
    PrivatePool pool(Device::cpu());
    pool.capture([&] { kept = block_of(805); });
  }
  test::fill(kept, 7);
  void* block = kept.raw_data();
  kept = {};
  EXPECT_EQ(block_of(805).raw_data(), block) << "it went to the cache";
}

TEST(PrivatePool, EachReplayCountsTowardThePeakAsTheCaptureDid) {
  Tensor grown = block_of(806);
  reset_peak();
  const Statistics before = statistics();
  PrivatePool pool(Device::cpu());
  Tensor result;
  pool.capture([&] {
    const CategoryGuard guard(Category::gradients);
    const Tensor passing = block_of(806);
    result = block_of(807);
  });
  EXPECT_EQ(statistics().peak - before.allocated, (806 + 807) << 10);
  reset_peak();
  EXPECT_EQ(statistics().peak - before.allocated, 807 << 10);
  pool.count_replay();
  EXPECT_EQ(statistics().peak - before.allocated, (806 + 807) << 10);
  EXPECT_EQ(statistics().at_peak[at(Category::gradients)] - before.live[at(Category::gradients)],
            (806 + 807) << 10);
  grown = {};
  pool.count_replay();
  EXPECT_EQ(statistics().peak - before.allocated, (806 + 807) << 10) << "less is no new peak";
}

TEST(PrivatePool, ACaptureKeepsAnEarlierPeak) {
  reset_peak();
  const int64_t start = allocated();
  { const Tensor high = block_of(2000); }
  PrivatePool pool(Device::cpu());
  pool.capture([] { block_of(808); });
  EXPECT_EQ(peak() - start, 2000 << 10);
}

TEST(PrivatePool, IsInUseOnItsThreadAndDeviceAlone) {
  PrivatePool pool(Device::meta());
  void* block = block_of(809).raw_data();
  const PrivatePool::Use use(pool);
  EXPECT_EQ(block_of(809).raw_data(), block) << "the other device is unaffected";
  PrivatePool own(Device::cpu());
  {
    const PrivatePool::Use inner(own);
    const Tensor mine = block_of(809);
    std::thread([&] { EXPECT_NE(block_of(809).raw_data(), mine.raw_data()); }).join();
  }
  EXPECT_NE(block_of(809).raw_data(), block) << "that block belongs to the private pool now";
}

TEST(Memory, ManyThreadsShareOneAllocator) {
  const int64_t before = allocated();
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 4; ++worker) {
    workers.emplace_back([worker] {
      for (int i = 0; i < 200; ++i) {
        const Tensor x = Tensor::empty({(worker + 1) * 37 + i}, DType::f32);
        test::fill(x, worker);
        for (const double value : test::read(x)) ASSERT_EQ(value, worker);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(allocated(), before);
}

}  // namespace
}  // namespace binade::memory
