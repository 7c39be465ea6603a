#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>

// Statistics of the numbers in a file.
namespace binade::io {

struct Statistics {
  int64_t count = 0;
  int64_t zeros = 0;
  int64_t subnormals = 0;  // in the tensor's own format
  int64_t infinities = 0;
  int64_t nans = 0;
  // Of the finite values; 0 if there are none.
  double min = 0, max = 0, mean = 0, deviation = 0;
  // Of floating-point formats: the number of finite non-zero values by exponent.
  std::map<int, int64_t> exponents;

  int64_t finite() const { return count - infinities - nans; }
  // Merges the statistics of other values.
  void add(const Statistics& other);
};

// Statistics of `bytes` in a safetensors format ("BF16", "I64", ...). Reads them once, on all
// threads; the result does not depend on their number.
Statistics statistics_of(std::string_view format, std::span<const std::byte> bytes);

}  // namespace binade::io
