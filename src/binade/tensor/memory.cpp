#include "binade/tensor/memory.h"

#include <fmt/format.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "binade/base/division.h"
#include "binade/base/error.h"
#include "binade/base/execution.h"
#include "binade/base/poison.h"
#include "binade/tensor/arena.h"
#include "binade/tensor/guarded_block.h"
#include "binade/tensor/pages.h"

namespace binade::memory {
namespace {

// The size of a block for a request: rounded up to 1/8 of its power of two, at least 512, so that
// similar sizes share blocks.
size_t block_size(size_t bytes) {
  if (bytes <= 512) return 512;
  return round_up(bytes, std::max(alignment, std::bit_floor(bytes) / 8));
}

// 0: blocks that live within a step; 1: blocks that outlive it. They are cached separately.
// Otherwise the gradients of the first step would take blocks of its activations, and the second
// step would miss them.
size_t lifetime(Category category) {
  return category == Category::activations || category == Category::workspace ? 0 : 1;
}

// A range of addresses with memory at its beginning. Blocks that outlive a step would split the
// place of larger ones that do not, and small blocks that of all others, so each have their own.
struct Region {
  enum Kind : uint8_t { small, step, lasting, count };

  Arena arena;
  AddressRange range;
  std::vector<size_t> commits;  // bytes, by address

  static constexpr size_t alignment = 512;          // as cudaMalloc, and at least
  static constexpr size_t largest_small = 1 << 20;  // as in PyTorch's allocator
  static constexpr size_t least_growth = 32 << 20;  // so that a first step commits seldom

  static Kind kind_of(size_t bytes, Category category) {
    if (bytes <= largest_small) return small;
    return category == Category::parameters || category == Category::optimizer ? lasting : step;
  }
  char* at(size_t offset) const { return static_cast<char*>(range.base) + offset; }
  bool contains(const void* block) const {
    return block >= range.base && block < static_cast<char*>(range.base) + range.bytes;
  }
};

// Guarded blocks have the size that was asked for and are never reused.
bool is_guarded(Device device) { return device.is_cpu() && poison() == Poison::guard; }

using Bytes = std::array<int64_t, category_count>;
// Free blocks by lifetime and size.
using FreeLists = std::array<std::unordered_map<size_t, std::vector<void*>>, 2>;
// How many, of the meta device, which has none.
using FreeCounts = std::array<std::unordered_map<size_t, int64_t>, 2>;

// The free blocks and the accounting of one device. It counts requested bytes, so that the meta
// device and a real one agree exactly.
class DeviceAllocator {
 public:
  // `pool` is the one in use on the calling thread, or null.
  void* acquire(size_t bytes, Category category, Device device, const Source& source,
                const PrivatePool* pool) {
    const std::lock_guard lock(mutex_);
    ++statistics_.requests;
    void* block = nullptr;
    if (is_guarded(device) && bytes > 0) {
      block = acquire_guarded(bytes);
      if (block == nullptr) refuse(bytes, category, device);
    } else if (!device.is_meta() && bytes > 0) {
      block = take(bytes, category, device, source, pool);
      if (pool != nullptr) owners_[block] = pool;
      if (device.is_cpu() && poison() == Poison::fill) fill_with_poison(block, block_size(bytes));
    } else if (bytes > 0) {
      take_meta(block_size(bytes), category);
    }
    count(static_cast<int64_t>(bytes), category);
    return block;
  }

  void release(void* block, size_t bytes, Category category, Device device,
               const PrivatePool* pool) {
    const std::lock_guard lock(mutex_);
    statistics_.live[static_cast<size_t>(category)] -= static_cast<int64_t>(bytes);
    statistics_.allocated -= static_cast<int64_t>(bytes);
    if (device.is_meta() && bytes > 0) return give_meta(block_size(bytes), category);
    if (block == nullptr) return;
    if (is_guarded(device)) return release_guarded(block);
    if (pool != nullptr) owners_.try_emplace(block, pool);
    const auto owner = owners_.find(block);
    if (Region* region = region_of(block); region != nullptr) {
      const size_t size = round_up(bytes, Region::alignment);
      region->arena.give(static_cast<size_t>(static_cast<char*>(block) - region->at(0)), size,
                         owner == owners_.end() ? nullptr : owner->second);
      if (owner != owners_.end()) owners_.erase(owner);
      statistics_.cached += static_cast<int64_t>(size);
      return;
    }
    FreeLists& lists = owner == owners_.end() ? free_ : private_[owner->second];
    lists[lifetime(category)][block_size(bytes)].push_back(block);
    statistics_.cached += static_cast<int64_t>(block_size(bytes));
  }

