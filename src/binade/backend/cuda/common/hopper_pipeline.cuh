#pragma once

#include <array>
#include <utility>

#include "binade/backend/cuda/common/hopper.cuh"
#include "binade/backend/cuda/common/launch.cuh"

// How the warps of a Hopper kernel pass tiles to one another through shared memory.
namespace binade::backend::cuda::hopper {

// A position in a ring of stages, and the parity of the current round. Readers wait for `phase` of
// a full stage, writers for the other phase of an empty one.
template <int Stages>
struct Ring {
  int stage = 0;
  uint32_t phase = 0;

  __device__ void advance() {
    if (++stage == Stages) {
      stage = 0;
      phase ^= 1;
    }
  }
  __device__ int stage_before() const { return (stage == 0 ? Stages : stage) - 1; }
};

// Stages through which warps pass data. Each has two barriers: it is full once `writers` have
// arrived and their copies are complete, and empty once `readers` have arrived.
template <class Name>
struct Channel {
  Name name;
  int stages, writers, readers;
};

// The barriers of a kernel's channels in shared memory, in the order of an enum. Layout has the
// enum, `Name`, and channels(), an array with one Channel for each name in that order.
template <class Layout>
class Barriers {
 public:
  using Name = typename Layout::Name;

  // Where a channel's barriers are, computed by the compiler.
  struct Place {
    int full, empty;

    consteval Place(Name name) : full(8 * barriers_before(name)), empty(full) {
      empty += 8 * Layout::channels()[name].stages;
    }
  };

  static constexpr int count() { return barriers_before(Layout::channels().size()); }
  static constexpr int bytes = 8 * count();

  __device__ explicit Barriers(uint32_t address) : address_(address) {}

  // One thread; the others wait for it at a barrier of the thread block or cluster.
  __device__ void init() const {
    init(std::make_index_sequence<Layout::channels().size()>());
    publish_barriers();
  }

  __device__ uint32_t full(Place channel, int stage = 0) const {
    return address_ + channel.full + 8 * stage;
  }
  __device__ uint32_t empty(Place channel, int stage = 0) const {
    return address_ + channel.empty + 8 * stage;
  }

  // A reader: waits until the ring's stage is full.
  template <int Stages>
  __device__ void wait_full(Place channel, const Ring<Stages>& at) const {
    wait(full(channel, at.stage), at.phase);
  }
  // A writer: waits until the ring's stage is empty.
  template <int Stages>
  __device__ void wait_empty(Place channel, const Ring<Stages>& at) const {
    wait(empty(channel, at.stage), at.phase ^ 1);
  }
  // The only writer: waits until the ring's stage is empty and announces bulk copies of so many
  // bytes into it. Returns the barrier on which they complete.
  template <int Stages>
  __device__ uint32_t open(Place channel, const Ring<Stages>& at, uint32_t bytes) const {
    wait_empty(channel, at);
    arrive_expecting(full(channel, at.stage), bytes);
    return full(channel, at.stage);
  }

 private:
  template <size_t... i>
  __device__ void init(std::index_sequence<i...>) const {
    (init_channel<i>(), ...);
  }
  template <size_t i>
  __device__ void init_channel() const {
    constexpr Channel<Name> channel = Layout::channels()[i];
#pragma unroll
    for (int stage = 0; stage < channel.stages; ++stage) {
      init_barrier(full(channel.name, stage), channel.writers);
      init_barrier(empty(channel.name, stage), channel.readers);
    }
  }

  static constexpr int barriers_before(size_t name) {
    int sum = 0;
    for (size_t i = 0; i < name; ++i) sum += 2 * Layout::channels()[i].stages;
    return sum;
  }
  static constexpr bool is_in_order() {
    for (size_t i = 0; i < Layout::channels().size(); ++i)
      if (Layout::channels()[i].name != static_cast<Name>(i)) return false;
    return true;
  }
  static_assert(is_in_order());

  uint32_t address_;
};

__device__ inline int lane() { return static_cast<int>(threadIdx.x) % warp_size; }

// One arrival for a warp, after all its lanes. `lane`: this thread's, where it is at hand.
__device__ inline void arrive_warp(uint32_t barrier, int lane = hopper::lane()) {
  __syncwarp();
  if (lane == 0) arrive(barrier);
}

// Waits for so many threads at one of the hardware's 16 barriers; `barrier` is of an enum that
// numbers those of a kernel, in which 0 is that of __syncthreads().
template <auto barrier, int Threads>
__device__ inline void synchronize() {
  asm volatile("bar.sync %0, %1;" ::"n"(static_cast<int>(barrier)), "n"(Threads) : "memory");
}

// Rows of `Columns` elements from a corner on, as boxes of 64 columns that lie `box_bytes` apart.
template <int Columns>
__device__ inline void load_boxes(uint32_t to, int box_bytes, const CUtensorMap& map, BoxCorner at,
                                  uint32_t barrier) {
#pragma unroll
  for (int i = 0; i < Columns / 64; ++i) {
    at.column = 64 * i;
    load_box(to + i * box_bytes, map, at, barrier);
  }
}

}  // namespace binade::backend::cuda::hopper
