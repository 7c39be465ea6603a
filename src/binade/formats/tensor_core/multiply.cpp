#include <algorithm>
#include <cmath>
#include <vector>

#include "binade/base/division.h"
#include "binade/base/parallel.h"
#include "binade/formats/tensor_core/summand.h"
#include "binade/formats/tensor_core/tensor_core.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/formats/tensor_core/multiply.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

// The fast form of a matmul: the sums of several columns side by side in the lanes of vectors.

#ifndef BINADE_FORMATS_TENSOR_CORE_MULTIPLY_ONCE
#define BINADE_FORMATS_TENSOR_CORE_MULTIPLY_ONCE
namespace binade::formats::tensor_core {
namespace {

constexpr int64_t strip_columns = 16;        // a multiple of any instruction set's lanes
constexpr int64_t products_in_32_bits = 16;  // each below 2^2 x 2^25

// What every sum of a matmul has in common.
struct SumShape {
  int products, fraction_bits, kept_bits;
  int product_shift;  // from the fraction of a product to fraction_bits
  int32_t least_exponent, zero_exponent;
  int32_t least_exponent_of_c;  // of its format
  Accumulator accumulator;
};

// A part of a row of a, and of a strip of b, whose elements of one k are contiguous.
struct ChainOperands {
  const int32_t* a_significands;
  const int32_t* a_exponents;
  const int32_t* b_significands;
  const int32_t* b_exponents;
  int64_t count;
};

// The results of a strip so far, and whether one was infinite or NaN on the way.
struct StripResults {
  alignas(64) float values[strip_columns] = {};
  bool is_special[strip_columns] = {};

  void note_special() {
    for (int64_t j = 0; j < strip_columns; ++j)
      is_special[j] = is_special[j] || !std::isfinite(values[j]);
  }
};

// One sum of each column: its summands in units of 2^(largest - fraction_bits).
struct StripSums {
  alignas(64) int32_t largest[strip_columns];
  alignas(64) int32_t c[strip_columns];
  alignas(64) int32_t products[2][strip_columns];  // of at most products_in_32_bits each
};

}  // namespace
}  // namespace binade::formats::tensor_core
#endif

HWY_BEFORE_NAMESPACE();
namespace binade::formats::tensor_core {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Int = hn::CappedTag<int32_t, strip_columns>;
using Unsigned = hn::RebindToUnsigned<Int>;

// values x 2^(left - right), cut toward zero. Shifts by more than 31 leave nothing.
HWY_INLINE hn::Vec<Int> cut(hn::Vec<Int> values, int left, hn::Vec<Int> right) {
  const Int d;
  const Unsigned du;
  const auto sign = hn::ShiftRight<31>(values);
  const auto magnitude = hn::BitCast(du, hn::Sub(hn::Xor(values, sign), sign));
  const auto shift = hn::BitCast(du, hn::Min(right, hn::Set(d, 31)));
  const auto kept = hn::BitCast(d, hn::Shr(hn::ShiftLeftSame(magnitude, left), shift));
  return hn::Sub(hn::Xor(kept, sign), sign);
}

// split_accumulator() in every lane.
HWY_INLINE void split_lanes(const SumShape& shape, const float* values, hn::Vec<Int>& significand,
                            hn::Vec<Int>& exponent) {
  const Int d;
  const auto bits = hn::BitCast(d, hn::Load(hn::Rebind<float, Int>(), values));
  const auto magnitude = hn::And(bits, hn::Set(d, 0x7fffffff));
  const auto field = hn::ShiftRight<23>(magnitude);
  const auto fraction = hn::And(bits, hn::Set(d, 0x7fffff));
  const auto is_subnormal = hn::Eq(field, hn::Zero(d));
  auto whole = hn::IfThenElse(is_subnormal, fraction, hn::Or(fraction, hn::Set(d, 0x800000)));
  exponent = hn::Sub(hn::Max(field, hn::Set(d, 1)), hn::Set(d, 127));
  const auto kept = hn::Max(exponent, hn::Set(d, shape.least_exponent_of_c));
  whole = cut(whole, 0, hn::Sub(kept, exponent));
  exponent = hn::IfThenElse(hn::Eq(magnitude, hn::Zero(d)), hn::Set(d, shape.zero_exponent), kept);
  const auto sign = hn::ShiftRight<31>(bits);
  significand = hn::Sub(hn::Xor(whole, sign), sign);
}

// Aligns the summands of one sum and adds up the products.
void add_products(const SumShape& shape, const ChainOperands& x, const float* c, StripSums& sums) {
  const Int d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < strip_columns; j += lanes) {
    auto significand = hn::Zero(d), c_exponent = hn::Zero(d);
    split_lanes(shape, c + j, significand, c_exponent);
    auto largest = hn::Max(c_exponent, hn::Set(d, shape.least_exponent));
    for (int64_t k = 0; k < x.count; ++k) {
      const auto b = hn::Load(d, x.b_exponents + k * strip_columns + j);
      largest = hn::Max(largest, hn::Add(b, hn::Set(d, x.a_exponents[k])));
    }
    hn::Store(largest, d, sums.largest + j);
    const int left = shape.fraction_bits - spec::f32.mantissa_bits;
    const auto right = hn::Add(hn::Sub(largest, c_exponent), hn::Set(d, std::max(-left, 0)));
    hn::Store(cut(significand, std::max(left, 0), right), d, sums.c + j);
    for (int64_t half = 0; half < 2; ++half) {
      auto sum = hn::Zero(d);
      const int64_t begin = half * products_in_32_bits;
      for (int64_t k = begin; k < std::min(begin + products_in_32_bits, x.count); ++k) {
        const auto exponent = hn::Add(hn::Load(d, x.b_exponents + k * strip_columns + j),
                                      hn::Set(d, x.a_exponents[k]));
        const auto product = hn::Mul(hn::Load(d, x.b_significands + k * strip_columns + j),
                                     hn::Set(d, x.a_significands[k]));
        sum = hn::Add(sum, cut(product, shape.product_shift, hn::Sub(largest, exponent)));
      }
      hn::Store(sum, d, sums.products[half] + j);
    }
  }
}

