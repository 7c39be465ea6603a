#pragma once

#include <cstdint>
#include <span>

#include "binade/formats/format.h"
#include "binade/formats/tensor_core/unit.h"

// The arithmetic of NVIDIA's tensor cores, bit for bit, on a CPU.
namespace binade::formats::tensor_core {

enum class Accumulator : uint8_t { f32, f16 };

// How a summand of zero enters the largest exponent. Two published models differ, for sums below
// about 2^-126 and for zeros beside factors above 2^100. An H200 leaves them out.
enum class ZeroSummands : uint8_t {
  least_exponent,  // a zero factor or c of zero has the exponent -126 (MMA-Sim)
  left_out,        // not at all; E is at least Unit::least_exponent (MATLAB-tensor-core)
};

struct Options {
  Architecture architecture = Architecture::hopper;
  const Format* a = &spec::bf16;  // bf16, f16, tf32, e4m3 or e5m2
  const Format* b = &spec::bf16;
  Accumulator accumulator = Accumulator::f32;
  ZeroSummands zeros = ZeroSummands::left_out;
  // If not 0, each `promote_every` of K are summed by themselves and added to an f32 register by
  // fused multiply-adds, as kernels do for FP8's short accumulator: usually 128.
  int64_t promote_every = 0;
};

// Operands whose K is contiguous: a is [m, k], b [n, k]. c and d are [m, n].
struct Matmul {
  const float* a;
  const float* b;
  const float* c = nullptr;  // zeros if null
  float* d;
  int64_t m, n, k;
};

// One kind of instruction. Operands are given as f32 numbers that their formats hold exactly. tf32
// takes any f32 number and drops its low 13 bits, as the hardware does. Accumulators in f16 are
// given and returned as f32 as well.
// - Subnormal numbers count, of operands and results.
// - A NaN, infinities of both signs, or zero times infinity give the NaN 0x7fffffff (0x7fff in f16,
//   here widened to 0x7fffe000).
// - A zero result is +0, also where a negative sum becomes zero when it is rounded.
class TensorCore {
 public:
  // Fails if the architecture has no such instruction.
  explicit TensorCore(const Options& options);

  const Unit& unit() const { return *unit_; }
  const Options& options() const { return options_; }

  // One sum of at most unit().products products and c. Fails on more, on unequal lengths, and on
  // numbers that a format does not hold.
  float fused_sum(std::span<const float> a, std::span<const float> b, float c) const;

  // A whole dot product. With promotion, block i of K is multiplied by factors[i] (1 if there are
  // none) by the f32 fused multiply-add that adds it.
  float dot(std::span<const float> a, std::span<const float> b, float c = 0,
            std::span<const float> factors = {}) const;

  // All dot products of a matmul, in parallel: the same bits as dot(), many times as fast.
  void multiply(const Matmul& matmul) const;

 private:
  Options options_;
  const Unit* unit_;
};

}  // namespace binade::formats::tensor_core
