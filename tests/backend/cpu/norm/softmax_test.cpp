#include "binade/backend/softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "backend/cpu/values.h"
#include "binade/backend/cpu/kernels.h"

namespace binade::backend::cpu_softmax_test {
namespace {

const SoftmaxKernels& kernels = cpu::softmax_kernels;
constexpr double infinity = std::numeric_limits<double>::infinity();

struct Case {
  int64_t rows, width;
  Shape shape() const { return {rows, width}; }
};
const Case cases[] = {{0, 5},   {1, 1},    {4, 1},    {3, 2},     {5, 17},
                      {40, 64}, {7, 1000}, {2, 5001}, {1, 100000}};

struct Types {
  DType x, y;
};
const Types type_cases[] = {{DType::f64, DType::f64},  {DType::f32, DType::f32},
                            {DType::f16, DType::f16},  {DType::bf16, DType::bf16},
                            {DType::bf16, DType::f32}, {DType::f32, DType::bf16},
                            {DType::f16, DType::f32}};

std::string text(const Case& c, const Types& t, bool log) {
  return std::to_string(c.rows) + "x" + std::to_string(c.width) + " " + std::string(name(t.x)) +
         " " + std::string(name(t.y)) + (log ? " log" : "");
}

// Roundings of a sum of n terms, each an exp that is off by a few units, and of what follows.
double steps(int64_t n) {
  return static_cast<double>(std::min<int64_t>(n, 4096) / 16 + n / 4096) + 20;
}

Tensor logits(const Case& c, DType dtype, uint64_t seed) {
  Values values = read(noise(c.shape(), DType::f64, seed));
  for (double& v : values) v = 4 * v + 20;
  return make(c.shape(), dtype, values);
}

// log(sum(exp(row))) in double.
double log_sum(const double* row, int64_t n) {
  const double max = *std::max_element(row, row + n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(row[i] - max);
  return max + std::log(sum);
}

SoftmaxKind kind_of(bool log) { return log ? SoftmaxKind::log : SoftmaxKind::plain; }

Tensor run_forward(bool log, const Case& c, const Types& t, const Tensor& x) {
  const Tensor y = filled(c.shape(), t.y, NAN);
  kernels.forward(kind_of(log), x, y);
  return y;
}

TEST(CpuSoftmax, ForwardAgreesWithDouble) {
  for (const Case& c : cases) {
    for (const Types& t : type_cases) {
      const Tensor x_tensor = logits(c, t.x, 1);
      const Values x = read(x_tensor);
      const double unit = sum_epsilon(t.x), grow = steps(c.width) * unit;
      for (const bool log : {false, true}) {
        Values y(x.size()), bound(x.size());
        for (int64_t row = 0; row < c.rows; ++row) {
          const double* in = x.data() + row * c.width;
          const double normalizer = log_sum(in, c.width), max = *std::max_element(in, in + c.width);
          for (int64_t i = 0; i < c.width; ++i) {
            const int64_t at = row * c.width + i;
            // x - max rounds, and exp makes a relative error of that.
            const double difference = unit * std::abs(in[i] - max);
            y[at] = log ? in[i] - normalizer : std::exp(in[i] - normalizer);
            bound[at] =
                log ? difference + grow + 2 * unit * std::abs(y[at]) : y[at] * (grow + difference);
            bound[at] += storage_error(t.y, std::abs(y[at]) + bound[at]);
          }
        }
        expect_within(read(run_forward(log, c, t, x_tensor)), y, bound, text(c, t, log));
      }
    }
  }
}

TEST(CpuSoftmax, InPlaceIsTheSame) {
  const Case c{6, 100};
  const Types t{DType::f32, DType::f32};
  for (const bool log : {false, true}) {
    const Tensor x = logits(c, DType::f32, 1), expected = run_forward(log, c, t, x);
    kernels.forward(kind_of(log), x, x);
    expect_same_bits(x, expected, "in place");
  }
}

TEST(CpuSoftmax, BackwardAgreesWithDouble) {
  for (const Case& c : cases) {
    for (const Types& t : type_cases) {
      for (const bool log : {false, true}) {
        const Tensor y_tensor = run_forward(log, c, t, logits(c, t.x, 1)),
                     dy_tensor = noise(c.shape(), t.y, 2);
        const Values y = read(y_tensor), dy = read(dy_tensor);
        const double unit = sum_epsilon(t.y), grow = steps(c.width) * unit;
        for (const double present : {0.0, 1.5}) {
          Values dx(y.size()), bound(y.size());
          for (int64_t row = 0; row < c.rows; ++row) {
            double sum = 0, size = 0;
            for (int64_t i = row * c.width; i < (row + 1) * c.width; ++i) {
              const double term = log ? dy[i] : dy[i] * y[i];
              sum += term, size += std::abs(term);
            }
            for (int64_t i = row * c.width; i < (row + 1) * c.width; ++i) {
              const double p = log ? std::exp(y[i]) : y[i];
              dx[i] = present + (log ? dy[i] - p * sum : p * (dy[i] - sum));
              bound[i] =
                  grow * p * size + 4 * unit * (std::abs(dy[i]) + p * std::abs(sum) + present);
              bound[i] += storage_error(t.x, std::abs(dx[i]) + bound[i]);
            }
          }
          const Tensor found = filled(c.shape(), t.x, present == 0 ? NAN : present);
          kernels.backward(kind_of(log), dy_tensor, y_tensor, {found, present != 0});
          expect_within(read(found), dx, bound, text(c, t, log));
        }
      }
    }
  }
}

TEST(CpuSoftmax, LogSumExpAgreesWithDouble) {
  for (const Case& c : cases) {
    for (const Types& t : type_cases) {
      const Tensor x_tensor = logits(c, t.x, 3), y = filled({c.rows}, t.y, NAN);
      const Values x = read(x_tensor);
      Values expected(c.rows), bound(c.rows);
      for (int64_t row = 0; row < c.rows; ++row) {
        expected[row] = log_sum(x.data() + row * c.width, c.width);
        bound[row] = sum_epsilon(t.x) * (steps(c.width) + 40 + 2 * std::abs(expected[row]));
        bound[row] += storage_error(t.y, expected[row] + bound[row]);
      }
      kernels.logsumexp(x_tensor, y);
      expect_within(read(y), expected, bound, text(c, t, true));
    }
  }
}

// What PyTorch gives for rows with infinities and NaN.
TEST(CpuSoftmax, SpecialValues) {
  for (const DType dtype : compute_types) {
    for (const int64_t width : {3, 40}) {
      const Case c{4, width};
      Values values(static_cast<size_t>(4 * width), 1.0);
      std::fill_n(values.begin(), width, -infinity);
      std::fill_n(values.begin() + width, width - 1, -infinity);
      values[static_cast<size_t>(3 * width - 1)] = infinity;
      values[static_cast<size_t>(4 * width - 1)] = NAN;
      const Tensor x = make(c.shape(), dtype, values), lse = filled({4}, dtype, 7);
      const Values soft = read(run_forward(false, c, {dtype, dtype}, x)),
                   log = read(run_forward(true, c, {dtype, dtype}, x));
      for (int64_t i = 0; i < width; ++i) {
        EXPECT_TRUE(std::isnan(soft[i]) && std::isnan(log[i])) << "all -inf";
        EXPECT_EQ(soft[width + i], i == width - 1 ? 1 : 0) << "all but one -inf";
        EXPECT_EQ(log[width + i], i == width - 1 ? 0 : -infinity);
        EXPECT_TRUE(std::isnan(soft[3 * width + i]) && std::isnan(log[3 * width + i])) << "NaN";
      }
      EXPECT_TRUE(std::isnan(soft[3 * width - 1]) && std::isnan(log[3 * width - 1])) << "+inf";
      kernels.logsumexp(x, lse);
      const Values sums = read(lse);
      EXPECT_EQ(sums[0], -infinity);
      EXPECT_EQ(sums[1], 1);
      EXPECT_EQ(sums[2], infinity);
      EXPECT_TRUE(std::isnan(sums[3]));
    }
  }
}

TEST(CpuSoftmax, BitsDoNotDependOnThreads) {
  const Case c{101, 333};
  const Types t{DType::bf16, DType::f32};
  const Tensor x = logits(c, t.x, 1), dy = noise(c.shape(), t.y, 2);
  std::vector<Tensor> ys, dxs;
  for (const int count : {1, 2, 8}) {
    const ThreadCount threads(count);
    ys.push_back(run_forward(false, c, t, x));
    dxs.push_back(filled(c.shape(), t.x, NAN));
    kernels.backward(SoftmaxKind::plain, dy, ys.back(), {dxs.back()});
  }
  for (const size_t i : {1u, 2u}) {
    expect_same_bits(ys[i], ys[0], "y");
    expect_same_bits(dxs[i], dxs[0], "dx");
  }
}

}  // namespace
}  // namespace binade::backend::cpu_softmax_test
