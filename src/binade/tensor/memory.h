#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "binade/base/error.h"
#include "binade/base/function_ref.h"
#include "binade/base/restore.h"
#include "binade/tensor/device.h"

// The caching allocator below every tensor, and its accounting.
namespace binade::memory {

// The purpose of a block of memory. Memory tables are grouped by it.
enum class Category : uint8_t { parameters, gradients, optimizer, activations, logits, workspace };
inline constexpr int category_count = 6;
std::string_view name(Category category);

struct Statistics {
  std::array<int64_t, category_count> live{};     // bytes in use now
  std::array<int64_t, category_count> at_peak{};  // bytes in use when the total peaked
  int64_t allocated = 0;                          // sum of live
  int64_t peak = 0;                               // highest `allocated` since the last reset
  int64_t cached = 0;                             // bytes kept for reuse
  int64_t reserved = 0;                           // bytes held from the system, in use or cached
  int64_t peak_reserved = 0;                      // highest `reserved` since the last reset
  int64_t requests = 0;                           // allocations requested
  int64_t misses = 0;                             // requests the cache could not serve
};

// Thrown when a device has no memory left; its details are the device's statistics.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

Statistics statistics(Device device = Device::cpu());

// Bytes in use on a device, in total or in one category, and the highest total since reset_peak,
// which resets peak_reserved too.
int64_t allocated(Device device = Device::cpu());
int64_t allocated(Category category, Device device = Device::cpu());
int64_t peak(Device device = Device::cpu());
void reset_peak(Device device = Device::cpu());

// Returns cached blocks to the system.
void release_cached(Device device = Device::cpu());

// Statistics as an aligned table, one line per category.
std::string table(const Statistics& statistics);

// For its lifetime, new tensors of this thread count under `category`. The default is activations.
class [[nodiscard]] CategoryGuard {
 public:
  explicit CategoryGuard(Category category);

 private:
  Restore<Category> scope_;
};
Category current_category();

// The memory pool of a captured graph (backend/graph.h). A graph replays at the addresses of its
// capture, so no other work may keep data in its blocks between two replays. Free blocks count as
// cached.
class PrivatePool {
 public:
  explicit PrivatePool(Device device);
  // Free blocks go to the device's cache; blocks in use follow when they are released.
  ~PrivatePool();
  PrivatePool(const PrivatePool&) = delete;
  PrivatePool& operator=(const PrivatePool&) = delete;

  // For its lifetime, this thread's requests on the device are served from the pool first, and
  // every block it acquires or releases there belongs to the pool from then on. Work between two
  // replays may use the pool if the next replay may overwrite its tensors.
  class [[nodiscard]] Use {
   public:
    explicit Use(PrivatePool& pool);

   private:
    Restore<PrivatePool*> scope_;
  };

  // Calls `work` with the pool in use and remembers its peak.
  void capture(FunctionRef<void()> work);
  // Counts that peak again, for one replay of the work.
  void count_replay() const;

 private:
  friend void* acquire(size_t bytes, Category category, Device device);
  friend void release(void* block, size_t bytes, Category category, Device device);
  // The pool this thread uses for the device, or null.
  static const PrivatePool* in_use(Device device);

  Device device_;
  std::array<int64_t, category_count> peak_{};  // bytes above those in use after the capture
};

struct AddressRange {
  void* base = nullptr;
  size_t bytes = 0;
};

// The system allocator of a kind of device. Backends other than the CPU's install their own.
struct Source {
  void* (*acquire)(size_t bytes, Device device);  // null if out of memory
  void (*release)(void* block, Device device);

  // Optional: virtual memory. Then blocks are split off ranges of addresses whose memory grows as
  // needed, and merge when they are free, so that memory freed in one size serves requests of any
  // other.
  size_t granularity = 0;  // of commit, in bytes
  // Addresses without memory; an empty range if the device has no virtual memory.
  AddressRange (*reserve)(Device device) = nullptr;
  // Gives memory to a part of a range; false if out of memory.
  bool (*commit)(void* begin, size_t bytes, Device device) = nullptr;
  // Takes it back; a part that was committed by one call.
  void (*decommit)(void* begin, size_t bytes, Device device) = nullptr;
};
void install_source(Device::Kind kind, Source source);

// A block of at least `bytes`, aligned to 64 and counted under `category`; null for zero bytes and
// on the meta device. If the device is full, fails with a table of the memory in use.
void* acquire(size_t bytes, Category category, Device device);
void release(void* block, size_t bytes, Category category, Device device);

}  // namespace binade::memory
