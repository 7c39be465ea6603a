#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "binade/formats/blocks/block_format.h"
#include "binade/tensor/dtype.h"

// Constants of GGUF files, version 3.
namespace binade::io::gguf {

inline constexpr const char* reader_name = "gguf";  // in messages

inline constexpr std::string_view magic = "GGUF";
inline constexpr uint32_t version = 3;
inline constexpr int64_t default_alignment = 32;
inline constexpr int64_t max_name = 63;  // bytes of a tensor's name
inline constexpr int64_t max_key_name = 65535;
inline constexpr int64_t max_dimensions = 4;
inline constexpr int64_t max_array = int64_t{1} << 30;
inline constexpr std::string_view alignment_key = "general.alignment";

enum class ValueType : uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64,
};
inline constexpr uint32_t value_types = 13;

// Bytes of a value; 0 for strings and arrays.
int64_t size_of(ValueType type);
std::string_view name_of(ValueType type);

// A type of tensors.
struct TensorType {
  int32_t number;
  std::string_view name;            // "F32", "Q4_0"
  int64_t elements = 1;             // of a block
  int64_t bytes = 0;                // of a block
  std::optional<DType> dtype = {};  // of a tensor with the same elements

  // Of blocks that Binade decodes; else null.
  const formats::BlockFormat* blocks() const { return formats::find_block_format(number); }
};

// Null for numbers that no type has.
const TensorType* find_tensor_type(int64_t number);
// By the name in any case. Null if there is none.
const TensorType* find_tensor_type(std::string_view name);

}  // namespace binade::io::gguf
