#pragma once

#include <cuda_runtime.h>

// Functions of the special function unit.
namespace binade::backend::cuda {

inline constexpr float log2_e = 1.44269504f;

// 2^x with a relative error of about 2^-22; 0 instead of denormals.
__device__ inline float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / x with an error of about 1 ulp; 0 instead of denormals.
__device__ inline float fast_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace binade::backend::cuda
