#include "binade/io/gguf/format.h"

#include <algorithm>
#include <cctype>

namespace binade::io::gguf {
namespace {

constexpr TensorType tensor_types[] = {
    {0, "F32", 1, 4, DType::f32},
    {1, "F16", 1, 2, DType::f16},
    {2, "Q4_0", 32, 18},
    {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},
    {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},
    {9, "Q8_1", 32, 36},
    {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},
    {12, "Q4_K", 256, 144},
    {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},
    {15, "Q8_K", 256, 292},
    {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98},
    {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},
    {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136},
    {24, "I8", 1, 1},
    {25, "I16", 1, 2},
    {26, "I32", 1, 4, DType::i32},
    {27, "I64", 1, 8, DType::i64},
    {28, "F64", 1, 8, DType::f64},
    {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2, DType::bf16},
    {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},
    {39, "MXFP4", 32, 17},
    {40, "NVFP4", 64, 36},
    {41, "Q1_0", 128, 18},
    {42, "Q2_0", 64, 18},
};

struct ValueFacts {
  std::string_view name;
  int64_t bytes;
};

// In the order of ValueType.
constexpr ValueFacts values[value_types] = {
    {"u8", 1},   {"i8", 1},     {"u16", 2},   {"i16", 2}, {"u32", 4}, {"i32", 4}, {"f32", 4},
    {"bool", 1}, {"string", 0}, {"array", 0}, {"u64", 8}, {"i64", 8}, {"f64", 8}};

bool equal_but_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

template <class Matches>
const TensorType* find_type(const Matches& matches) {
  const auto* found = std::find_if(std::begin(tensor_types), std::end(tensor_types), matches);
  return found == std::end(tensor_types) ? nullptr : found;
}

}  // namespace

int64_t size_of(ValueType type) { return values[static_cast<size_t>(type)].bytes; }

std::string_view name_of(ValueType type) { return values[static_cast<size_t>(type)].name; }

const TensorType* find_tensor_type(int64_t number) {
  return find_type([&](const TensorType& type) { return type.number == number; });
}

const TensorType* find_tensor_type(std::string_view name) {
  return find_type([&](const TensorType& type) { return equal_but_case(type.name, name); });
}

}  // namespace binade::io::gguf
