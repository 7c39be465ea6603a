#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/layouts.h"
#include "binade/backend/cpu/kernels.h"

namespace binade::backend::cpu_reduce_test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

const ReduceKernels& kernels() { return cpu::reduce_kernels; }

constexpr Reduction all_reductions[] = {Reduction::sum, Reduction::mean, Reduction::prod,
                                        Reduction::max, Reduction::min};

// `shape` with 1 in the axes whose bit is set.
Shape reduced_shape(Shape shape, unsigned axes) {
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if ((axes >> axis & 1) != 0) shape[axis] = 1;
  }
  return shape;
}

// For every element of x in row-major order, the element of the reduced tensor it belongs to.
std::vector<size_t> owners(const Shape& shape, const Shape& reduced) {
  std::vector<size_t> result(static_cast<size_t>(shape.numel()));
  const Strides strides = dense_strides(reduced);
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i), place = 0;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      if (reduced[axis] != 1) place += rest % shape[axis] * strides[axis];
      rest /= shape[axis];
    }
    result[i] = static_cast<size_t>(place);
  }
  return result;
}

struct Reference {
  Values value;
  Values magnitude;  // sum of |x|, which bounds rounding errors
};

Reference reference(Reduction op, const Values& x, const Shape& shape, const Shape& reduced) {
  const double start[] = {0, 0, 1, -infinity, infinity};
  const size_t results = static_cast<size_t>(reduced.numel());
  Reference r{Values(results, start[static_cast<size_t>(op)]), Values(results, 0)};
  const std::vector<size_t> owner = owners(shape, reduced);
  for (size_t i = 0; i < x.size(); ++i) {
    double& y = r.value[owner[i]];
    r.magnitude[owner[i]] += std::abs(x[i]);
    switch (op) {
      case Reduction::sum:
      case Reduction::mean:
        y += x[i];
        break;
      case Reduction::prod:
        y *= x[i];
        break;
      case Reduction::max:
        y = x[i] != x[i] || y != y ? nan : std::max(y, x[i]);
        break;
      case Reduction::min:
        y = x[i] != x[i] || y != y ? nan : std::min(y, x[i]);
        break;
    }
  }
  const double count = static_cast<double>(x.size()) / static_cast<double>(results);
  for (size_t i = 0; op == Reduction::mean && i < results; ++i) {
    r.value[i] /= count;
    r.magnitude[i] /= count;
  }
  return r;
}

const Shape shapes[] = {{1}, {7}, {3, 5}, {2, 3, 35}, {33, 65}, {130, 3}, {3, 1100}, {2, 1, 5, 9}};

TEST(CpuReduce, EveryOpTypeLayoutAndSetOfAxes) {
  for (const Shape& shape : shapes) {
    for (const DType dtype : compute_types) {
      // Numbers near 1, so that products stay in range.
      Values numbers(static_cast<size_t>(shape.numel()));
      for (size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] =
            (random::bits(3, 1, i) % 2 == 0 ? 1 : -1) * (1 + 0.01 * random::normal(3, 2, i));
      }
      for (const Arrangement arrangement : arrangements) {
        const Tensor x = make_arranged(shape, dtype, arrangement, numbers);
        for (unsigned axes = 0; axes < 1u << shape.rank(); ++axes) {
          const Shape reduced = reduced_shape(shape, axes);
          const double count =
              static_cast<double>(shape.numel()) / static_cast<double>(reduced.numel());
          for (const Reduction op : all_reductions) {
            const Tensor y = arranged(reduced, dtype, arrangement);
            kernels().reduce(op, x, {y});
            const Reference expected = reference(op, values_of(x), shape, reduced);
            Values bound(expected.value.size());
            for (size_t i = 0; i < bound.size(); ++i) {
              const double scale = op == Reduction::prod ? count * std::abs(expected.value[i])
                                                         : expected.magnitude[i];
              // 160 additions in a row at most; longer sums are trees.
              bound[i] = std::min(count, 160.0) * sum_epsilon(dtype) * scale +
                         1.01 * storage_error(dtype, expected.value[i]);
            }
            expect_within(values_of(y), expected.value, bound,
                          std::string(name(dtype)) + " " + to_string(shape) + " " +
                              to_string(arrangement) + " axes " + std::to_string(axes) + " op " +
                              std::to_string(static_cast<int>(op)));
          }
        }
      }
    }
  }
}

