#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/base/text.h"
#include "binade/io/gguf/file.h"

namespace binade::io::gguf {
namespace {

constexpr size_t shown_text = 60;

template <class T>
T value_at(std::span<const std::byte> data, size_t index) {
  T value;
  std::memcpy(&value, data.data() + index * sizeof value, sizeof value);
  return value;
}

bool is_integer_type(ValueType type) {
  switch (type) {
    case ValueType::f32:
    case ValueType::f64:
    case ValueType::boolean:
    case ValueType::string:
    case ValueType::array:
      return false;
    default:
      return true;
  }
}

}  // namespace

bool Key::is_integer() const { return is_integer_type(value_.type); }

int64_t Key::integer_at(ValueType type, size_t index) const {
  switch (type) {
    case ValueType::u8:
      return value_at<uint8_t>(value_.data, index);
    case ValueType::i8:
      return value_at<int8_t>(value_.data, index);
    case ValueType::u16:
      return value_at<uint16_t>(value_.data, index);
    case ValueType::i16:
      return value_at<int16_t>(value_.data, index);
    case ValueType::u32:
      return value_at<uint32_t>(value_.data, index);
    case ValueType::i32:
      return value_at<int32_t>(value_.data, index);
    case ValueType::i64:
      return value_at<int64_t>(value_.data, index);
    case ValueType::u64: {
      const auto value = value_at<uint64_t>(value_.data, index);
      if (value > INT64_MAX) refuse("a whole number below 2^63");
      return static_cast<int64_t>(value);
    }
    default:
      refuse("a whole number");
  }
}

double Key::number_at(ValueType type, size_t index) const {
  const double value = type == ValueType::f32   ? value_at<float>(value_.data, index)
                       : type == ValueType::f64 ? value_at<double>(value_.data, index)
                       : is_integer_type(type)  ? static_cast<double>(integer_at(type, index))
                                                : NAN;
  if (!std::isfinite(value)) refuse("a finite number");
  return value;
}

int64_t Key::integer(int64_t low, int64_t high) const {
  const std::string expected = fmt::format("a whole number from {} to {}", low, high);
  if (!is_integer()) refuse(expected);
  const int64_t value = integer_at(value_.type, 0);
  if (value < low || value > high) refuse(expected);
  return value;
}

double Key::number() const { return number_at(value_.type, 0); }

bool Key::flag() const {
  if (value_.type != ValueType::boolean) refuse("a bool");
  return value_.data[0] != std::byte{0};
}

std::string_view Key::text() const {
  if (value_.type != ValueType::string) refuse("a string");
  return {reinterpret_cast<const char*>(value_.data.data()), value_.data.size()};
}

std::vector<std::string_view> Key::texts() const {
  if (!is_array() || value_.element != ValueType::string) refuse("an array of strings");
  std::vector<std::string_view> result;
  const auto* at = reinterpret_cast<const char*>(value_.data.data());
  for (int64_t i = 0; i < value_.count; ++i) {  // the lengths were checked when the file was opened
    uint64_t length = 0;
    std::memcpy(&length, at, sizeof length);
    at += sizeof length;
    result.emplace_back(at, length);
    at += length;
  }
  return result;
}

std::vector<int64_t> Key::integers() const {
  if (!is_array() || !is_integer_type(value_.element)) refuse("an array of whole numbers");
  std::vector<int64_t> result;
  for (int64_t i = 0; i < value_.count; ++i)
    result.push_back(integer_at(value_.element, static_cast<size_t>(i)));
  return result;
}

std::vector<double> Key::numbers() const {
  if (!is_array()) refuse("an array of numbers");
  std::vector<double> result;
  for (int64_t i = 0; i < value_.count; ++i)
    result.push_back(number_at(value_.element, static_cast<size_t>(i)));
  return result;
}

std::string Key::describe() const {
  if (is_array()) return fmt::format("an array of {} {}", value_.count, name_of(value_.element));
  if (value_.type == ValueType::string) return json::in_quotes(shortened(text(), shown_text));
  if (value_.type == ValueType::boolean) return flag() ? "true" : "false";
  if (value_.type == ValueType::f32) return fmt::format("{}", value_at<float>(value_.data, 0));
  if (value_.type == ValueType::f64) return fmt::format("{}", value_at<double>(value_.data, 0));
  if (value_.type == ValueType::u64) return fmt::format("{}", value_at<uint64_t>(value_.data, 0));
  return fmt::format("{}", integer_at(value_.type, 0));
}

void Key::refuse(const std::string& expected, const std::string& hint) const {
  fail(reader_name,
       {.argument = fmt::format("{} at byte {} ({})", value_.file, value_.offset, name_),
        .expected = expected,
        .found = describe(),
        .hint = hint});
}

}  // namespace binade::io::gguf