// round_sum() of every column. Sums are exact in double.
void round_sums(const SumShape& shape, const StripSums& sums, float* results) {
  const hn::CappedTag<double, strip_columns> dd;
  const hn::Rebind<int64_t, decltype(dd)> d64;
  const hn::Rebind<int32_t, decltype(dd)> d32;
  const hn::Rebind<float, decltype(dd)> df;
  const auto dropped = hn::Set(d64, (int64_t{1} << (52 - shape.kept_bits)) - 1);
  for (int64_t j = 0; j < strip_columns; j += static_cast<int64_t>(hn::Lanes(dd))) {
    const auto wide = [&](const int32_t* x)
                          HWY_ATTR { return hn::PromoteTo(dd, hn::Load(d32, x + j)); };
    const auto sum = hn::Add(hn::Add(wide(sums.products[0]), wide(sums.products[1])), wide(sums.c));
    const auto exponent = hn::Add(hn::PromoteTo(d64, hn::Load(d32, sums.largest + j)),
                                  hn::Set(d64, 1023 - shape.fraction_bits));
    const auto exact = hn::Mul(sum, hn::BitCast(dd, hn::ShiftLeft<52>(exponent)));
    const auto is_plain = hn::Or(hn::Ge(hn::Abs(exact), hn::Set(dd, spec::f32.min_normal())),
                                 hn::Eq(exact, hn::Zero(dd)));
    if (shape.accumulator == Accumulator::f32 && hn::AllTrue(dd, is_plain)) {
      const auto kept = hn::BitCast(dd, hn::AndNot(dropped, hn::BitCast(d64, exact)));
      hn::Store(hn::DemoteTo(df, kept), df, results + j);
      continue;
    }
    for (int64_t i = j; i < j + static_cast<int64_t>(hn::Lanes(dd)); ++i)
      results[i] =
          round_sum(int64_t{sums.products[0][i]} + sums.products[1][i] + sums.c[i],
                    sums.largest[i] - shape.fraction_bits, shape.kept_bits, shape.accumulator);
  }
}

