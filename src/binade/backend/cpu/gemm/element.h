#pragma once

#include <string>
#include <string_view>

#include "binade/backend/cpu/gemm/gemm.h"
#include "binade/base/error.h"
#include "binade/tensor/dtype.h"

namespace binade::backend::cpu {

// A tensor's type as gemm names it; fails for types it does not multiply.
inline Element element_of(std::string_view op, std::string_view argument, DType dtype) {
  switch (dtype) {
    case DType::f64:
      return Element::f64;
    case DType::f32:
      return Element::f32;
    case DType::f16:
      return Element::f16;
    case DType::bf16:
      return Element::bf16;
    case DType::e4m3:
      return Element::e4m3;
    case DType::e5m2:
      return Element::e5m2;
    default:
      fail(op, {.argument = std::string(argument),
                .expected = "a floating type",
                .found = std::string(name(dtype))});
  }
}

}  // namespace binade::backend::cpu
