#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

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