TEST(CpuReduce, IntegersAreExact) {
  const Shape shape{40, 37};
  for (const DType dtype : {DType::i64, DType::i32, DType::u8, DType::boolean}) {
    const Tensor x = make(shape, dtype, plain_numbers(dtype, shape.numel(), 1));
    for (const unsigned axes : {1u, 2u, 3u}) {
      const Shape reduced = reduced_shape(shape, axes);
      for (const Reduction op : {Reduction::sum, Reduction::max, Reduction::min}) {
        const Tensor y = Tensor::empty(reduced, DType::i64);
        kernels().reduce(op, x, {y});
        expect_equal(read(y), reference(op, read(x), shape, reduced).value,
                     std::string(name(dtype)));
      }
      const Tensor mean = Tensor::empty(reduced, DType::f32);
      kernels().reduce(Reduction::mean, x, {mean});
      const Reference expected = reference(Reduction::mean, read(x), shape, reduced);
      expect_within(read(mean), expected.value, Values(expected.value.size(), 1e-6),
                    "mean of integers");
    }
  }
  const Tensor big = Tensor::empty({2}, DType::i64), sum = Tensor::empty({1}, DType::i64);
  big.mutable_data<int64_t>()[0] = int64_t{1} << 60;
  big.mutable_data<int64_t>()[1] = 1;
  kernels().reduce(Reduction::sum, big, {sum});
  EXPECT_EQ(sum.data<int64_t>()[0], (int64_t{1} << 60) + 1);
}

TEST(CpuReduce, LongSumsKeepTheirDigits) {
  constexpr int64_t n = int64_t{1} << 24;
  const Tensor ones = filled({n}, DType::f32, 1), sum = Tensor::empty({1}, DType::f32);
  kernels().reduce(Reduction::sum, ones, {sum});
  EXPECT_EQ(read(sum)[0], n);
  const Tensor column = ones.strided({n / 4, 4}, {4, 1}, 0),
               sums = Tensor::empty({1, 4}, DType::f32);
  kernels().reduce(Reduction::sum, column, {sums});
  EXPECT_EQ(read(sums), (Values(4, n / 4)));
  // 0.1 is not a float: what is left is the error of adding it 2^24 times.
  const Tensor tenths = filled({n}, DType::f32, 0.1);
  kernels().reduce(Reduction::sum, tenths, {sum});
  const double exact = static_cast<double>(0.1f) * static_cast<double>(n);
  EXPECT_NEAR(read(sum)[0], exact, 4 * epsilon(DType::f32) * exact);
}

TEST(CpuReduce, AccumulatesIntoY) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = make({3, 4}, DType::bf16, plain_numbers(DType::bf16, 12, 4));
    const Tensor y = filled({1, 4}, dtype, 2);
    kernels().reduce(Reduction::sum, x, {y, true});
    Values expected = reference(Reduction::sum, read(x), {3, 4}, {1, 4}).value;
    for (double& v : expected) v += 2;
    expect_equal(read(y), expected, "accumulated sum");
  }
}

TEST(CpuReduce, EmptyAxes) {
  const Tensor x = Tensor::empty({3, 0}, DType::f32), y = filled({3, 1}, DType::f32, 5);
  kernels().reduce(Reduction::sum, x, {y, true});
  EXPECT_EQ(read(y), Values(3, 5));
  kernels().reduce(Reduction::sum, x, {y});
  EXPECT_EQ(read(y), Values(3, 0));
  kernels().reduce(Reduction::prod, x, {y});
  EXPECT_EQ(read(y), Values(3, 1));
  kernels().reduce(Reduction::mean, x, {y});
  expect_equal(read(y), Values(3, nan), "mean of nothing");
  const Tensor none = Tensor::empty({1, 0}, DType::f32);
  kernels().reduce(Reduction::sum, x, {none});
  const Tensor scalar = make({}, DType::f32, {3}), copy = Tensor::empty({}, DType::f32);
  kernels().reduce(Reduction::sum, scalar, {copy});
  EXPECT_EQ(read(copy), Values{3});
}

