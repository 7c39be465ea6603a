#include "binade/io/tensor_statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "binade/base/division.h"
#include "binade/base/error.h"
#include "binade/base/parallel.h"
#include "binade/formats/convert.h"

namespace binade::io {
namespace {

constexpr size_t block = 2048;               // elements decoded at a time: they fit the L1 cache
constexpr int64_t chunk = int64_t{1} << 20;  // elements of one work item
constexpr size_t lanes = 8;                  // independent sums, whose additions overlap
constexpr uint32_t f32_infinity = 0x7f800000;

// Mean and squared deviation of `count` values, and their range.
struct Moments {
  int64_t count = 0;
  double min = 0, max = 0, mean = 0, squares = 0;

  void add(const Moments& other) {
    if (other.count == 0) return;
    min = count == 0 ? other.min : std::min(min, other.min);
    max = count == 0 ? other.max : std::max(max, other.max);
    // Chan's parallel form of Welford's update.
    const auto n = static_cast<double>(count), m = static_cast<double>(other.count);
    const double difference = other.mean - mean, all = n + m;
    mean += difference * (m / all);
    squares += other.squares + difference * difference * (n * m / all);
    count += other.count;
  }
};

template <class T>
Moments moments_of(const T* values, size_t n) {
  if (n == 0) return {};
  std::array<double, lanes> sums{}, squares{};
  std::array<T, lanes> low, high;
  low.fill(values[0]);
  high.fill(values[0]);
  const auto each = [n](auto&& f) {
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      for (size_t lane = 0; lane < lanes; ++lane) f(i + lane, lane);
    }
    for (; i < n; ++i) f(i, 0);
  };
  each([&](size_t i, size_t lane) {
    sums[lane] += static_cast<double>(values[i]);
    low[lane] = std::min(low[lane], values[i]);
    high[lane] = std::max(high[lane], values[i]);
  });
  double sum = 0, square = 0;
  for (const double lane : sums) sum += lane;
  const double mean = sum / static_cast<double>(n);
  each([&](size_t i, size_t lane) {
    const double deviation = static_cast<double>(values[i]) - mean;
    squares[lane] += deviation * deviation;
  });
  for (const double lane : squares) square += lane;
  return {static_cast<int64_t>(n), static_cast<double>(*std::min_element(low.begin(), low.end())),
          static_cast<double>(*std::max_element(high.begin(), high.end())), mean, square};
}

// The statistics of one work item.
struct Partial {
  Statistics counts;  // counts and exponents only
  Moments moments;

