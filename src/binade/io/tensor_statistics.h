#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>

// What the numbers in a file are like.
namespace binade::io {

struct Statistics {
  int64_t count = 0;
  int64_t zeros = 0;
  int64_t subnormals = 0;  // of their own format
  int64_t infinities = 0;
  int64_t nans = 0;
  // Of the finite values; 0 where there are none.
  double min = 0, max = 0, mean = 0, deviation = 0;
  // Of floating formats: how many finite values other than 0 lie in each binade, by exponent.
  std::map<int, int64_t> exponents;

  int64_t finite() const { return count - infinities - nans; }
  // Takes in the numbers of others.
  void add(const Statistics& other);
};

// Of `bytes` in a safetensors format ("BF16", "I64", ...). Reads them once, on all threads; the
// result does not depend on how many.
Statistics statistics_of(std::string_view format, std::span<const std::byte> bytes);

}  // namespace binade::io
