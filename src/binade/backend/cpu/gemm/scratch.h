#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace binade::backend::cpu {

// Memory that is kept for the next call and only ever grows. Contents do not survive growing.
class ScratchBuffer {
 public:
  static constexpr std::size_t alignment = 64;

  template <class T>
  T* get(int64_t count) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    if (bytes > capacity_) grow(bytes);
    return static_cast<T*>(data_.get());
  }

 private:
  struct Free {
    void operator()(void* p) const { ::operator delete (p, std::align_val_t{alignment}); }
  };

  void grow(int64_t bytes) {
    data_.reset();  // frees the old buffer before it allocates the new one
    capacity_ = 0;
    data_.reset(::operator new (static_cast<std::size_t>(bytes), std::align_val_t{alignment}));
    capacity_ = bytes;
  }

  std::unique_ptr<void, Free> data_;
  int64_t capacity_ = 0;
};

// Buffers of one thread. The packed operands belong to the thread that called gemm, the tile to
// each thread that works for it.
struct GemmScratch {
  ScratchBuffer packed_a, packed_b;
  ScratchBuffer sums;  // of all tiles, if K needs more than one span
  ScratchBuffer tile;
  ScratchBuffer rows;  // of A, packed for one tile
};

GemmScratch& gemm_scratch();

}  // namespace binade::backend::cpu
