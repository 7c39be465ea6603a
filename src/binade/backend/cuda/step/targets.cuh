#pragma once

#include <cstdint>

#include "binade/base/error.h"
#include "binade/tensor/tensor.h"

namespace binade::backend::cuda {

// Labels, i64 or i32.
struct Targets {
  const void* data;
  bool wide;  // i64

  __device__ int64_t operator[](int64_t row) const {
    return wide ? static_cast<const int64_t*>(data)[row] : static_cast<const int32_t*>(data)[row];
  }
};

inline Targets targets_of(const char* op, const TensorView& target) {
  if (target.dtype != DType::i64 && target.dtype != DType::i32) {
    fail(
        op,
        {.argument = "target", .expected = "i64 or i32", .found = std::string(name(target.dtype))});
  }
  return {target.data, target.dtype == DType::i64};
}

}  // namespace binade::backend::cuda
