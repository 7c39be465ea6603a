#pragma once

#include <memory>

#include "binade/tensor/tensor.h"

// Bytes between the host and GPUs.
namespace binade::backend::cuda {

// Copies dense x to dense y of the same type and shape, one of them on a GPU. Small copies to a GPU
// go through pinned memory and wait for nothing; a copy to the host waits for the bytes.
void transfer(const Tensor& x, const Tensor& y);

// One element on its way to the host.
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

}  // namespace binade::backend::cuda
