#pragma once

#include <cstdint>
#include <string_view>

namespace binade::backend::cpu {

// What an operand's memory holds.
enum class Element : uint8_t { f64, f32, f16, bf16, e4m3, e5m2 };

// A matrix where it lies. Strides count elements and may be anything, so a transposed view costs
// nothing; the fast cases are those where one of the two strides is 1.
struct Operand {
  const void* data;
  Element type;
  int64_t row_stride, col_stride;
};

struct Output {
  void* data;
  Element type;
  int64_t row_stride, col_stride;
};

// gelu is the exact one (erf), gelu_tanh its tanh approximation.
enum class Activation : uint8_t { none, relu, gelu, gelu_tanh, silu };

// What happens to a tile of A*B before it is cast to the output type, all in f32 (f64 where an
// operand is f64): y = act(alpha * AB + beta * C + bias[n]). Where the output has 16 bits, act's
// argument is rounded to its type first, as if product and activation were two ops.
struct Epilogue {
  float alpha = 1;
  float beta = 0;              // 0: C is not read, whatever it holds
  const void* bias = nullptr;  // length N, or null
  Element bias_type = Element::f32;
  Activation activation = Activation::none;
  void* pre_activation = nullptr;  // where not null, act's argument is written here as well
  Element pre_activation_type = Element::f32;
  int64_t pre_row_stride = 0;    // columns are contiguous
  int64_t pre_batch_stride = 0;  // for gemm_batched
  bool round_tf32 = false;       // round both operands to TF32 on the way in
};

// C = epilogue(A * B), A being m x k and B k x n. Any of m, n, k may be 0 (k = 0: AB counts as 0).
//
// Sums are in f32, or in f64 where an operand is f64. Where both operands are of types that bf16
// holds exactly (bf16, e4m3, e5m2) and the CPU has bf16 matrix instructions, those multiply;
// every other pair is widened to f32 first. Products of bf16 are exact in f32 either way, but the
// bf16 instructions flush subnormal operands and sums to zero and may round each partial sum less
// well than an FMA does: |error| <= k * 2^-23 * sum|a||b| holds for all kernels.
//
// A given CPU level gives the same bits for any number of threads. The output may not overlap an
// operand. Inside a parallel_for body the call runs on the calling thread alone.
void gemm(int64_t m, int64_t n, int64_t k, Operand a, Operand b, Output c,
          const Epilogue& epilogue = {});

// `batch` products; matrix i of each operand starts i * batch_stride elements after the first.
// A batch stride of 0 repeats an operand. The bias is the same for the whole batch.
void gemm_batched(int64_t batch, int64_t m, int64_t n, int64_t k, Operand a, int64_t a_batch_stride,
                  Operand b, int64_t b_batch_stride, Output c, int64_t c_batch_stride,
                  const Epilogue& epilogue = {});

// Bytes of one element.
constexpr int64_t element_size(Element type) {
  switch (type) {
    case Element::f64:
      return 8;
    case Element::f32:
      return 4;
    case Element::f16:
    case Element::bf16:
      return 2;
    case Element::e4m3:
    case Element::e5m2:
      return 1;
  }
  return 0;
}

// The place `elements` elements after `data`.
inline void* advance(void* data, Element type, int64_t elements) {
  return static_cast<char*>(data) + elements * element_size(type);
}
inline const void* advance(const void* data, Element type, int64_t elements) {
  return static_cast<const char*>(data) + elements * element_size(type);
}

}  // namespace binade::backend::cpu
