#include "backend/cpu/elementwise/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

namespace binade::backend::cpu_elementwise_test {
namespace {

struct Operation {
  const char* name;
  Binary op;
  std::function<double(double, double)> value;
};

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      {"add", Binary::add, [](double a, double b) { return a + b; }},
      {"sub", Binary::sub, [](double a, double b) { return a - b; }},
      {"mul", Binary::mul, [](double a, double b) { return a * b; }},
      {"div", Binary::div, [](double a, double b) { return a / b; }},
      {"pow", Binary::pow, [](double a, double b) { return std::pow(a, b); }},
      {"atan2", Binary::atan2, [](double a, double b) { return std::atan2(a, b); }},
      {"maximum", Binary::maximum,
       [](double a, double b) { return a != a || b != b ? nan : std::max(a, b); }},
      {"minimum", Binary::minimum,
       [](double a, double b) { return a != a || b != b ? nan : std::min(a, b); }},
      {"equal", Binary::equal, [](double a, double b) { return a == b; }},
      {"not_equal", Binary::not_equal, [](double a, double b) { return a != b; }},
      {"less", Binary::less, [](double a, double b) { return a < b; }},
      {"less_equal", Binary::less_equal, [](double a, double b) { return a <= b; }},
      {"greater", Binary::greater, [](double a, double b) { return a > b; }},
      {"greater_equal", Binary::greater_equal, [](double a, double b) { return a >= b; }},
      {"logical_and", Binary::logical_and, [](double a, double b) { return a != 0 && b != 0; }},
      {"logical_or", Binary::logical_or, [](double a, double b) { return a != 0 || b != 0; }},
  };
  return all;
}

TEST(CpuElementwise, BinaryInEveryTypeAndLayout) {
  for (const Operation& f : operations()) {
    for (const DType dtype : compute_types) {
      for (const Shape& shape : shapes) {
        const int64_t n = shape.numel();
        for (const Arrangement right : arrangements) {
          const Tensor a =
              make_arranged(shape, dtype, Arrangement::dense, plain_numbers(dtype, n, 1));
          const Tensor b = make_arranged(shape, dtype, right, plain_numbers(dtype, n, 2));
          const Tensor y = arranged(shape, dtype, right);
          kernels().binary(f.op, a, b, y);
          const Values l = values_of(a), r = values_of(b);
          const Values found = values_of(y);
          const std::string what =
              std::string(f.name) + " " + std::string(name(dtype)) + " " + to_string(right);
          for (size_t i = 0; i < l.size(); ++i) {
            const double expected = f.value(l[i], r[i]);
            if (std::isfinite(expected)) {
              ASSERT_LE(std::abs(found[i] - expected), allowed(dtype, 2, expected, 0)) << what;
            } else {
              ASSERT_TRUE(found[i] == expected || (expected != expected && found[i] != found[i]))
                  << what;
            }
          }
        }
      }
    }
  }
}

TEST(CpuElementwise, BinaryBroadcastsAndMixesTypes) {
  const Shape shape{37, 45};
  const Values column = plain_numbers(DType::f32, 37, 1), row = plain_numbers(DType::f32, 45, 2);
  for (const DType left : compute_types) {
    for (const DType right : compute_types) {
      const Tensor a = make({37, 1}, left, column), b = make({45}, right, row);
      const Tensor y = Tensor::empty(shape, promote(left, right));
      kernels().binary(Binary::sub, TensorView(a).expanded(shape), TensorView(b).expanded(shape),
                       y);
      const Tensor scaled = Tensor::empty(shape, DType::f32), two = make({1}, right, {2});
      kernels().binary(Binary::mul, TensorView(a).expanded(shape), TensorView(two).expanded(shape),
                       scaled);
      Values difference, product;
      for (const double c : column) {
        for (const double r : row) {
          difference.push_back(c - r);
          product.push_back(c * 2);
        }
      }
      expect_equal(read(y), difference, "broadcast sub");
      expect_equal(read(scaled), product, "broadcast mul");
    }
  }
}

