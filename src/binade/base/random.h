#pragma once

#include <array>
#include <cstdint>

#include "binade/base/host_device.h"

// Counter-based random numbers: each draw is a pure function of (seed, stream, index), so there is
// no generator state to save or to share between threads.
namespace binade::random {

// Philox 4x32-10 (Salmon et al., 2011): maps a 128-bit counter and a 64-bit key to four words.
BINADE_HD constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, uint64_t key) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ k0, static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ k1, static_cast<uint32_t>(a)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return counter;
}

// The four words drawn by elements 4 * block to 4 * block + 3 of a stream.
BINADE_HD constexpr std::array<uint32_t, 4> block(uint64_t seed, uint64_t stream, uint64_t block) {
  return philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                 static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                seed);
}

// 32 random bits for one element of a stream.
BINADE_HD constexpr uint32_t bits(uint64_t seed, uint64_t stream, uint64_t index) {
  return block(seed, stream, index / 4)[index % 4];
}

// Uniform in [0, 1), a multiple of 2^-24, so exact in float.
BINADE_HD constexpr float uniform(uint64_t seed, uint64_t stream, uint64_t index) {
  return static_cast<float>(bits(seed, stream, index) >> 8) * 0x1p-24f;
}

// Standard normal by Box-Muller from draws 2 * index and 2 * index + 1.
float normal(uint64_t seed, uint64_t stream, uint64_t index);

// Purposes of random numbers. The top three bits of a stream id hold its domain, so that no two
// purposes draw the same numbers under one seed. The values are part of every result's bits.
enum class Domain : uint64_t {
  ops = 0,                   // dropout and the like: (step << 24) | number of the op in its step
  data = uint64_t{2} << 61,  // batches: | step
  sampling = uint64_t{3} << 61,    // tokens of generated text, by index
  optimizer = uint64_t{4} << 61,   // stochastic rounding of updates: | step
  audit = uint64_t{5} << 61,       // pieces computed twice: | (step << 24) | number of the kernel
  parameters = uint64_t{6} << 61,  // initial values: | number of the tensor
};

// The id of stream `number` of a domain, which has 2^61 streams.
BINADE_HD constexpr uint64_t stream_id(Domain domain, uint64_t number) {
  return static_cast<uint64_t>(domain) | number;
}

// The random state of a thread's ops, such as dropout: the caller sets seed and step, and each op
// that draws takes the next stream. Recompute restores the stream its first pass started at.
struct Context {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint32_t next_stream = 0;
};

Context& context();

// Starts step `step` of a run with seed `seed`; stream numbers restart at zero.
void begin_step(uint64_t seed, uint64_t step);

// Starts a micro-batch of the step: ops take streams by its number, 4096 of them, whatever rank or
// order runs it.
void begin_micro_batch(int64_t micro);

// The seed and stream id an op draws from.
struct Key {
  uint64_t seed = 0;
  uint64_t stream = 0;
};

// Takes the next stream of this thread's context.
Key next_key();

}  // namespace binade::random