  // Counts bytes that the system takes or gives without a change of blocks.
  void book(int64_t bytes, Category category) {
    const std::lock_guard lock(mutex_);
    count(bytes, category);
  }

  // Moves the pool's blocks to the cache.
  void release_pool(const PrivatePool* pool) {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < free_.size(); ++i) {
      for (auto& [size, blocks] : private_[pool][i])
        free_[i][size].insert(free_[i][size].end(), blocks.begin(), blocks.end());
    }
    private_.erase(pool);
    for (Region& region : regions_) region.arena.disown(pool);
    std::erase_if(owners_, [pool](const auto& entry) { return entry.second == pool; });
  }

  void release_cached(Device device, const Source& source) {
    const std::lock_guard lock(mutex_);
    drop_free(device, source);
#ifdef __GLIBC__
    // free() alone keeps what lies between blocks in use.
    if (device.is_cpu()) ::malloc_trim(0);
#endif
  }

  Statistics statistics() {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    statistics_.peak = statistics_.allocated;
    statistics_.at_peak = statistics_.live;
    statistics_.peak_reserved = statistics_.reserved;
  }

  // Raises the peak if `held` exceeds it.
  void raise_peak(const Bytes& held) {
    const std::lock_guard lock(mutex_);
    const int64_t total = std::accumulate(held.begin(), held.end(), int64_t{0});
    if (total <= statistics_.peak) return;
    statistics_.peak = total;
    statistics_.at_peak = held;
  }

 private:
  // A free block of the size, or null.
  void* pop(FreeLists& lists, Category category, size_t size) {
    auto& blocks = lists[lifetime(category)];
    const auto found = blocks.find(size);
    if (found == blocks.end() || found->second.empty()) return nullptr;
    void* block = found->second.back();
    found->second.pop_back();
    statistics_.cached -= static_cast<int64_t>(size);
    return block;
  }

  // The meta device counts the blocks that a CPU would hold.
  void take_meta(size_t size, Category category) {
    int64_t& free = meta_free_[lifetime(category)][size];
    if (free == 0) return count_reserved(static_cast<int64_t>(size));
    --free;
    statistics_.cached -= static_cast<int64_t>(size);
  }

  void give_meta(size_t size, Category category) {
    ++meta_free_[lifetime(category)][size];
    statistics_.cached += static_cast<int64_t>(size);
  }

  void* take(size_t bytes, Category category, Device device, const Source& source,
             const PrivatePool* pool) {
    if (has_regions(device, source)) return place(bytes, category, device, source, pool);
    const size_t size = block_size(bytes);
    void* block = pool != nullptr ? pop(private_[pool], category, size) : nullptr;
    if (block == nullptr) block = pop(free_, category, size);
    if (block != nullptr) return block;
    ++statistics_.misses;
    block = source.acquire(size, device);
    if (block == nullptr) {
      drop_free(device, source);
      block = source.acquire(size, device);
    }
    if (block == nullptr) refuse(bytes, category, device);
    count_reserved(static_cast<int64_t>(size));
    return block;
  }

  // Whether the device has virtual memory; reserves its ranges on first use.
  bool has_regions(Device device, const Source& source) {
    if (source.reserve == nullptr) return false;
    if (!reserves_) {
      for (Region& region : regions_) region.range = source.reserve(device);
      reserves_ = std::all_of(regions_.begin(), regions_.end(),
                              [](const Region& region) { return region.range.bytes > 0; });
    }
    return *reserves_;
  }

  Region* region_of(const void* block) {
    const auto found = std::find_if(regions_.begin(), regions_.end(),
                                    [=](const Region& region) { return region.contains(block); });
    return found == regions_.end() ? nullptr : &*found;
  }

  // A block in the region of its kind, which grows if it must.
  void* place(size_t bytes, Category category, Device device, const Source& source,
              const PrivatePool* pool) {
    const size_t size = round_up(bytes, Region::alignment);
    Region& region = regions_[Region::kind_of(size, category)];
    std::optional<size_t> offset = region.arena.take(size, pool);
    if (!offset) {
      ++statistics_.misses;
      if (!grow(region, size, device, source)) {
        drop_free(device, source);
        if (!grow(region, size, device, source)) refuse(bytes, category, device);
      }
      offset = region.arena.take(size, pool);
    }
    statistics_.cached -= static_cast<int64_t>(size);
    return region.at(*offset);
  }

