#include "binade/tensor/dtype.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "binade/formats/format.h"

namespace binade {
namespace {

constexpr std::array<std::string_view, 10> names = {"f64",  "f32", "f16", "bf16", "e4m3",
                                                    "e5m2", "i64", "i32", "u8",   "bool"};

constexpr std::pair<std::string_view, DType> aliases[] = {
    {"fp64", DType::f64},      {"float64", DType::f64},        {"double", DType::f64},
    {"fp32", DType::f32},      {"float32", DType::f32},        {"float", DType::f32},
    {"fp16", DType::f16},      {"float16", DType::f16},        {"half", DType::f16},
    {"bfloat16", DType::bf16}, {"float8_e4m3fn", DType::e4m3}, {"float8_e5m2", DType::e5m2},
    {"int64", DType::i64},     {"int32", DType::i32},          {"uint8", DType::u8},
};

}  // namespace

std::string_view name(DType dtype) { return names[static_cast<size_t>(dtype)]; }

DType parse_dtype(std::string_view text) {
  const auto known = std::find(names.begin(), names.end(), text);
  if (known != names.end()) return static_cast<DType>(known - names.begin());
  for (const auto& [alias, dtype] : aliases) {
    if (alias == text) return dtype;
  }
  fail("parse_dtype", {.argument = "dtype",
                       .expected = "f64 f32 f16 bf16 e4m3 e5m2 i64 i32 u8 bool",
                       .found = "'" + std::string(text) + "'"});
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  const bool fa = is_floating(a), fb = is_floating(b);
  if (fa != fb) return fa ? a : b;
  if (!fa) return std::min(a, b);  // the enum lists wider integers first
  const auto is_16_bit = [](DType t) { return t == DType::f16 || t == DType::bf16; };
  if (is_16_bit(a) && is_16_bit(b)) return DType::f32;
  if (is_quantized(a) && is_quantized(b)) return DType::f32;
  return std::min(a, b);
}

double epsilon(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x1p-52;
    case DType::f32:
      return formats::spec::f32.epsilon();
    case DType::f16:
      return formats::spec::f16.epsilon();
    case DType::bf16:
      return formats::spec::bf16.epsilon();
    case DType::e4m3:
      return formats::spec::e4m3.epsilon();
    case DType::e5m2:
      return formats::spec::e5m2.epsilon();
    default:
      fail("epsilon",
           {.argument = "dtype", .expected = "a floating type", .found = std::string(name(dtype))});
  }
}

}  // namespace binade