// Adds the products to the results, as many at a time as the instruction does.
void chain(const SumShape& shape, const ChainOperands& x, StripResults& results) {
  StripSums sums;
  for (int64_t k = 0; k < x.count; k += shape.products) {
    const int64_t in_b = k * strip_columns;
    add_products(shape,
                 {x.a_significands + k, x.a_exponents + k, x.b_significands + in_b,
                  x.b_exponents + in_b, std::min<int64_t>(shape.products, x.count - k)},
                 results.values, sums);
    round_sums(shape, sums, results.values);
    results.note_special();
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace binade::formats::tensor_core
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::formats::tensor_core {
namespace {

HWY_EXPORT(chain);

// A matrix of factors, split. Rows with infinities or NaNs are computed by dot().
struct SplitRows {
  std::vector<int32_t> significands, exponents;
  std::vector<char> is_special;  // by row
};

struct RowsView {
  const float* data;
  int64_t rows, depth;
  const Format& format;
};

// Element (r, k) is at (r / block) * block * depth + k * block + r % block: blocks of 1 are rows,
// blocks of strip_columns are strips. Missing rows of the last strip are zeros.
SplitRows split_rows(const RowsView& x, int64_t block, ZeroSummands zeros) {
  const int64_t blocks = divide_up(x.rows, block);
  SplitRows split;
  split.significands.assign(static_cast<size_t>(blocks * block * x.depth), 0);
  split.exponents.assign(split.significands.size(), exponent_of_zero(zeros));
  split.is_special.assign(static_cast<size_t>(x.rows), 0);
  parallel_for(x.rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t first = r / block * block * x.depth + r % block;
      for (int64_t k = 0; k < x.depth; ++k) {
        const float value = operand(x.data[r * x.depth + k], x.format);
        if (!std::isfinite(value)) split.is_special[static_cast<size_t>(r)] = 1;
        const Summand one = split_factor(value, x.format, zeros);
        const auto at = static_cast<size_t>(first + k * block);
        split.significands[at] = one.significand;
        split.exponents[at] = one.exponent;
      }
    }
  });
  return split;
}

class StripMultiplier {
 public:
  StripMultiplier(const TensorCore& core, const Matmul& matmul)
      : core_(core),
        matmul_(matmul),
        shape_{.products = core.unit().products,
               .fraction_bits = core.unit().fraction_bits,
               .kept_bits = core.unit().kept_bits,
               .product_shift = core.unit().fraction_bits - core.options().a->mantissa_bits -
                                core.options().b->mantissa_bits,
               .least_exponent = least_exponent(core.unit(), core.options()),
               .zero_exponent = exponent_of_zero(core.options().zeros),
               .least_exponent_of_c = least_exponent_of_c(core.options().accumulator),
               .accumulator = core.options().accumulator},
        a_(split_rows({matmul.a, matmul.m, matmul.k, *core.options().a}, 1, core.options().zeros)),
        b_(split_rows({matmul.b, matmul.n, matmul.k, *core.options().b}, strip_columns,
                      core.options().zeros)) {}

  int64_t strips() const { return divide_up(matmul_.n, strip_columns); }

  // The results of one row in one strip.
  void multiply(int64_t row, int64_t strip) const {
    const int64_t first = strip * strip_columns;
    const int64_t columns = std::min(strip_columns, matmul_.n - first);
    StripResults results;
    for (int64_t j = 0; j < columns && matmul_.c != nullptr; ++j)
      results.values[j] = matmul_.c[row * matmul_.n + first + j];
    results.note_special();
    accumulate(row, strip, results);
    for (int64_t j = 0; j < columns; ++j) {
      const bool is_special = a_.is_special[static_cast<size_t>(row)] != 0 ||
                              b_.is_special[static_cast<size_t>(first + j)] != 0 ||
                              results.is_special[j];
      matmul_.d[row * matmul_.n + first + j] =
          is_special ? by_definition(row, first + j) : results.values[j];
    }
  }

 private:
  struct Range {
    int64_t begin, end;
  };

  void accumulate(int64_t row, int64_t strip, StripResults& results) const {
    const int64_t block = core_.options().promote_every;
    if (block == 0) return chain(row, strip, {0, matmul_.k}, results);
    for (int64_t k = 0; k < matmul_.k; k += block) {
      StripResults part;
      chain(row, strip, {k, std::min(k + block, matmul_.k)}, part);
      for (int64_t j = 0; j < strip_columns; ++j) {
        results.values[j] += part.values[j];
        results.is_special[j] = results.is_special[j] || part.is_special[j];
      }
      results.note_special();
    }
  }

  void chain(int64_t row, int64_t strip, Range range, StripResults& results) const {
    const int64_t in_a = row * matmul_.k + range.begin;
    const int64_t in_b = (strip * matmul_.k + range.begin) * strip_columns;
    HWY_DYNAMIC_DISPATCH(chain)
    (shape_,
     {a_.significands.data() + in_a, a_.exponents.data() + in_a, b_.significands.data() + in_b,
      b_.exponents.data() + in_b, range.end - range.begin},
     results);
  }

  float by_definition(int64_t row, int64_t column) const {
    const auto k = static_cast<size_t>(matmul_.k);
    const float c = matmul_.c != nullptr ? matmul_.c[row * matmul_.n + column] : 0.0f;
    return core_.dot({matmul_.a + row * matmul_.k, k}, {matmul_.b + column * matmul_.k, k}, c);
  }

  const TensorCore& core_;
  const Matmul& matmul_;
  SumShape shape_;
  SplitRows a_, b_;
};

}  // namespace

void TensorCore::multiply(const Matmul& matmul) const {
  const StripMultiplier multiplier(*this, matmul);
  const int64_t strips = multiplier.strips();
  // Rows of one strip follow one another: the strip stays in the cache.
  parallel_for(strips * matmul.m, 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) multiplier.multiply(i % matmul.m, i / matmul.m);
  });
}

}  // namespace binade::formats::tensor_core
#endif
