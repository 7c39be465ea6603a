#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "binade/base/poison.h"
#include "binade/tensor/guarded_block.h"

namespace binade::backend::cpu {

// Memory that is kept for the next call and only ever grows. Nothing that one get() returned
// survives the next: base/poison.h fills it.
class ScratchBuffer {
 public:
  static constexpr std::size_t alignment = 64;

  template <class T>
  T* get(int64_t count) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    if (poison() == Poison::guard) return static_cast<T*>(guarded(bytes));
    if (bytes > capacity_) grow(bytes);
    if (poison() == Poison::fill) fill_with_poison(data_.get(), static_cast<std::size_t>(bytes));
    return static_cast<T*>(data_.get());
  }

 private:
  struct Free {
    void operator()(void* p) const { ::operator delete (p, std::align_val_t{alignment}); }
  };
  struct FreeGuarded {
    void operator()(void* p) const { memory::release_guarded(p); }
  };

  void grow(int64_t bytes) {
    data_.reset();  // frees the old buffer before it allocates the new one
    capacity_ = 0;
    data_.reset(::operator new (static_cast<std::size_t>(bytes), std::align_val_t{alignment}));
    capacity_ = bytes;
  }

  void* guarded(int64_t bytes) {
    guarded_.reset(memory::acquire_guarded(static_cast<std::size_t>(bytes)));
    if (guarded_ == nullptr) throw std::bad_alloc();
    return guarded_.get();
  }

  std::unique_ptr<void, Free> data_;
  int64_t capacity_ = 0;
  std::unique_ptr<void, FreeGuarded> guarded_;
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
