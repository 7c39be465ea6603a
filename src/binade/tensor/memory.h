#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "binade/base/function_ref.h"
#include "binade/tensor/device.h"

// Who holds how many bytes, and the caching allocator below every tensor.
namespace binade::memory {

// What a block of memory is for. Tables of memory use are grouped by it.
enum class Category : uint8_t { parameters, gradients, optimizer, activations, logits, workspace };
inline constexpr int category_count = 6;
std::string_view name(Category category);

struct Statistics {
  std::array<int64_t, category_count> live{};     // bytes in use now
  std::array<int64_t, category_count> at_peak{};  // bytes in use when the total peaked
  int64_t allocated = 0;                          // sum of live
  int64_t peak = 0;                               // highest `allocated` since the last reset
  int64_t cached = 0;                             // bytes kept for reuse
  int64_t requests = 0;                           // allocations asked for
  int64_t misses = 0;                             // of those, ones that went to the system
};

Statistics statistics(Device device = Device::cpu());

// Bytes live on a device, in all or in one category; the highest total since reset_peak.
int64_t allocated(Device device = Device::cpu());
int64_t allocated(Category category, Device device = Device::cpu());
int64_t peak(Device device = Device::cpu());
void reset_peak(Device device = Device::cpu());

// Gives cached blocks back to the system.
void release_cached(Device device = Device::cpu());

// Statistics as an aligned table, one line per category.
std::string table(const Statistics& statistics);

// New tensors of this thread count as `category` while the guard lives. The default is activations.
class CategoryGuard {
 public:
  explicit CategoryGuard(Category category);
  ~CategoryGuard();
  CategoryGuard(const CategoryGuard&) = delete;
  CategoryGuard& operator=(const CategoryGuard&) = delete;

 private:
  Category previous_;
};
Category current_category();

// Blocks kept apart for work that is recorded once and runs many times at the same addresses
// (backend/graph.h): between two runs nobody else may leave anything in them. Free ones count as
// cached.
class PrivatePool {
 public:
  explicit PrivatePool(Device device);
  // The blocks go to the device's cache; those still in use follow when they are released.
  ~PrivatePool();
  PrivatePool(const PrivatePool&) = delete;
  PrivatePool& operator=(const PrivatePool&) = delete;

  // While it lives, this thread's requests on the device are served from the reserve first, and all
  // blocks that it takes or releases there belong to the reserve from then on. Also for other work
  // between two runs, whose tensors must be gone, or worthless, when the next one starts.
  class Use {
   public:
    explicit Use(PrivatePool& reserve);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    PrivatePool* previous_;
  };

  // Calls `work` with the reserve in use and remembers what it held at its peak.
  void record(FunctionRef<void()> work);
  // Books that peak again: the recorded work has run once more.
  void book_run() const;

 private:
  friend void* acquire(size_t bytes, Category category, Device device);
  friend void release(void* block, size_t bytes, Category category, Device device);
  // The one in use on this thread for the device; null where there is none.
  static const PrivatePool* in_use(Device device);

  Device device_;
  std::array<int64_t, category_count> peak_{};  // bytes above what stays
};

// Where a device's blocks come from; backends other than the CPU's install their own.
struct Source {
  void* (*acquire)(size_t bytes, Device device);  // null when out of memory
  void (*release)(void* block, Device device);
};
void install_source(Device::Kind kind, Source source);

// A block of at least `bytes` (aligned to 64), booked under `category`. Fails with the table of who
// holds what when the device is full. Blocks of size zero and of the meta device are null.
void* acquire(size_t bytes, Category category, Device device);
void release(void* block, size_t bytes, Category category, Device device);

}  // namespace binade::memory
