#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "binade/backend/cast.h"
#include "binade/backend/cuda/common/launch.cuh"
#include "binade/backend/cuda/device.h"
#include "binade/backend/target.h"
#include "binade/tensor/tensor.h"

// Dense tensors whose element type is known only when a kernel runs. Fused kernels mix types freely
// (x bf16, residual f32, weight f32, ...). Checking the type once per pack, the same for all
// threads, costs memory-bound code nothing and saves one kernel per combination.
namespace binade::backend::cuda {

struct Operand {
  void* data = nullptr;  // null if the tensor is absent
  DType dtype = DType::f32;

  Operand() = default;
  Operand(const TensorView& view)  // NOLINT: implicit, so that kernel arguments read as a list
      : data(view.present ? view.data : nullptr), dtype(view.dtype) {}
  BINADE_HD Operand(void* address, DType type) : data(address), dtype(type) {}

  __device__ explicit operator bool() const { return data != nullptr; }
};

// An operand that a kernel overwrites or adds to.
struct TargetOperand : Operand {
  bool accumulate = false;

  TargetOperand() = default;
  TargetOperand(const Target& target)  // NOLINT: implicit, as for Operand
      : Operand(target.view), accumulate(target.accumulate) {}
};

// ---- one element, of f64, f32, f16 or bf16 ----

template <class C>
__device__ inline C load_one(const Operand& x, int64_t at) {
  switch (x.dtype) {
    case DType::f64:
      return cast<C>(static_cast<const double*>(x.data)[at]);
    case DType::f32:
      return cast<C>(static_cast<const float*>(x.data)[at]);
    case DType::f16:
      return cast<C>(static_cast<const f16*>(x.data)[at]);
    default:
      return cast<C>(static_cast<const bf16*>(x.data)[at]);
  }
}

template <class C>
__device__ inline void store_one(const Operand& y, int64_t at, C value) {
  switch (y.dtype) {
    case DType::f64:
      static_cast<double*>(y.data)[at] = cast<double>(value);
      break;
    case DType::f32:
      static_cast<float*>(y.data)[at] = cast<float>(value);
      break;
    case DType::f16:
      static_cast<f16*>(y.data)[at] = cast<f16>(value);
      break;
    default:
      static_cast<bf16*>(y.data)[at] = cast<bf16>(value);
  }
}

template <class C>
__device__ inline void store_one(const TargetOperand& y, int64_t at, C value) {
  if (y.accumulate) value += load_one<C>(y, at);
  store_one(static_cast<const Operand&>(y), at, value);
}

// ---- packs: 8 elements of 16 bits, 4 of 16 or 32 bits, or 1 of any type ----

// N elements as stored in memory. Loading and widening are separate steps, so that a kernel can
// issue all its loads before it waits for the first.
template <class C, int N>
struct Fetched {
  static_assert(N == 4 || N == 8);
  uint32_t words[4];
};
template <class C>
struct Fetched<C, 1> {
  C value;
};

template <class C, int N>
__device__ inline Fetched<C, N> fetch(const Operand& x, int64_t at) {
  Fetched<C, N> out;
  if constexpr (N == 1) {
    out.value = load_one<C>(x, at);
  } else if (N == 4 && x.dtype == DType::f32) {
    const uint4 words = *reinterpret_cast<const uint4*>(static_cast<const float*>(x.data) + at);
    out.words[0] = words.x, out.words[1] = words.y, out.words[2] = words.z, out.words[3] = words.w;
  } else if constexpr (N == 4) {
    const uint2 words = *reinterpret_cast<const uint2*>(static_cast<const f16*>(x.data) + at);
    out.words[0] = words.x, out.words[1] = words.y;
  } else {
    const uint4 words = *reinterpret_cast<const uint4*>(static_cast<const f16*>(x.data) + at);
    out.words[0] = words.x, out.words[1] = words.y, out.words[2] = words.z, out.words[3] = words.w;
  }
  return out;
}

template <class C, int N>
__device__ inline void widen(const Fetched<C, N>& in, DType dtype, C (&out)[N]) {
  if constexpr (N == 1) {
    out[0] = in.value;
  } else if (N == 4 && dtype == DType::f32) {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = __uint_as_float(in.words[i]);
  } else if (dtype == DType::bf16) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      out[2 * i] = __uint_as_float(in.words[i] << 16);
      out[2 * i + 1] = __uint_as_float(in.words[i] & 0xffff0000u);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      out[2 * i] = f16::from_bits(static_cast<uint16_t>(in.words[i]));
      out[2 * i + 1] = f16::from_bits(static_cast<uint16_t>(in.words[i] >> 16));
    }
  }
}

template <class C, int N>
__device__ inline void load(const Operand& x, int64_t at, C (&out)[N]) {
  widen(fetch<C, N>(x, at), x.dtype, out);
}

// The elements of a parameter that go with a pack: of 8, they may be f32 too. An absent parameter
// reads as `absent`.
template <class C, int N>
__device__ inline void load_parameter(const Operand& x, int64_t at, C absent, C (&out)[N]) {
  if (!x) {
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = absent;
  } else if (N == 8 && x.dtype == DType::f32) {
    const auto* from = reinterpret_cast<const float4*>(static_cast<const float*>(x.data) + at);
#pragma unroll
    for (int i = 0; i < N / 4; ++i) {
      const float4 four = from[i];
      out[4 * i] = four.x, out[4 * i + 1] = four.y;
      out[4 * i + 2] = four.z, out[4 * i + 3] = four.w;
    }
  } else {
    load(x, at, out);
  }
}