  // Commits memory at the region's end, so that a block of `size` fits there. False if there is
  // too little.
  bool grow(Region& region, size_t size, Device device, const Source& source) {
    const size_t least = round_up(size - region.arena.free_at_end(), source.granularity);
    const size_t begin = region.arena.size();
    for (const size_t bytes :
         {std::max(least, round_up(Region::least_growth, source.granularity)), least}) {
      if (bytes > region.range.bytes - begin || !source.commit(region.at(begin), bytes, device))
        continue;
      region.arena.grow(bytes);
      region.commits.push_back(bytes);
      statistics_.cached += static_cast<int64_t>(bytes);
      count_reserved(static_cast<int64_t>(bytes));
      return true;
    }
    return false;
  }

  void count_reserved(int64_t bytes) {
    statistics_.reserved += bytes;
    statistics_.peak_reserved = std::max(statistics_.peak_reserved, statistics_.reserved);
  }

  // A smaller batch makes room for what depends on it, and for nothing else.
  static std::string_view advice(Category category) {
    switch (category) {
      case Category::parameters:
      case Category::gradients:
        return "the model itself does not fit, whatever the batch: use a smaller one, a lower "
               "precision of its parameters, or shard it over ranks";
      case Category::optimizer:
        return "the optimizer's state does not fit, whatever the batch: use a smaller model, "
               "moments in fewer bits, or shard it over ranks";
      default:
        return "use a smaller batch, recompute activations or choose a lower precision";
    }
  }

  [[noreturn]] void refuse(size_t bytes, Category category, Device device) const {
    throw OutOfMemory("memory",
                      {.argument = to_string(device),
                       .expected = fmt::format("room for {} bytes of {}", bytes, name(category)),
                       .found = "none left",
                       .hint = std::string(advice(category)) + "; held now:",
                       .details = table(statistics_)});
  }

  void count(int64_t bytes, Category category) {
    statistics_.live[static_cast<size_t>(category)] += bytes;
    statistics_.allocated += bytes;
    if (statistics_.allocated <= statistics_.peak) return;
    statistics_.peak = statistics_.allocated;
    statistics_.at_peak = statistics_.live;
  }

  // Private pools keep their blocks, because captured graphs still write to them.
  void drop_free(Device device, const Source& source) {
    for (auto& by_size : free_) {
      for (auto& [size, blocks] : by_size) {
        for (void* block : blocks) source.release(block, device);
        statistics_.cached -= static_cast<int64_t>(size * blocks.size());
        count_reserved(-static_cast<int64_t>(size * blocks.size()));
      }
      by_size.clear();
    }
    for (auto& counts : meta_free_) {
      for (const auto& [size, free] : counts) {
        statistics_.cached -= static_cast<int64_t>(size) * free;
        count_reserved(-static_cast<int64_t>(size) * free);
      }
      counts.clear();
    }
    for (Region& region : regions_) {
      while (!region.commits.empty() && region.arena.free_at_end() >= region.commits.back()) {
        const size_t bytes = region.commits.back();
        region.commits.pop_back();
        region.arena.shrink(bytes);
        source.decommit(region.at(region.arena.size()), bytes, device);
        statistics_.cached -= static_cast<int64_t>(bytes);
        count_reserved(-static_cast<int64_t>(bytes));
      }
    }
  }

  std::mutex mutex_;
  // Without virtual memory.
  FreeLists free_;
  std::unordered_map<const PrivatePool*, FreeLists> private_;
  FreeCounts meta_free_;
  // With virtual memory.
  std::array<Region, Region::count> regions_;
  std::optional<bool> reserves_;  // whether the device has it
  // The pools of private blocks: in use, and without virtual memory also free ones.
  std::unordered_map<void*, const PrivatePool*> owners_;
  Statistics statistics_;
};

// CUDA's source in a build that has installed none.
void* refuse_cuda(size_t, Device device) {
  fail("memory", {.argument = "device",
                  .expected = "cpu or meta",
                  .found = to_string(device),
                  .hint = "this build has no CUDA backend: configure with -DBINADE_CUDA=ON"});
}

Source& source_of(Device::Kind kind) {
  static std::array<Source, 3> sources = {
      Source{[](size_t bytes, Device) {
               return std::aligned_alloc(alignment, round_up(bytes, alignment));
             },
             [](void* block, Device) { std::free(block); }},
      Source{refuse_cuda, [](void*, Device) {}},
      Source{[](size_t, Device) -> void* { return nullptr; }, [](void*, Device) {}}};
  return sources[static_cast<size_t>(kind)];
}

// Allocators are never destroyed, because tensors with static lifetime may be destroyed later.
DeviceAllocator& allocator_of(Device device) {
  static std::mutex mutex;
  static auto& allocators =
      *new std::map<std::pair<Device::Kind, int>, std::unique_ptr<DeviceAllocator>>();
  const std::lock_guard lock(mutex);
  auto& allocator = allocators[{device.kind, device.index}];
  if (!allocator) allocator = std::make_unique<DeviceAllocator>();
  return *allocator;
}

// What a forward allocates counts under the same category when it is repeated.
constinit execution::Slot<Category> thread_category(execution::Belongs::to_work,
                                                    [] { return Category::activations; });
// Of the thread that captures a graph: others must not take blocks that its replays overwrite.
constinit execution::Slot<PrivatePool*> thread_pool(execution::Belongs::to_thread);

}  // namespace

