#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/values.h"
#include "binade/backend/cast.h"
#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cpu/rows/dense_rows.h"

// Every way of the CPU's kernels from one type to another gives what cast() does.
namespace binade::backend::cpu_cast_test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class From>
Tensor column(const std::vector<From>& values, int64_t stride) {
  const auto n = static_cast<int64_t>(values.size());
  const Tensor x = Tensor::empty({n * stride}, dtype_of<From>);
  for (int64_t i = 0; i < n; ++i)
    x.mutable_data<From>()[i * stride] = values[static_cast<size_t>(i)];
  return x.strided({n}, {stride}, 0);
}

template <class To>
std::vector<To> elements(const Tensor& x) {
  std::vector<To> result(static_cast<size_t>(x.numel()));
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = static_cast<const To*>(x.raw_data())[static_cast<int64_t>(i) * x.strides()[0]];
  return result;
}

// The values in type To by each way there is.
template <class To, class From>
std::vector<std::pair<const char*, std::vector<To>>> converted(const std::vector<From>& values) {
  const auto n = static_cast<int64_t>(values.size());
  std::vector<std::pair<const char*, std::vector<To>>> results(1);
  results[0].first = "cast";
  for (const From value : values) results[0].second.push_back(cast<To>(value));
  struct Copy {
    const char* what;
    int64_t from, to;  // strides
  };
  for (const auto& [what, from, to] :
       {Copy{"copy", 1, 1}, Copy{"copy from a view", 3, 1}, Copy{"copy into a view", 1, 2}}) {
    const Tensor y = column(std::vector<To>(values.size()), to);
    cpu::elementwise_kernels.copy(column(values, from), y);
    results.emplace_back(what, elements<To>(y));
  }
  if constexpr (std::is_floating_point_v<From>) {
    const Tensor y = Tensor::empty({n}, dtype_of<To>);
    cpu::store(values.data(), y, 0, n);
    results.emplace_back("store", elements<To>(y));
    // Alone: less than a vector's worth goes another way.
    for (int64_t i = 0; i < n; ++i) cpu::store(values.data() + i, y, i, 1);
    results.emplace_back("store of one", elements<To>(y));
  }
  return results;
}

// Between each two neighbours of T lies a middle that f64 holds; it goes to the even one of them,
// and the very next f64 on either side to the nearer. By way of f32 all three would be the middle.
template <class T>
void expect_one_rounding() {
  std::vector<double> values;
  std::vector<typename T::Bits> expected;
  const auto add = [&](double value, T result) {
    for (const double sign : {1.0, -1.0}) {
      values.push_back(sign * value);
      const uint32_t sign_bit = sign < 0 ? 1u << (8 * sizeof(T) - 1) : 0;
      expected.push_back(static_cast<typename T::Bits>(result.bits | sign_bit));
    }
  };
  const auto value_of = [](T code) { return static_cast<double>(static_cast<float>(code)); };
  T low = T::from_bits(0);
  while (true) {
    const T high = T::from_bits(static_cast<typename T::Bits>(low.bits + 1));
    if (!std::isfinite(static_cast<float>(high))) break;
    const double middle = (value_of(low) + value_of(high)) / 2;
    add(value_of(low), low);
    add(std::nextafter(middle, 0.0), low);
    add(middle, low.bits % 2 == 0 ? low : high);
    add(std::nextafter(middle, infinity), high);
    low = high;
  }
  // Past the largest number there is none to round to.
  const double step =
      value_of(low) - value_of(T::from_bits(static_cast<typename T::Bits>(low.bits - 1)));
  const double middle = value_of(low) + step / 2;
  add(std::nextafter(middle, 0.0), low);
  add(low.bits % 2 == 0 ? middle : std::nextafter(middle, 0.0), low);
  for (const double value : {std::nextafter(middle, infinity), 1e300, infinity})
    add(value, T(std::numeric_limits<float>::infinity()));
  for (const auto& [what, results] : converted<T>(values)) {
    SCOPED_TRACE(std::string(name(dtype_of<T>)) + " by " + what);
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(results[i].bits, expected[i]) << "of " << values[i];
  }
}

TEST(CpuCast, F64RoundsOnce) {
  expect_one_rounding<f16>();
  expect_one_rounding<bf16>();
  expect_one_rounding<e4m3>();
  expect_one_rounding<e5m2>();
}