TEST(CpuReduce, BroadcastInputs) {
  const Tensor x = make({1, 5}, DType::f32, {1, 2, 3, 4, 5});
  const TensorView wide = TensorView(x).expanded({1000, 5});
  const Tensor columns = Tensor::empty({1, 5}, DType::f32),
               rows = Tensor::empty({1000, 1}, DType::f32);
  kernels().reduce(Reduction::sum, wide, {columns});
  EXPECT_EQ(read(columns), (Values{1000, 2000, 3000, 4000, 5000}));
  kernels().reduce(Reduction::sum, wide, {rows});
  EXPECT_EQ(read(rows), Values(1000, 15));
}

TEST(CpuReduce, NaNIsTheMaximumAndTheMinimum) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16}) {
    for (const size_t place : {0u, 3u, 44u, 89u}) {
      Values numbers(90, 1);
      numbers[place] = nan;
      const Tensor x = make({90}, dtype, numbers), y = Tensor::empty({1}, dtype),
                   index = Tensor::empty({1}, DType::i64);
      for (const bool largest : {true, false}) {
        kernels().reduce(largest ? Reduction::max : Reduction::min, x, {y});
        EXPECT_TRUE(std::isnan(read(y)[0]));
        kernels().arg(largest, x, 0, index);
        EXPECT_EQ(read(index)[0], place);
      }
    }
  }
}

TEST(CpuReduce, ArgFindsTheFirst) {
  for (const Shape& shape :
       {Shape{7}, Shape{3, 5}, Shape{2, 30, 35}, Shape{33, 65}, Shape{2000, 3}, Shape{3, 2500}}) {
    for (const DType dtype :
         {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::u8}) {
      // Few different numbers, hence many ties.
      const Values numbers = plain_numbers(dtype, shape.numel(), 9);
      for (const Arrangement arrangement : arrangements) {
        const Tensor x = make_arranged(shape, dtype, arrangement, numbers);
        for (int axis = 0; axis < shape.rank(); ++axis) {
          const Shape reduced = reduced_shape(shape, 1u << axis);
          const std::vector<size_t> owner = owners(shape, reduced);
          const int64_t step = dense_strides(shape)[axis];
          for (const bool largest : {true, false}) {
            Values best(static_cast<size_t>(reduced.numel()), largest ? -infinity : infinity),
                expected(best.size(), -1);
            for (size_t i = 0; i < owner.size(); ++i) {
              double& b = best[owner[i]];
              if (largest ? numbers[i] <= b : numbers[i] >= b) continue;
              b = numbers[i];
              expected[owner[i]] =
                  static_cast<double>(static_cast<int64_t>(i) / step % shape[axis]);
            }
            const Tensor y = arranged(reduced, DType::i64, arrangement);
            kernels().arg(largest, x, axis, y);
            expect_equal(values_of(y), expected,
                         "arg " + std::string(name(dtype)) + " " + to_string(shape) + " axis " +
                             std::to_string(axis));
          }
        }
      }
    }
  }
}

