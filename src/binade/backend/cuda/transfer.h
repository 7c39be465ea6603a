#pragma once

#include <memory>

#include "binade/tensor/tensor.h"

// Copies between the host and GPUs.
namespace binade::backend::cuda {

// Copies dense x to dense y of the same type and shape, one of them on a GPU. Small copies to a GPU
// go through pinned memory and do not wait; copies to the host wait for the data.
void transfer(const Tensor& x, const Tensor& y);

// Copies bytes within the memory of a GPU.
void copy_bytes(Device device, std::byte* to, const std::byte* from, int64_t bytes);

// A one-element tensor being copied to pinned memory.
class AsyncReadback {
 public:
  AsyncReadback() = default;
  explicit AsyncReadback(const Tensor& scalar);
  bool defined() const { return slot_ != nullptr; }
  double wait() const;

 private:
  struct Slot;
  std::shared_ptr<Slot> slot_;
};

// A dense tensor being copied to pinned memory.
class AsyncDownload {
 public:
  AsyncDownload() = default;
  explicit AsyncDownload(const Tensor& x);
  bool defined() const { return block_ != nullptr; }
  // A CPU tensor; on any thread.
  Tensor wait() const;

 private:
  struct Block;
  std::shared_ptr<Block> block_;
};

}  // namespace binade::backend::cuda
