#pragma once

#include <cstdint>

#include "binade/backend/cuda/common/launch.cuh"

// Many tensors in one kernel. Their addresses are kernel parameters: nothing is copied beforehand,
// and a captured graph contains them.
namespace binade::backend::cuda {

// Most bytes of kernel parameters that every GPU supports.
inline constexpr size_t parameter_bytes = 4096;

// Up to Capacity items of `count` elements each, cut into chunks of Chunk elements: one block per
// chunk.
template <class Item, int Capacity, int64_t Chunk>
struct TensorList {
  Item items[Capacity];
  unsigned first_block[Capacity + 1] = {};
  int size = 0;

  bool full() const { return size == Capacity; }
  BINADE_HD unsigned blocks() const { return first_block[size]; }
  void add(const Item& item) {
    items[size] = item;
    first_block[size + 1] = first_block[size] + static_cast<unsigned>(divide_up(item.count, Chunk));
    ++size;
  }

  // A block's item and range of elements.
  struct Part {
    int item;
    int64_t begin, end;
  };
  __device__ Part part(unsigned block) const {
    int low = 0, high = size;  // the last item that begins at or before the block
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (first_block[middle] <= block ? low : high) = middle;
    }
    const int64_t begin = static_cast<int64_t>(block - first_block[low]) * Chunk;
    const int64_t end = begin + Chunk;
    return {low, begin, end < items[low].count ? end : items[low].count};
  }
};

}  // namespace binade::backend::cuda