TEST(CpuElementwise, ComparisonsWithNaN) {
  const Tensor a = make({4}, DType::f32, {nan, 1, nan, 2}),
               b = make({4}, DType::f32, {1, nan, nan, 2});
  const Tensor y = Tensor::empty({4}, DType::boolean);
  for (const Binary op :
       {Binary::equal, Binary::less, Binary::less_equal, Binary::greater, Binary::greater_equal}) {
    kernels().binary(op, a, b, y);
    const bool at_two = op != Binary::less && op != Binary::greater;
    EXPECT_EQ(read(y), (Values{0, 0, 0, at_two ? 1.0 : 0.0}));
  }
  kernels().binary(Binary::not_equal, a, b, y);
  EXPECT_EQ(read(y), (Values{1, 1, 1, 0}));
  const Tensor z = Tensor::empty({4}, DType::f32);
  for (const Binary op : {Binary::maximum, Binary::minimum}) {
    kernels().binary(op, a, b, z);
    expect_equal(read(z), {nan, nan, nan, 2}, "maximum and minimum of NaN");
  }
}

TEST(CpuElementwise, IntegersAreExact) {
  const int64_t big = (int64_t{1} << 60) + 1;
  const Tensor a = Tensor::empty({5}, DType::i64), b = Tensor::empty({5}, DType::i64);
  const int64_t left[] = {big, -7, 7, 9, std::numeric_limits<int64_t>::min()};
  const int64_t right[] = {2, 2, -2, 0, -1};
  std::copy_n(left, 5, a.mutable_data<int64_t>());
  std::copy_n(right, 5, b.mutable_data<int64_t>());
  const Tensor y = Tensor::empty({5}, DType::i64);
  const auto result = [&](Binary op) {
    kernels().binary(op, a, b, y);
    return std::vector<int64_t>(y.data<int64_t>(), y.data<int64_t>() + 5);
  };
  EXPECT_EQ(result(Binary::add)[0], big + 2);
  EXPECT_EQ(result(Binary::mul)[0], big * 2);
  const std::vector<int64_t> quotients = {big / 2, -3, -3, 0, std::numeric_limits<int64_t>::min()};
  EXPECT_EQ(result(Binary::div), quotients);
  EXPECT_EQ(result(Binary::maximum)[0], big);
  const Tensor bigger = Tensor::empty({5}, DType::i64), less = Tensor::empty({5}, DType::boolean);
  kernels().unary(Unary::scale, {1, 1}, a, bigger);
  kernels().binary(Binary::less, a, bigger, less);
  EXPECT_EQ(read(less), (Values{1, 1, 1, 1, 1}));
  // Where the output has fractions, so has the quotient.
  const Tensor halves = Tensor::empty({5}, DType::f32);
  kernels().binary(Binary::div, a, b, halves);
  EXPECT_EQ(read(halves)[1], -3.5);
}

TEST(CpuElementwise, UnaryOnIntegers) {
  const Tensor x = make({5}, DType::i32, {-3, 0, 2, 5, -8});
  const Tensor y = Tensor::empty({5}, DType::i32), z = Tensor::empty({5}, DType::f32),
               t = Tensor::empty({5}, DType::boolean);
  kernels().unary(Unary::abs, {}, x, y);
  EXPECT_EQ(read(y), (Values{3, 0, 2, 5, 8}));
  kernels().unary(Unary::clamp, {-infinity, 2.5}, x, y);
  EXPECT_EQ(read(y), (Values{-3, 0, 2, 2, -8}));
  kernels().unary(Unary::scale, {3, -1}, x, y);
  EXPECT_EQ(read(y), (Values{-10, -1, 5, 14, -25}));
  kernels().unary(Unary::logical_not, {}, x, t);
  EXPECT_EQ(read(t), (Values{0, 1, 0, 0, 0}));
  kernels().unary(Unary::sigmoid, {}, x, z);
  EXPECT_NEAR(read(z)[2], 1 / (1 + std::exp(-2.0)), 1e-7);
}

TEST(CpuElementwise, WhereChoosesInEveryType) {
  const Shape shape{9, 131};
  const int64_t n = shape.numel();
  for (const DType dtype : all_dtypes) {
    for (const DType test : {DType::boolean, DType::f32, DType::i64}) {
      for (const Arrangement arrangement : arrangements) {
        const Tensor c =
            make_arranged(shape, test, arrangement, plain_numbers(DType::boolean, n, 3));
        const Tensor a = make_arranged(shape, dtype, arrangement, plain_numbers(dtype, n, 1));
        const Tensor b = make({131}, dtype, plain_numbers(dtype, 131, 2));
        const Tensor y = arranged(shape, dtype, arrangement);
        kernels().where(c, a, TensorView(b).expanded(shape), y);
        Values expected = values_of(a);
        const Values choice = values_of(c), other = read(b);
        for (size_t i = 0; i < expected.size(); ++i) {
          if (choice[i] == 0) expected[i] = other[i % 131];
        }
        expect_equal(values_of(y), expected,
                     "where " + std::string(name(dtype)) + " " + to_string(arrangement));
      }
    }
  }
}

