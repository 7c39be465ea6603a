#pragma once

#include <cuda_runtime.h>

#include "binade/backend/cast.h"
#include "binade/backend/cuda/common/layout.cuh"
#include "binade/backend/cuda/common/pack.cuh"
#include "binade/backend/cuda/device.h"
#include "binade/tensor/tensor.h"

// Memory access of the plain kernels: in packs if the type is known at compile time, else one
// element at a time through a switch over types, in which threads do not diverge.
namespace binade::backend::cuda {

// dispatch() for device code: calls f with the TypeTag of `dtype`'s C++ type.
template <class F>
__device__ inline void on_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(TypeTag<double>{});
    case DType::f32:
      return f(TypeTag<float>{});
    case DType::f16:
      return f(TypeTag<f16>{});
    case DType::bf16:
      return f(TypeTag<bf16>{});
    case DType::e4m3:
      return f(TypeTag<e4m3>{});
    case DType::e5m2:
      return f(TypeTag<e5m2>{});
    case DType::i64:
      return f(TypeTag<int64_t>{});
    case DType::i32:
      return f(TypeTag<int32_t>{});
    case DType::u8:
      return f(TypeTag<uint8_t>{});
    case DType::boolean:
      return f(TypeTag<bool>{});
  }
}

// layout.offset(index) without unrolling, which would use registers that memory-bound kernels need
// for loads in flight.
__device__ inline int64_t offset_of(const Layout& layout, int64_t index) {
  int64_t at = 0;
#pragma unroll 1
  for (int axis = layout.rank - 1; axis > 0; --axis) {
    const int64_t rest = index / layout.sizes[axis];
    at += (index - rest * layout.sizes[axis]) * layout.strides[axis];
    index = rest;
  }
  return at + index * layout.strides[0];
}

// Loads the element at `offset` as C; stores C, rounded once.
template <class C>
__device__ inline C load_as(const void* data, DType dtype, int64_t offset) {
  C value{};
  on_type(dtype, [&](auto tag) {
    value = cast<C>(static_cast<const typename decltype(tag)::type*>(data)[offset]);
  });
  return value;
}

template <class C>
__device__ inline void store_as(void* data, DType dtype, int64_t offset, C value) {
  on_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    static_cast<T*>(data)[offset] = cast<T>(value);
  });
}

// A view whose type a kernel learns at run time.
struct AnyView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Layout layout;

  AnyView() = default;
  explicit AnyView(const TensorView& view) : data(view.data), dtype(view.dtype), layout(view) {}

  template <class C>
  __device__ C load(int64_t index) const {
    return load_as<C>(data, dtype, offset_of(layout, index));
  }
  template <class C>
  __device__ void store(int64_t index, C value) const {
    store_as(data, dtype, offset_of(layout, index), value);
  }
};

// Readers of `width` elements at a time, as C. Fetching is a separate step, so that a kernel can
// issue several loads before it waits for the first.

// Reads packs of a known type.
template <class T, int N, class C = Compute<T>>
struct Packs {
  using Value = C;
  using Fetched = Pack<T, N>;
  static constexpr int width = N;
  const T* data;

  explicit Packs(const TensorView& view) : data(view.as<T>()) {}

  __device__ Fetched fetch(int64_t offset) const { return load_pack<T, N>(data + offset); }
  static __device__ C value(const Fetched& fetched, int i) { return cast<C>(fetched[i]); }
};

// Reads elements of any type.
template <class C>
struct Elements {
  using Value = C;
  using Fetched = C;
  static constexpr int width = 1;
  void* data;
  DType dtype;

  explicit Elements(const TensorView& view) : data(view.data), dtype(view.dtype) {}

  __device__ C fetch(int64_t offset) const { return load_as<C>(data, dtype, offset); }
  static __device__ C value(const C& fetched, int) { return fetched; }
};

// Whether a simplified view consists of packs of n contiguous elements at addresses that are
// multiples of `bytes`. A single axis may end within a pack.
inline bool lies_in_packs(const TensorView& view, int64_t n, size_t bytes) {
  const int last = view.rank() - 1;
  if (view.strides[last] != 1 || reinterpret_cast<uintptr_t>(view.data) % bytes != 0) return false;
  for (int axis = 0; axis < last; ++axis) {
    if (view.strides[axis] % n != 0) return false;
  }
  return last == 0 || view.shape[last] % n == 0;
}

// Most bytes per access.
inline constexpr size_t access_bytes = 16;

// Sixteen bytes, as an element type of copies.
struct alignas(access_bytes) Sixteen {
  uint64_t words[2];
};

// A view, for which lies_in_packs(n), in units of n elements.
inline TensorView in_units(TensorView view, int64_t n) {
  const int last = view.rank() - 1;
  for (int axis = 0; axis < last; ++axis) view.strides[axis] /= n;
  view.shape[last] /= n;
  return view;
}

}  // namespace binade::backend::cuda
