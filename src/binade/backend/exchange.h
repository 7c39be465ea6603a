#pragma once

#include <cstddef>
#include <span>

#include "binade/backend/capabilities.h"
#include "binade/backend/optimizer.h"
#include "binade/base/division.h"
#include "binade/tensor/tensor.h"

// Kernels around what processes exchange (ranks/), on any device.
namespace binade::backend {

// Elements of a gradient whose squares one part of its norm sums on a GPU, where a block of threads
// sums one; OptimizerKernels::gradient_norm_parts writes one part for each. norm_piece on CPUs.
inline constexpr int64_t gpu_norm_piece = 16384;

// Parts of the norm of so many elements, counted from a gradient's start or from a multiple of
// gpu_norm_piece.
constexpr int64_t norm_parts(int64_t elements, Device device) {
  return divide_up(elements,
                   capabilities(device).is_massively_parallel ? gpu_norm_piece : norm_piece);
}

// Copies bytes within the memory of one device, in the order of its work. Null addresses, of the
// meta device, are ignored.
void copy_bytes(Device device, std::byte* to, const std::byte* from, int64_t bytes);

// numbers[i] (f64) = scalars[i], and the reverse. Scalars are f64, f32 or i32, with one element
// each, on the device of `numbers`.
void collect(std::span<const TensorView> scalars, const Tensor& numbers);
void distribute(const Tensor& numbers, std::span<const TensorView> scalars);

}  // namespace binade::backend