TEST(CpuElementwise, CopyAndAxpbyBetweenAnyTwoTypes) {
  const Shape shape{35, 70};
  const int64_t n = shape.numel();
  for (const DType from : all_dtypes) {
    for (const DType to : all_dtypes) {
      // Numbers that both types hold.
      Values numbers = plain_numbers(from, n, 1);
      if (!is_floating(to)) {
        for (double& v : numbers)
          v = to == DType::i64 || to == DType::i32 ? std::trunc(v) : std::abs(std::trunc(v));
      }
      if (to == DType::boolean) numbers = plain_numbers(DType::boolean, n, 1);
      for (const Arrangement arrangement : arrangements) {
        const std::string what =
            std::string(name(from)) + " to " + std::string(name(to)) + " " + to_string(arrangement);
        const Tensor x = make_arranged(shape, from, arrangement, numbers);
        const Tensor dense = Tensor::empty(shape, to), other = arranged(shape, to, arrangement);
        kernels().copy(x, dense);
        expect_equal(read(dense), numbers, "copy " + what);
        kernels().copy(make(shape, from, numbers), other);
        expect_equal(values_of(other), numbers, "copy to " + what);
        if (to == DType::boolean || to == DType::u8) continue;
        kernels().axpby(2, x, 3, other);
        Values sum = numbers;
        // FP8 rounds five times the numbers.
        for (double& v : sum) v *= 5;
        const double tolerance = is_floating(to) ? epsilon(to) / 2 : 0;
        const Values found = values_of(other);
        for (size_t i = 0; i < sum.size(); ++i) {
          ASSERT_LE(std::abs(found[i] - sum[i]), tolerance * std::abs(sum[i])) << "axpby " << what;
        }
      }
    }
  }
}

TEST(CpuElementwise, AxpbyWithoutBetaNeverReads) {
  const Tensor x = make({3}, DType::bf16, {1, 2, 3}), y = filled({3}, DType::f32, nan);
  kernels().axpby(0.5, x, 0, y);
  EXPECT_EQ(read(y), (Values{0.5, 1, 1.5}));
}

TEST(CpuElementwise, CopyKeepsEveryBitOfAnInteger) {
  const int64_t big = (int64_t{1} << 62) + 1;
  const Tensor x = Tensor::empty({3, 40}, DType::i64),
               y = arranged({3, 40}, DType::i64, Arrangement::transposed);
  std::fill_n(x.mutable_data<int64_t>(), 120, big);
  kernels().copy(x, y);
  for (int64_t i = 0; i < 120; ++i) ASSERT_EQ(static_cast<int64_t*>(y.raw_data())[i], big);
}

TEST(CpuElementwise, CopyRoundsOnce) {
  // Just above a tie of f16 (bf16): rounding to f32 first would land on the tie and then go down.
  const double f16_tie = 1 + 0x1p-11 + 0x1p-40, bf16_tie = 1 + 0x1p-8 + 0x1p-40;
  const Tensor x = make({2}, DType::f64, {f16_tie, bf16_tie});
  const Tensor h = Tensor::empty({2}, DType::f16), b = Tensor::empty({2}, DType::bf16);
  kernels().copy(x, h);
  EXPECT_EQ(read(h)[0], 1 + 0x1p-10);
  kernels().copy(x, b);
  EXPECT_EQ(read(b)[1], 1 + 0x1p-7);
  const Tensor integer = Tensor::empty({1}, DType::i64), narrow = Tensor::empty({1}, DType::bf16);
  integer.mutable_data<int64_t>()[0] = (int64_t{1} << 62) + (int64_t{1} << 54) + 1;
  kernels().copy(integer, narrow);
  EXPECT_EQ(read(narrow)[0], 0x1p62 + 0x1p55);
}

