#pragma once

#include <bit>
#include <cstdint>

#include "binade/base/host_device.h"
#include "binade/formats/dynamic_code.h"

// The tables of the dynamic 8-bit code. Constant expressions, which a GPU's kernels have as well.
namespace binade::formats {

struct DynamicTable {
  float numbers[256] = {};  // ascending
  int zero = 0;             // the index of 0

  // Quotients from 2^-23 to 1 that share their exponent and 7 bits of their mantissa form a cell.
  // At most one midpoint of two numbers lies in a cell. Smaller quotients are nearest to zero.
  static constexpr int cell_shift = 16;
  static constexpr uint32_t first_cell = std::bit_cast<uint32_t>(0x1p-23f) >> cell_shift;
  static constexpr uint32_t cell_count =
      (std::bit_cast<uint32_t>(1.0f) >> cell_shift) - first_cell + 1;
  // Upper half: the number nearest to the cell's smallest quotient, counted from zero. Lower half:
  // what, added to the lower half of a quotient, carries into the upper one above the midpoint.
  uint32_t cells[cell_count] = {};
};

// The number nearest to a quotient in [0, 1], counted from zero. `cells`: a table's.
BINADE_HD inline uint32_t nearest_number(const uint32_t* cells, float quotient) {
  const auto bits = std::bit_cast<uint32_t>(quotient);
  const uint32_t cell = bits >> DynamicTable::cell_shift;
  const uint32_t entry =
      cells[cell < DynamicTable::first_cell ? 0 : cell - DynamicTable::first_cell];
  return (entry + (bits & 0xffff)) >> 16;
}

// The code of a value, given the number nearest to its quotient of magnitudes. A value above zero
// does not become zero if all are positive. The largest number has no negative counterpart.
template <DynamicSign Sign>
BINADE_HD inline uint8_t dynamic_code(float value, uint32_t nearest, uint32_t zero) {
  if constexpr (Sign == DynamicSign::positive) {
    return static_cast<uint8_t>(value > 0 ? (nearest > 0 ? nearest : 1) : 0);
  } else {
    const int32_t sign = static_cast<int32_t>(std::bit_cast<uint32_t>(value)) >> 31;  // 0 or -1
    const int32_t code =
        static_cast<int32_t>(zero) + ((static_cast<int32_t>(nearest) ^ sign) - sign);
    return static_cast<uint8_t>(code > 0 ? code : 0);
  }
}

namespace detail {

// Decade i holds the centers of 2^i (both signs) or 2^(i + 1) equal parts of 0.1 to 1, scaled.
constexpr void fill_numbers(DynamicTable& table, DynamicSign sign) {
  const bool is_signed = sign == DynamicSign::either;
  constexpr double powers[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
  table.zero = is_signed ? 127 : 0;
  int from_zero = 1;
  for (int i = 0; i < 7; ++i) {
    const int parts = 1 << (is_signed ? i : i + 1);
    for (int part = 0; part < parts; ++part, ++from_zero) {
      const auto center = static_cast<float>(0.1 + 0.9 * (part + 0.5) / parts);
      const auto number = static_cast<float>(powers[i] * center);
      table.numbers[table.zero + from_zero] = number;
      if (is_signed) table.numbers[table.zero - from_zero] = -number;
    }
  }
  table.numbers[255] = 1;
}

constexpr void fill_cells(DynamicTable& table) {
  const auto midpoint_bits = [&table](uint32_t number) {
    const float* at = table.numbers + table.zero + number;
    return at == table.numbers + 255 ? ~0u : std::bit_cast<uint32_t>((at[0] + at[1]) / 2);
  };
  uint32_t nearest = 0;
  for (uint32_t i = 0; i < DynamicTable::cell_count; ++i) {
    const uint32_t cell = DynamicTable::first_cell + i;
    const auto is_here = [&](uint32_t number) {
      return midpoint_bits(number) >> DynamicTable::cell_shift == cell;
    };
    while (cell << DynamicTable::cell_shift > midpoint_bits(nearest)) ++nearest;
    if (is_here(nearest) && is_here(nearest + 1))
      throw "two midpoints in a cell";  // at compile time
    table.cells[i] =
        nearest << 16 | (is_here(nearest) ? 0xffff - (midpoint_bits(nearest) & 0xffff) : 0);
  }
}

}  // namespace detail

constexpr DynamicTable make_dynamic_table(DynamicSign sign) {
  DynamicTable table;
  detail::fill_numbers(table, sign);
  detail::fill_cells(table);
  return table;
}

template <DynamicSign Sign>
inline constexpr DynamicTable dynamic_table = make_dynamic_table(Sign);

}  // namespace binade::formats
