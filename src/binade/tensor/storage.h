#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "binade/tensor/memory.h"

namespace binade {

// A block of memory shared by the tensors that view it; freed with the last of them.
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

  // Number of writes since creation. Autograd compares versions to detect changed saved tensors.
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
