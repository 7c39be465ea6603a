#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "backend/cpu/layouts.h"
#include "binade/backend/cpu/kernels.h"

namespace binade::backend::cpu_index_test {
namespace {

const IndexKernels& kernels() { return cpu::index_kernels; }

constexpr DType some_types[] = {DType::f64,  DType::f32, DType::f16, DType::bf16,
                                DType::e4m3, DType::i64, DType::i32, DType::u8};
constexpr DType summed_types[] = {DType::f64,  DType::f32, DType::f16,
                                  DType::bf16, DType::i64, DType::i32};

Values random_indices(int64_t n, int64_t limit, uint64_t seed) {
  Values values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(random::bits(seed, 5, i) % static_cast<uint64_t>(limit));
  }
  return values;
}

// Row-major place of element i of `shape` in a dense tensor of `other`, with another index along
// `axis`.
size_t place(int64_t i, const Shape& shape, int axis, int64_t index, const Shape& other) {
  const Strides strides = dense_strides(other);
  int64_t result = 0;
  for (int at = shape.rank() - 1; at >= 0; --at) {
    result += (at == axis ? index : i % shape[at]) * strides[at];
    i /= shape[at];
  }
  return static_cast<size_t>(result);
}

struct Case {
  Shape x;
  int axis;
  int64_t count;  // entries selected along the axis
};

const Case cases[] = {{{9}, 0, 30},         {{5, 7}, 0, 11},    {{5, 7}, 1, 3},
                      {{40, 300}, 0, 17},   {{40, 300}, 1, 90}, {{3, 6, 35}, 1, 10},
                      {{2, 3, 4, 5}, 2, 6}, {{1, 1}, 0, 1},     {{6, 4}, 0, 0}};

TEST(CpuIndex, GatherTakesByElement) {
  for (const Case& c : cases) {
    Shape selected = c.x;
    selected[c.axis] = c.count;
    const Values indices = random_indices(selected.numel(), c.x[c.axis], 1);
    for (const DType dtype : some_types) {
      for (const Arrangement arrangement : arrangements) {
        for (const DType index_type : {DType::i64, DType::i32}) {
          const Tensor x =
              make_arranged(c.x, dtype, arrangement, plain_numbers(dtype, c.x.numel(), 1));
          const Tensor index = make_arranged(selected, index_type, arrangement, indices);
          const Tensor y = arranged(selected, dtype, Arrangement::sliced);
          kernels().gather(x, c.axis, index, y);
          const Values source = values_of(x);
          Values expected(indices.size());
          for (size_t i = 0; i < expected.size(); ++i) {
            expected[i] = source[place(static_cast<int64_t>(i), selected, c.axis,
                                       static_cast<int64_t>(indices[i]), c.x)];
          }
          expect_equal(values_of(y), expected,
                       "gather " + to_string(c.x) + " " + std::string(name(dtype)) + " " +
                           to_string(arrangement));
        }
      }
    }
  }
}

TEST(CpuIndex, SelectTakesByEntry) {
  for (const Case& c : cases) {
    Shape selected = c.x;
    selected[c.axis] = c.count;
    const Values entries = random_indices(c.count, c.x[c.axis], 2);
    for (const DType dtype : some_types) {
      for (const Arrangement from : arrangements) {
        for (const Arrangement to : arrangements) {
          const Tensor x = make_arranged(c.x, dtype, from, plain_numbers(dtype, c.x.numel(), 1));
          const Tensor index = make_arranged({c.count}, DType::i32, from, entries);
          const Tensor y = arranged(selected, dtype, to);
          kernels().index_select(x, c.axis, index, y);
          const Values source = values_of(x);
          Values expected(static_cast<size_t>(selected.numel()));
          const int64_t step = dense_strides(selected)[c.axis];
          for (size_t i = 0; i < expected.size(); ++i) {
            const int64_t at = static_cast<int64_t>(i);
            const double entry = entries[static_cast<size_t>(at / step % c.count)];
            expected[i] = source[place(at, selected, c.axis, static_cast<int64_t>(entry), c.x)];
          }
          expect_equal(values_of(y), expected,
                       "index_select " + to_string(c.x) + " " + std::string(name(dtype)) + " " +
                           to_string(to));
        }
      }
    }
  }
}

// Sums of small halves are exact in f32 and, up to 2^11 halves, in f16; bf16 rounds once at the
// end.
double sum_bound(DType dtype, double expected) {
  return dtype == DType::bf16 || dtype == DType::f16 ? 0.5 * epsilon(dtype) * std::abs(expected)
                                                     : 0;
}

TEST(CpuIndex, AddsBackTheSelectedElements) {
  for (const Case& c : cases) {
    Shape selected = c.x;
    selected[c.axis] = c.count;
    const Values by_element = random_indices(selected.numel(), c.x[c.axis], 1),
                 by_entry = random_indices(c.count, c.x[c.axis], 2);
    for (const DType dtype : summed_types) {
      for (const DType from : {dtype, DType::f32}) {
        if (!is_floating(dtype) && is_floating(from)) continue;
        for (const Arrangement arrangement : arrangements) {
          const Tensor x =
              make_arranged(selected, from, arrangement, plain_numbers(from, selected.numel(), 3));
          const Values start = plain_numbers(dtype, c.x.numel(), 4), added = values_of(x);
          const Tensor by_elements = make_arranged(c.x, dtype, arrangement, start);
          const Tensor by_entries = make_arranged(c.x, dtype, arrangement, start);
          kernels().scatter_add(
              x, c.axis, make_arranged(selected, DType::i64, arrangement, by_element), by_elements);
          kernels().index_add(x, c.axis, make({c.count}, DType::i64, by_entry), by_entries);
          Values element_sums = start, entry_sums = start;
          const int64_t step = dense_strides(selected)[c.axis];
          for (size_t i = 0; i < added.size(); ++i) {
            const int64_t at = static_cast<int64_t>(i);
            const double entry = by_entry[static_cast<size_t>(at / step % c.count)];
            element_sums[place(at, selected, c.axis, static_cast<int64_t>(by_element[i]), c.x)] +=
                added[i];
            entry_sums[place(at, selected, c.axis, static_cast<int64_t>(entry), c.x)] += added[i];
          }
          Values element_bound(start.size()), entry_bound(start.size());
          for (size_t i = 0; i < start.size(); ++i) {
            element_bound[i] = sum_bound(dtype, element_sums[i]);
            entry_bound[i] = sum_bound(dtype, entry_sums[i]);
          }
          const std::string what =
              to_string(c.x) + " " + std::string(name(dtype)) + " " + to_string(arrangement);
          expect_within(values_of(by_elements), element_sums, element_bound, "scatter_add " + what);
          expect_within(values_of(by_entries), entry_sums, entry_bound, "index_add " + what);
        }
      }
    }
  }
}

TEST(CpuIndex, ScatterIntoALargerTensor) {
  const Tensor x = make({2, 3}, DType::f32, {1, 2, 3, 4, 5, 6}),
               index = make({2, 3}, DType::i64, {0, 0, 4, 1, 0, 4});
  const Tensor y = filled({5, 5}, DType::f32, 0);
  kernels().scatter_add(x, 0, index, y);
  Values expected(25, 0);
  expected[0] = 1;
  expected[1] = 7;
  expected[5] = 4;
  expected[22] = 9;
  EXPECT_EQ(read(y), expected);
}

TEST(CpuIndex, EqualIndicesSumInFloat) {
  // In bf16 256 + 1 is 256: a sum kept there would never grow.
  const Tensor x = filled({512, 3}, DType::bf16, 1), index = filled({512}, DType::i64, 1);
  const Tensor y = make({2, 3}, DType::bf16, {0, 0, 0, 256, 256, 256});
  kernels().index_add(x, 0, index, y);
  EXPECT_EQ(read(y), (Values{0, 0, 0, 768, 768, 768}));
  const Tensor wide = filled({512, 3}, DType::i64, 1),
               z = make({2, 3}, DType::bf16, {0, 0, 0, 256, 256, 256});
  kernels().scatter_add(x, 0, wide, z);
  EXPECT_EQ(read(z), read(y));
}

TEST(CpuIndex, Bounds) {
  const Tensor index =
      make_arranged({3, 40}, DType::i32, Arrangement::sliced, random_indices(120, 900, 7));
  const Values values = values_of(index);
  const Tensor bounds = Tensor::empty({2}, DType::i64);
  kernels().bounds(index, bounds);
  EXPECT_EQ(read(bounds)[0], *std::min_element(values.begin(), values.end()));
  EXPECT_EQ(read(bounds)[1], *std::max_element(values.begin(), values.end()));
  kernels().bounds(Tensor::empty({0}, DType::i64), bounds);
  EXPECT_EQ(read(bounds), (Values{0, -1}));
}

TEST(CpuIndex, RefusesOtherTypes) {
  const Tensor x = filled({4}, DType::f32, 1), y = filled({4}, DType::f32, 1);
  EXPECT_THROW(kernels().gather(x, 0, filled({4}, DType::f32, 0), y), Error);
  EXPECT_THROW(kernels().scatter_add(x, 0, filled({4}, DType::u8, 0), y), Error);
  EXPECT_THROW(kernels().gather(x, 0, filled({4}, DType::i64, 0), filled({4}, DType::f16, 1)),
               Error);
}

TEST(CpuIndex, ThreadsDoNotMatter) {
  const Tensor tokens = make({3000}, DType::i64, random_indices(3000, 500, 1));
  const Tensor x = noise({3000, 200}, DType::f32, 2);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    expect_threads_do_not_matter("index_add", [&] {
      const Tensor y = filled({500, 200}, dtype, 1);
      kernels().index_add(x, 0, tokens, y);
      return y;
    });
    expect_threads_do_not_matter("scatter_add along a line", [&] {
      const Tensor y = filled({700}, dtype, 1);
      kernels().scatter_add(x.strided({600000}, {1}, 0), 0,
                            make({600000}, DType::i64, random_indices(600000, 700, 3)), y);
      return y;
    });
  }
  expect_threads_do_not_matter("index_select", [&] {
    const Tensor y = Tensor::empty({3000, 200}, DType::f32);
    kernels().index_select(x, 0, tokens, y);
    return y;
  });
}

}  // namespace
}  // namespace binade::backend::cpu_index_test
