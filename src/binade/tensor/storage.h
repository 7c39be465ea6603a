#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "binade/tensor/memory.h"

namespace binade {

// A block of memory that one or more tensors view. Freed with its last tensor.
class Storage {
 public:
  Storage(size_t bytes, Device device, memory::Category category);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  memory::Category category() const { return category_; }

  // Counts writes made after creation; autograd compares it to catch changes of saved tensors.
  uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }

 private:
  std::byte* data_;
  size_t bytes_;
  Device device_;
  memory::Category category_;
  std::atomic<uint64_t> version_ = 0;
};

}  // namespace binade
