#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "binade/tensor/memory.h"

namespace binade {

class Storage;
namespace memory {
void drop_pages(Storage& storage);  // see pages.h
void restore_pages(Storage& storage);
}  // namespace memory

// A block of memory shared by the tensors that view it; freed with the last of them.
class Storage {
 public:
  Storage(size_t bytes, Device device, memory::Category category);
  // Memory of another library, which `release` gives back. It is not part of the accounting.
  Storage(void* data, size_t bytes, Device device, std::function<void()> release);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  memory::Category category() const { return category_; }
  // Whether another library owns the memory and may use it at the same time.
  bool is_foreign() const { return static_cast<bool>(release_); }

  // Number of writes since creation. Autograd compares versions to detect changed saved tensors.
  uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }

 private:
  friend void memory::drop_pages(Storage& storage);
  friend void memory::restore_pages(Storage& storage);

  std::byte* data_;
  size_t bytes_;
  Device device_;
  memory::Category category_;
  std::atomic<uint64_t> version_ = 0;
  std::function<void()> release_;  // empty: the memory is the allocator's
};

}  // namespace binade