TEST(CpuCast, ProductsRunInF64AndRoundOnce) {
  // 1 + 2^-11 is between two f16; the f64 next to it is no f32.
  const std::vector<double> factors = {1 + 0x1p-11, 1 + 0x1p-40};
  const Tensor y = Tensor::empty({2}, DType::f16);
  cpu::scan_kernels.cumprod(column(factors, 1), 0, y);
  EXPECT_EQ(elements<f16>(y)[0], f16(1.0f));
  EXPECT_EQ(elements<f16>(y)[1], f16(1 + 0x1p-10f));
}

template <class To, class From>
void expect_integers(const std::vector<std::pair<double, To>>& cases) {
  std::vector<From> values;
  for (const auto& [value, expected] : cases) values.push_back(cast<From>(value));
  for (const auto& [what, results] : converted<To>(values)) {
    SCOPED_TRACE(std::string(name(dtype_of<From>)) + " by " + what);
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(results[i], cases[i].second) << "of " << cases[i].first;
  }
}

// Ends of the type's range, and past them; all of them are f32 too.
template <class To>
std::vector<std::pair<double, To>> limits() {
  using Limits = std::numeric_limits<To>;
  const double past = std::ldexp(1.0, Limits::digits);
  const auto before = static_cast<double>(std::nextafter(static_cast<float>(past), 0.0f));
  const auto lowest = static_cast<double>(Limits::min());
  return {{0.0, To{0}},
          {-0.0, To{0}},
          {0.99, To{0}},
          {-0.99, To{0}},
          {1.5, To{1}},
          {100, To{100}},
          {before, static_cast<To>(before)},
          {past, Limits::max()},
          {past * 1.5, Limits::max()},
          {lowest, Limits::min()},
          {lowest - std::ldexp(1.0, 41), Limits::min()},
          {1e30, Limits::max()},
          {-1e30, Limits::min()},
          {infinity, Limits::max()},
          {-infinity, Limits::min()},
          {std::numeric_limits<double>::quiet_NaN(), To{0}}};
}

TEST(CpuCast, IntegersTakeTheWholePartSaturated) {
  expect_integers<int64_t, double>(limits<int64_t>());
  expect_integers<int64_t, float>(limits<int64_t>());
  expect_integers<int32_t, double>(limits<int32_t>());
  expect_integers<int32_t, float>(limits<int32_t>());
  expect_integers<uint8_t, double>(limits<uint8_t>());
  expect_integers<uint8_t, float>(limits<uint8_t>());
  // What f64 alone can say.
  expect_integers<int32_t, double>({{0x1p31 - 1, std::numeric_limits<int32_t>::max()},
                                    {0x1p31 - 0.5, std::numeric_limits<int32_t>::max()},
                                    {-0x1p31 - 0.5, std::numeric_limits<int32_t>::min()},
                                    {-0x1p31 + 0.5, std::numeric_limits<int32_t>::min() + 1}});
  expect_integers<uint8_t, float>({{254.99, 254}, {255.5, 255}, {256, 255}, {-1, 0}});
  expect_integers<int64_t, bf16>({{-2.5, -2}, {0x1p63, INT64_MAX}, {-0x1p63, INT64_MIN}});
  expect_integers<uint8_t, f16>({{65504, 255}, {-7, 0}, {infinity, 255}});
}

TEST(CpuCast, IntegersRoundOnceToSmallFloats) {
  // Middles of two f16 and of two bf16, one more and one less; past 2^53 f64 could not tell them.
  const std::vector<int64_t> values = {2049, 2051, (1 << 12) + 2, (1 << 12) + 1, (1 << 12) + 3};
  const std::vector<float> expected = {2048, 2052, 4096, 4096, 4100};
  for (const auto& [what, results] : converted<f16>(values)) {
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(results[i], f16(expected[i])) << what;
  }
  const int64_t one = int64_t{1} << 62, middle = one + (one >> 8);
  const std::vector<int64_t> large = {middle - 1, middle, middle + 1, -middle - 1};
  const std::vector<float> near = {0x1p62f, 0x1p62f, 0x1p62f + 0x1p55f, -0x1p62f - 0x1p55f};
  for (const auto& [what, results] : converted<bf16>(large)) {
    for (size_t i = 0; i < large.size(); ++i) EXPECT_EQ(results[i], bf16(near[i])) << what;
  }
}

}  // namespace
}  // namespace binade::backend::cpu_cast_test