std::string_view name(Category category) {
  constexpr std::string_view names[] = {"parameters",  "gradients", "optimizer",
                                        "activations", "logits",    "workspace"};
  return names[static_cast<size_t>(category)];
}

void drop_pages(Storage& storage) {
  if (storage.device().is_cuda()) {
    release(std::exchange(storage.data_, nullptr), storage.bytes(), storage.category(),
            storage.device());
    return;
  }
  // Pages that other blocks share stay.
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(storage.data());
  const uintptr_t begin = round_up(address, page), end = (address + storage.bytes()) / page * page;
  if (storage.data() != nullptr && begin < end)
    ::madvise(storage.data() + (begin - address), end - begin, MADV_DONTNEED);
  allocator_of(storage.device()).book(-static_cast<int64_t>(storage.bytes()), storage.category());
}

void restore_pages(Storage& storage) {
  if (storage.device().is_cuda()) {
    storage.data_ =
        static_cast<std::byte*>(acquire(storage.bytes(), storage.category(), storage.device()));
    return;
  }
  allocator_of(storage.device()).book(static_cast<int64_t>(storage.bytes()), storage.category());
}

Statistics statistics(Device device) { return allocator_of(device).statistics(); }
int64_t allocated(Device device) { return statistics(device).allocated; }
int64_t allocated(Category category, Device device) {
  return statistics(device).live[static_cast<size_t>(category)];
}
int64_t peak(Device device) { return statistics(device).peak; }
void reset_peak(Device device) { allocator_of(device).reset_peak(); }
void release_cached(Device device) {
  allocator_of(device).release_cached(device, source_of(device.kind));
}

std::string table(const Statistics& statistics) {
  std::string text =
      fmt::format("{:<12} {:>14} {:>14}\n", "category", "bytes now", "bytes at peak");
  for (int i = 0; i < category_count; ++i) {
    const auto at = static_cast<size_t>(i);
    text += fmt::format("{:<12} {:>14} {:>14}\n", name(static_cast<Category>(i)),
                        statistics.live[at], statistics.at_peak[at]);
  }
  return text +
         fmt::format("{:<12} {:>14} {:>14}\n", "total", statistics.allocated, statistics.peak);
}

CategoryGuard::CategoryGuard(Category category) : scope_(*thread_category, category) {}
Category current_category() { return *thread_category; }

PrivatePool::PrivatePool(Device device) : device_(device) {}
PrivatePool::~PrivatePool() { allocator_of(device_).release_pool(this); }

PrivatePool::Use::Use(PrivatePool& pool) : scope_(*thread_pool, &pool) {}

const PrivatePool* PrivatePool::in_use(Device device) {
  const PrivatePool* const pool = *thread_pool;
  return pool != nullptr && pool->device_ == device ? pool : nullptr;
}

void PrivatePool::capture(FunctionRef<void()> work) {
  const Bytes earlier = statistics(device_).at_peak;
  reset_peak(device_);
  {
    const Use use(*this);
    work();
  }
  const Statistics now = statistics(device_);
  for (size_t i = 0; i < peak_.size(); ++i) peak_[i] = now.at_peak[i] - now.live[i];
  allocator_of(device_).raise_peak(earlier);
}

void PrivatePool::count_replay() const {
  Bytes held = statistics(device_).live;
  for (size_t i = 0; i < held.size(); ++i) held[i] += peak_[i];
  allocator_of(device_).raise_peak(held);
}

void install_source(Device::Kind kind, Source source) { source_of(kind) = source; }

void* acquire(size_t bytes, Category category, Device device) {
  return allocator_of(device).acquire(bytes, category, device, source_of(device.kind),
                                      PrivatePool::in_use(device));
}

void release(void* block, size_t bytes, Category category, Device device) {
  allocator_of(device).release(block, bytes, category, device, PrivatePool::in_use(device));
}

}  // namespace binade::memory