  void add(const Partial& other) {
    counts.add(other.counts);
    moments.add(other.moments);
  }
};

// Counts exponents, zeros, subnormals and non-finite values. `normal` is the format's smallest
// normal.
void count_bits(const float* values, size_t n, float normal, Statistics& result) {
  std::array<std::array<uint32_t, 256>, 4> fields{};  // four, so that equal neighbors do not wait
  uint32_t zeros = 0, small = 0, nans = 0;
  const uint32_t normal_bits = formats::float_bits(normal);
  for (size_t i = 0; i < n; ++i) {
    const uint32_t magnitude = formats::float_bits(values[i]) & 0x7fffffff;
    ++fields[i % 4][magnitude >> 23];
    zeros += magnitude == 0 ? 1 : 0;
    small += magnitude < normal_bits ? 1 : 0;
    nans += magnitude > f32_infinity ? 1 : 0;
  }
  const auto field = [&fields](size_t e) {
    return fields[0][e] + fields[1][e] + fields[2][e] + fields[3][e];
  };
  result.zeros += zeros;
  result.subnormals += small - zeros;
  result.nans += nans;
  result.infinities += field(255) - nans;
  for (size_t e = 1; e < 255; ++e) {
    if (const uint32_t count = field(e); count > 0)
      result.exponents[static_cast<int>(e) - 127] += count;
  }
  if (field(0) == zeros) return;
  for (size_t i = 0; i < n; ++i) {
    if (values[i] != 0 && std::fpclassify(values[i]) == FP_SUBNORMAL)
      ++result.exponents[std::ilogb(values[i])];
  }
}

void count_bits(const double* values, size_t n, double normal, Statistics& result) {
  for (size_t i = 0; i < n; ++i) {
    const double value = values[i];
    result.zeros += value == 0 ? 1 : 0;
    result.subnormals += value != 0 && std::abs(value) < normal ? 1 : 0;
    result.nans += std::isnan(value) ? 1 : 0;
    result.infinities += std::isinf(value) ? 1 : 0;
    if (value != 0 && std::isfinite(value)) ++result.exponents[std::ilogb(value)];
  }
}

// Adds one block of floats or doubles; removes the non-finite ones from `values`.
template <class T>
void take_floating(T* values, size_t n, T normal, Partial& partial) {
  Statistics& counts = partial.counts;
  const int64_t before = counts.infinities + counts.nans;
  count_bits(values, n, normal, counts);
  counts.count += static_cast<int64_t>(n);
  if (counts.infinities + counts.nans > before)
    n = static_cast<size_t>(
        std::remove_if(values, values + n, [](T x) { return !std::isfinite(x); }) - values);
  partial.moments.add(moments_of(values, n));
}

template <class T>
struct Floating {
  using Element = T;
  static void take(const T* raw, size_t n, Partial& partial) {
    if constexpr (std::is_same_v<T, double>) {
      std::array<double, block> values;
      std::copy(raw, raw + n, values.begin());
      take_floating(values.data(), n, formats::spec::f64.min_normal(), partial);
    } else {
      std::array<float, block> values;
      if constexpr (std::is_same_v<T, float>) {
        std::copy(raw, raw + n, values.begin());
      } else {
        formats::widen(raw, values.data(), n);
      }
      take_floating(values.data(), n, static_cast<float>(formats::format_of<T>.min_normal()),
                    partial);
    }
  }
};

template <class T>
struct Whole {
  using Element = T;
  static void take(const T* raw, size_t n, Partial& partial) {
    std::array<double, block> values;
    for (size_t i = 0; i < n; ++i) values[i] = static_cast<double>(raw[i]);
    partial.counts.zeros += std::count(raw, raw + n, T{0});
    partial.counts.count += static_cast<int64_t>(n);
    partial.moments.add(moments_of(values.data(), n));
  }
};

template <class Kind>
Statistics gathered(std::span<const std::byte> bytes) {
  using T = typename Kind::Element;
  const auto count = static_cast<int64_t>(bytes.size() / sizeof(T));
  const int64_t chunks = divide_up(count, chunk);
  std::vector<Partial> partials(static_cast<size_t>(chunks));
  parallel_for(chunks, 1, [&](int64_t first, int64_t last) {
    std::array<T, block> raw;  // a file's data need not be aligned
    for (int64_t i = first * chunk; i < std::min(last * chunk, count);) {
      const int64_t n = std::min({static_cast<int64_t>(block), count - i, chunk - i % chunk});
      std::memcpy(raw.data(), bytes.data() + static_cast<size_t>(i) * sizeof(T),
                  static_cast<size_t>(n) * sizeof(T));
      Kind::take(raw.data(), static_cast<size_t>(n), partials[static_cast<size_t>(i / chunk)]);
      i += n;
    }
  });
  Partial all;
  for (const Partial& partial : partials) all.add(partial);
  Statistics result = all.counts;
  const Moments& m = all.moments;
  result.min = m.min;
  result.max = m.max;
  result.mean = m.mean;
  result.deviation = m.count > 0 ? std::sqrt(m.squares / static_cast<double>(m.count)) : 0;
  return result;
}

struct Reader {
  std::string_view format;
  Statistics (*read)(std::span<const std::byte> bytes);
};

constexpr Reader readers[] = {
    {"F64", gathered<Floating<double>>},   {"F32", gathered<Floating<float>>},
    {"F16", gathered<Floating<f16>>},      {"BF16", gathered<Floating<bf16>>},
    {"F8_E4M3", gathered<Floating<e4m3>>}, {"F8_E5M2", gathered<Floating<e5m2>>},
    {"F8_E8M0", gathered<Floating<e8m0>>}, {"I8", gathered<Whole<int8_t>>},
    {"I16", gathered<Whole<int16_t>>},     {"I32", gathered<Whole<int32_t>>},
    {"I64", gathered<Whole<int64_t>>},     {"U8", gathered<Whole<uint8_t>>},
    {"U16", gathered<Whole<uint16_t>>},    {"U32", gathered<Whole<uint32_t>>},
    {"U64", gathered<Whole<uint64_t>>},    {"BOOL", gathered<Whole<uint8_t>>},
};

}  // namespace

void Statistics::add(const Statistics& other) {
  Moments all{finite(), min, max, mean, deviation * deviation * static_cast<double>(finite())};
  all.add({other.finite(), other.min, other.max, other.mean,
           other.deviation * other.deviation * static_cast<double>(other.finite())});
  count += other.count;
  zeros += other.zeros;
  subnormals += other.subnormals;
  infinities += other.infinities;
  nans += other.nans;
  min = all.min;
  max = all.max;
  mean = all.mean;
  deviation = all.count > 0 ? std::sqrt(all.squares / static_cast<double>(all.count)) : 0;
  for (const auto& [exponent, number] : other.exponents) exponents[exponent] += number;
}

Statistics statistics_of(std::string_view format, std::span<const std::byte> bytes) {
  for (const Reader& reader : readers) {
    if (reader.format == format) return reader.read(bytes);
  }
  fail("statistics", {.argument = "format",
                      .expected = "one of safetensors' formats",
                      .found = std::string(format)});
}

}  // namespace binade::io