TEST(CpuElementwise, CopyPastTheRange) {
  const Tensor x = make({5}, DType::f32, {1e30, -1e30, nan, 500, 70000});
  const auto copied = [&](DType dtype) {
    const Tensor y = Tensor::empty({5}, dtype);
    kernels().copy(x, y);
    return read(y);
  };
  expect_equal(copied(DType::f16), {infinity, -infinity, nan, 500, infinity}, "f16");
  expect_equal(copied(DType::e4m3), {nan, nan, nan, nan, nan}, "e4m3");
  expect_equal(copied(DType::e5m2), {infinity, -infinity, nan, 512, infinity}, "e5m2");
  expect_equal(copied(DType::i32), {2147483647, -2147483648.0, 0, 500, 70000}, "i32");
  expect_equal(copied(DType::u8), {255, 0, 0, 255, 255}, "u8");
}

TEST(CpuElementwise, FillEveryTypeAndLayout) {
  for (const DType dtype : all_dtypes) {
    for (const Arrangement arrangement : arrangements) {
      const Tensor y = arranged({5, 7, 11}, dtype, arrangement);
      kernels().fill(y, 1);
      expect_equal(values_of(y), Values(385, 1.0), "fill " + std::string(name(dtype)));
    }
  }
  // The gaps of a slice stay as they are.
  const Tensor whole = filled({4, 4}, DType::f32, 7);
  kernels().fill(whole.strided({2, 2}, {4, 1}, 5), 1);
  EXPECT_EQ(read(whole), (Values{7, 7, 7, 7, 7, 1, 1, 7, 7, 1, 1, 7, 7, 7, 7, 7}));
}

TEST(CpuElementwise, OutputsMayBeInputs) {
  for (const DType dtype : compute_types) {
    for (const Arrangement arrangement : arrangements) {
      const Shape shape{31, 70};
      const Values start = plain_numbers(dtype, shape.numel(), 5);
      const Tensor x = make_arranged(shape, dtype, arrangement, start);
      kernels().unary(Unary::neg, {}, x, x);
      kernels().binary(Binary::add, x, x, x);
      kernels().axpby(1, x, 1, x);
      kernels().axpby(1, x, 0, x);
      Values expected = start;
      for (double& v : expected) v *= -4;
      expect_equal(values_of(x), expected, std::string(name(dtype)) + " " + to_string(arrangement));
    }
  }
}

TEST(CpuElementwise, TransposesOfManyAxes) {
  // Every order of the axes of a small tensor, copied to a dense one.
  const Shape shape{3, 5, 36, 33};
  std::vector<int> order = {0, 1, 2, 3};
  const Tensor x = Tensor::empty(shape, DType::f32);
  for (int64_t i = 0; i < x.numel(); ++i) x.mutable_data<float>()[i] = static_cast<float>(i);
  do {
    Shape permuted = shape, strides = shape;
    for (int axis = 0; axis < 4; ++axis) {
      permuted[axis] = shape[order[static_cast<size_t>(axis)]];
      strides[axis] = x.strides()[order[static_cast<size_t>(axis)]];
    }
    const Tensor view = x.strided(permuted, strides, 0);
    const Tensor y = Tensor::empty(permuted, DType::f32),
                 wide = Tensor::empty(permuted, DType::f64);
    kernels().copy(view, y);
    kernels().copy(view, wide);
    expect_equal(read(y), values_of(view), "transpose");
    expect_equal(read(wide), values_of(view), "converting transpose");
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(CpuElementwise, ThreadsDoNotMatter) {
  const Shape shape{517, 401};
  const Tensor x = noise(shape, DType::bf16, 1), b = noise({401}, DType::f32, 2);
  for (const Unary op : {Unary::gelu, Unary::exp, Unary::sin}) {
    expect_threads_do_not_matter("unary", [&] {
      const Tensor y = arranged(shape, DType::f32, Arrangement::dense);
      kernels().unary(op, {}, x, y);
      return y;
    });
  }
  expect_threads_do_not_matter("binary", [&] {
    const Tensor y = Tensor::empty(shape, DType::f16);
    kernels().binary(Binary::mul, x, TensorView(b).expanded(shape), y);
    return y;
  });
  expect_threads_do_not_matter("transpose", [&] {
    const Tensor y = Tensor::empty({401, 517}, DType::f32);
    kernels().copy(x.strided({401, 517}, {1, 401}, 0), y);
    return y;
  });
}

}  // namespace
}  // namespace binade::backend::cpu_elementwise_test