// Two floats in one word, the first in the low half.
__device__ inline uint32_t narrow_two(DType dtype, float low, float high) {
#if __CUDA_ARCH__ >= 800
  uint32_t word;
  if (dtype == DType::bf16)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
#else
  if (dtype == DType::bf16) return bf16(low).bits | uint32_t{bf16(high).bits} << 16;
  return f16(low).bits | uint32_t{f16(high).bits} << 16;
#endif
}

// Stores words to global memory by one instruction; the compiler may split a plain store of a
// vector type.
__device__ inline void store_words(void* to, uint32_t a, uint32_t b) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)), "r"(a),
               "r"(b)
               : "memory");
}
__device__ inline void store_words(void* to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

// Rounds to nearest even.
template <class C, int N>
__device__ inline void store(const Operand& y, int64_t at, const C (&values)[N]) {
  if constexpr (N == 1) {
    store_one(y, at, values[0]);
  } else if (N == 4 && y.dtype == DType::f32) {
    store_words(static_cast<float*>(y.data) + at, __float_as_uint(values[0]),
                __float_as_uint(values[1]), __float_as_uint(values[2]), __float_as_uint(values[3]));
  } else {
    uint32_t words[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; ++i)
      words[i] = narrow_two(y.dtype, values[2 * i], values[2 * i + 1]);
    f16* to = static_cast<f16*>(y.data) + at;
    if constexpr (N == 4) {
      store_words(to, words[0], words[1]);
    } else {
      store_words(to, words[0], words[1], words[2], words[3]);
    }
  }
}

// Rounds the values to `dtype`, as storing and loading them would.
template <class C, int N>
__device__ inline void round_to(DType dtype, C (&values)[N]) {
  if constexpr (N % 2 == 0) {
    if (dtype != DType::f16 && dtype != DType::bf16) return;
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const uint32_t word = narrow_two(dtype, values[i], values[i + 1]);
      if (dtype == DType::bf16) {
        values[i] = __uint_as_float(word << 16);
        values[i + 1] = __uint_as_float(word & 0xffff0000u);
      } else {
        values[i] = f16::from_bits(static_cast<uint16_t>(word));
        values[i + 1] = f16::from_bits(static_cast<uint16_t>(word >> 16));
      }
    }
  } else {
    const auto through = [&](auto tag) {
      using T = typename decltype(tag)::type;
#pragma unroll
      for (int i = 0; i < N; ++i) values[i] = cast<C>(cast<T>(values[i]));
    };
    if (dtype == DType::f32) through(TypeTag<float>{});
    if (dtype == DType::f16) through(TypeTag<f16>{});
    if (dtype == DType::bf16) through(TypeTag<bf16>{});
  }
}

// a / b, both at least 0, in 32 bits if possible: a 64-bit division is several times slower.
__device__ inline int64_t quotient(int64_t a, int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}

// ---- on the host ----

// A kernel's compute type and pack size, passed to lambdas as a value.
template <class C, int N>
struct Packing {
  using type = C;
  static constexpr int size = N;
};

// Fails unless all present views are of types that kernels compute on.
inline void require_compute(std::string_view op, std::initializer_list<const TensorView*> views) {
  for (const TensorView* view : views) {
    if (view->present && !is_compute(view->dtype)) {
      fail(op, {.argument = "dtype",
                .expected = "f64, f32, f16 or bf16",
                .found = std::string(name(view->dtype))});
    }
  }
}

// The largest pack for rows of `width` elements of all present `views`. `parameters` are read with
// them and may be f32 even if the views are 16-bit.
inline int pack_size(int64_t width, std::initializer_list<const TensorView*> views,
                     std::initializer_list<const TensorView*> parameters = {}) {
  int size = 8;
  for (const TensorView* view : views) {
    if (!view->present) continue;
    if (view->dtype == DType::f64) return 1;
    if (view->dtype == DType::f32) size = 4;
  }
  if (width % size != 0) size = width % 4 == 0 ? 4 : 1;
  const auto misaligned = [&](const TensorView* view) {
    const auto bytes = std::min<uintptr_t>(16, size_of(view->dtype) * size);
    return view->present && reinterpret_cast<uintptr_t>(view->data) % bytes != 0;
  };
  for (const TensorView* view : views)
    if (misaligned(view)) return 1;
  for (const TensorView* view : parameters)
    if (misaligned(view) || (view->present && view->dtype == DType::f64)) return 1;
  return size;
}

// Calls f with the Packing for elements of `dtype` in packs of `size`.
template <class F>
void with_packing(DType dtype, int size, F&& f) {
  if (dtype == DType::f64) {
    f(Packing<double, 1>{});
  } else if (size == 8) {
    f(Packing<float, 8>{});
  } else if (size == 4) {
    f(Packing<float, 4>{});
  } else {
    f(Packing<float, 1>{});
  }
}

// Scratch memory of kernels. It may be released once they are launched: memory is reused in stream
// order.
inline Tensor workspace(const Shape& shape, DType dtype) {
  const memory::CategoryGuard guard(memory::Category::workspace);
  return Tensor::empty(shape, dtype, device());
}

}  // namespace binade::backend::cuda