TEST(CpuReduce, VarianceInTwoPasses) {
  for (const Shape& shape : {Shape{7}, Shape{33, 65}, Shape{2, 30, 35}, Shape{300, 4}}) {
    for (const DType dtype : compute_types) {
      // A mean far from zero ruins what is not two-pass.
      Values numbers(static_cast<size_t>(shape.numel()));
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = 100 + random::normal(5, 1, i);
      for (const Arrangement arrangement : arrangements) {
        const Tensor x = make_arranged(shape, dtype, arrangement, numbers);
        for (unsigned axes = 1; axes < 1u << shape.rank(); ++axes) {
          const Shape reduced = reduced_shape(shape, axes);
          const Values stored = values_of(x);
          const Values means = reference(Reduction::mean, stored, shape, reduced).value;
          const std::vector<size_t> owner = owners(shape, reduced);
          Values squares(means.size(), 0), bound(means.size()),
              mean_bound(means.size(), 40 * sum_epsilon(dtype) * 100);
          for (size_t i = 0; i < stored.size(); ++i)
            squares[owner[i]] += (stored[i] - means[owner[i]]) * (stored[i] - means[owner[i]]);
          const double count = static_cast<double>(shape.numel() / reduced.numel());
          for (size_t i = 0; i < squares.size(); ++i) {
            squares[i] /= count - 1;
            bound[i] =
                400 * sum_epsilon(dtype) * (squares[i] + 1) + storage_error(dtype, squares[i]);
          }
          const Tensor y = arranged(reduced, dtype, arrangement);
          const Tensor mean = Tensor::empty(reduced, accumulation_type(dtype));
          kernels().variance(x, 1, y, mean);
          expect_within(values_of(y), squares, bound,
                        "variance " + std::string(name(dtype)) + " " + to_string(shape));
          expect_within(read(mean), means, mean_bound, "mean");
        }
      }
    }
  }
}

TEST(CpuReduce, CumulativeSums) {
  for (const Shape& shape : {Shape{7}, Shape{2100}, Shape{33, 65}, Shape{2, 30, 35}, Shape{1, 4}}) {
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::i64, DType::i32}) {
      const Values numbers = plain_numbers(dtype, shape.numel(), 6);
      for (const Arrangement arrangement : arrangements) {
        const Tensor x = make_arranged(shape, dtype, arrangement, numbers);
        for (int axis = 0; axis < shape.rank(); ++axis) {
          const int64_t step = dense_strides(shape)[axis], count = shape[axis];
          for (const bool reverse : {false, true}) {
            Values expected = numbers, bound(numbers.size());
            for (int64_t k = 1; k < count; ++k) {
              const int64_t at = reverse ? count - 1 - k : k;
              for (int64_t i = 0; i < shape.numel(); ++i) {
                if (i / step % count != at) continue;
                expected[static_cast<size_t>(i)] +=
                    expected[static_cast<size_t>(i + (reverse ? step : -step))];
              }
            }
            for (size_t i = 0; i < bound.size(); ++i)
              bound[i] = is_floating(dtype) ? storage_error(dtype, expected[i]) : 0;
            const Tensor y = arranged(shape, dtype, Arrangement::dense);
            kernels().cumsum(x, axis, reverse, y);
            expect_within(values_of(y), expected, bound,
                          "cumsum " + std::string(name(dtype)) + " " + to_string(shape));
          }
        }
      }
    }
  }
}

TEST(CpuReduce, ThreadsDoNotMatter) {
  const Tensor x = noise({700, 1300}, DType::f32, 1);
  for (const unsigned axes : {1u, 2u, 3u}) {
    const Shape reduced = reduced_shape(x.shape(), axes);
    expect_threads_do_not_matter("sum", [&] {
      const Tensor y = Tensor::empty(reduced, DType::f32);
      kernels().reduce(Reduction::sum, x, {y});
      return y;
    });
    expect_threads_do_not_matter("variance", [&] {
      const Tensor y = Tensor::empty(reduced, DType::f32),
                   mean = Tensor::empty(reduced, DType::f32);
      kernels().variance(x, 1, y, mean);
      return y;
    });
  }
  for (const int axis : {0, 1}) {
    expect_threads_do_not_matter("arg", [&] {
      const Tensor y = Tensor::empty(reduced_shape(x.shape(), 1u << axis), DType::i64);
      kernels().arg(true, x, axis, y);
      return y;
    });
    expect_threads_do_not_matter("cumsum", [&] {
      const Tensor y = Tensor::empty(x.shape(), DType::f32);
      kernels().cumsum(x, axis, false, y);
      return y;
    });
  }
}

}  // namespace
}  // namespace binade::backend::cpu_reduce_test
