#pragma once

#include <cstdint>
#include <span>

// What the tensor cores of each generation of GPUs do with a sum of products. Every description was
// compared with results of the hardware or read in models that were: MMA-Sim (arXiv 2511.10909) and
// MATLAB-tensor-core (arXiv 2512.07004).
namespace binade::formats::tensor_core {

enum class Architecture : uint8_t { volta, turing, ampere, ada, hopper, blackwell };

// Operand formats that an instruction treats alike.
enum class OperandKind : uint8_t {
  half,  // f16 and bf16 (Volta and Turing: f16 alone)
  tf32,
  fp8,  // e4m3 and e5m2 in any mix
};

// A sum that the hardware computes at once: `products` products and the accumulator c.
//   1. Products are exact and not normalized: 1.5 x 1.5 is 2.25 x 2^0.
//   2. E is the largest exponent of all summands, c among them.
//   3. Each summand is cut, toward zero, to a multiple of 2^(E - fraction_bits).
//   4. These are added exactly, in any order, and the sum is normalized once.
//   5. An f32 result is cut, toward zero, to `kept_bits` of its fraction; an f16 result is rounded
//      to nearest even.
// A longer dot product takes its k in ascending order, `products` at a time; the result of one sum
// is the c of the next.
struct Unit {
  Architecture architecture;
  OperandKind operands;
  const char* instructions;  // that compute so
  int products;
  int sums;           // of one instruction, one after the other
  int fraction_bits;  // F
  int kept_bits;
  // Least E where summands of zero do not count (ZeroSummands::left_out), for f32 and f16 results.
  int least_exponent_f32, least_exponent_f16;
};

// FP8 by mma.sync on Hopper and Blackwell is computed by f16 instructions and is not described
// here; nor are instructions with block scales. Ampere's floors stand in for those of Volta, Turing
// and Ada, which were not measured.
inline constexpr Unit units[] = {
    {Architecture::volta, OperandKind::half, "mma.sync m8n8k4", 4, 1, 23, 23, -132, -20},
    {Architecture::turing, OperandKind::half, "mma.sync m16n8k8", 8, 1, 24, 23, -132, -20},
    {Architecture::ampere, OperandKind::half, "mma.sync m16n8k16", 8, 2, 24, 23, -132, -20},
    {Architecture::ampere, OperandKind::tf32, "mma.sync m16n8k8", 4, 2, 24, 23, -132, -20},
    {Architecture::ada, OperandKind::fp8, "mma.sync m16n8k32", 16, 2, 13, 13, -132, -20},
    {Architecture::hopper, OperandKind::half, "wgmma m64nNk16, mma.sync m16n8k16", 16, 1, 25, 23,
     -133, -21},
    {Architecture::hopper, OperandKind::tf32, "wgmma m64nNk8, mma.sync m16n8k8", 8, 1, 25, 23, -133,
     -21},
    {Architecture::hopper, OperandKind::fp8, "wgmma m64nNk32", 32, 1, 13, 13, -133, -21},
    {Architecture::blackwell, OperandKind::half, "tcgen05.mma k16, mma.sync m16n8k16", 16, 1, 25,
     23, -133, -21},
    {Architecture::blackwell, OperandKind::tf32, "tcgen05.mma k8, mma.sync m16n8k8", 8, 1, 25, 23,
     -133, -21},
    {Architecture::blackwell, OperandKind::fp8, "tcgen05.mma k32", 32, 1, 25, 23, -133, -21},
};

}  // namespace binade::formats::tensor_core
