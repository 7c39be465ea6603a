#include "binade/base/random.h"

#include <cmath>
#include <numbers>

#include "binade/base/execution.h"

namespace binade::random {
namespace {

// Recompute draws again what its first pass drew.
constinit execution::Slot<Context> thread_context(execution::Belongs::to_stream);

}  // namespace

float normal(uint64_t seed, uint64_t stream, uint64_t index) {
  const double u = (bits(seed, stream, 2 * index) + 0.5) * 0x1p-32;
  const double v = (bits(seed, stream, 2 * index + 1) + 0.5) * 0x1p-32;
  return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v));
}

Context& context() { return *thread_context; }

void begin_step(uint64_t seed, uint64_t step) { context() = {seed, step, 0}; }

void begin_micro_batch(int64_t micro) {
  context().next_stream = static_cast<uint32_t>(micro % 4096) * 4096;
}

Key next_key() {
  Context& state = context();
  const uint64_t number = (state.step << 24) | (state.next_stream++ & 0xFFFFFFu);
  return {state.seed, stream_id(Domain::ops, number)};
}

}  // namespace binade::random
