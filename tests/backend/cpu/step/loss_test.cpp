#include "binade/backend/loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "backend/cpu/values.h"
#include "binade/backend/cpu/kernels.h"

namespace binade::backend::cpu_loss_test {
namespace {

const LossKernels& kernels = cpu::loss_kernels;
constexpr int64_t ignored = -100;

struct Case {
  int64_t rows, classes;
  Shape shape() const { return {rows, classes}; }
};
const Case cases[] = {{0, 3}, {1, 1}, {5, 2}, {9, 33}, {40, 100}, {3, 50257}};

double steps(int64_t n) {
  return static_cast<double>(std::min<int64_t>(n, 4096) / 16 + n / 4096) + 20;
}

struct Inputs {
  Tensor logits, target, dlosses;
  std::vector<int64_t> labels;

  Inputs(const Case& c, DType dtype, DType target_type = DType::i64)
      : target(Tensor::empty({c.rows}, target_type)),
        dlosses(noise({c.rows}, DType::f32, 4)),
        labels(c.rows) {
    Values values = read(noise(c.shape(), DType::f64, 1));
    for (double& v : values) v = 3 * v + 50;
    logits = make(c.shape(), dtype, values);
    for (int64_t row = 0; row < c.rows; ++row) {
      labels[row] =
          row % 4 == 2 ? ignored : static_cast<int64_t>(random::bits(5, 0, row) % c.classes);
      if (target_type == DType::i64) target.mutable_data<int64_t>()[row] = labels[row];
      if (target_type == DType::i32)
        target.mutable_data<int32_t>()[row] = static_cast<int32_t>(labels[row]);
    }
  }
};

struct Forward {
  Tensor losses, lse;
};

Forward run_forward(const Case& c, const Inputs& in, double smoothing) {
  const DType out = accumulation_type(in.logits.dtype());
  Forward result{filled({c.rows}, out, NAN), filled({c.rows}, out, NAN)};
  kernels.cross_entropy({.logits = in.logits,
                         .target = in.target,
                         .smoothing = smoothing,
                         .ignore_index = ignored,
                         .losses = result.losses,
                         .lse = result.lse});
  return result;
}

void run_backward(const Inputs& in, const Tensor& dlosses, const Tensor& lse, double smoothing,
                  const Tensor& dlogits) {
  kernels.cross_entropy_backward({.dlosses = dlosses,
                                  .logits = in.logits,
                                  .target = in.target,
                                  .lse = lse,
                                  .smoothing = smoothing,
                                  .ignore_index = ignored,
                                  .dlogits = dlogits});
}

void run_to_gradient(const Inputs& in, double smoothing, const Tensor& losses) {
  kernels.cross_entropy_to_gradient({.logits = in.logits,
                                     .target = in.target,
                                     .smoothing = smoothing,
                                     .ignore_index = ignored,
                                     .losses = losses});
}

TEST(CpuLoss, ForwardAgreesWithDouble) {
  for (const Case& c : cases) {
    for (const DType dtype : compute_types) {
      for (const double smoothing : {0.0, 0.1, 1.0}) {
        const Inputs in(c, dtype);
        const Forward found = run_forward(c, in, smoothing);
        const Values x = read(in.logits);
        const double unit = sum_epsilon(dtype), n = static_cast<double>(c.classes);
        Values losses(c.rows), losses_bound(c.rows), lse(c.rows), lse_bound(c.rows);
        for (int64_t row = 0; row < c.rows; ++row) {
          const double* row_x = x.data() + row * c.classes;
          const double max = *std::max_element(row_x, row_x + c.classes);
          double sum = 0;
          for (int64_t i = 0; i < c.classes; ++i) sum += std::exp(row_x[i] - max);
          lse[row] = max + std::log(sum);
          double mean = 0;
          for (int64_t i = 0; i < c.classes; ++i) mean += (lse[row] - row_x[i]) / n;
          lse_bound[row] = unit * (steps(c.classes) + 2 * std::abs(lse[row]));
          if (in.labels[row] == ignored) continue;
          losses[row] = (1 - smoothing) * (lse[row] - row_x[in.labels[row]]) + smoothing * mean;
          losses_bound[row] = unit * steps(c.classes) * (2 + mean + losses[row]);
        }
        expect_within(read(found.losses), losses, losses_bound,
                      std::string(name(dtype)) + " losses");
        expect_within(read(found.lse), lse, lse_bound, std::string(name(dtype)) + " lse");
      }
    }
  }
}

TEST(CpuLoss, BackwardAgreesWithDoubleAlsoInPlace) {
  for (const Case& c : cases) {
    for (const DType dtype : compute_types) {
      for (const double smoothing : {0.0, 0.1}) {
        const Inputs in(c, dtype);
        const Forward forward = run_forward(c, in, smoothing);
        const Values x = read(in.logits), lse = read(forward.lse), dlosses = read(in.dlosses);
        Values dx(x.size()), bound(x.size());
        for (int64_t row = 0; row < c.rows; ++row) {
          if (in.labels[row] == ignored) continue;
          for (int64_t i = 0; i < c.classes; ++i) {
            const int64_t at = row * c.classes + i;
            const double p = std::exp(x[at] - lse[row]),
                         per_class = smoothing / static_cast<double>(c.classes);
            const double target = per_class + (i == in.labels[row] ? 1 - smoothing : 0);
            dx[at] = (p - target) * dlosses[row];
            bound[at] = sum_epsilon(dtype) * (p * (8 + std::abs(x[at] - lse[row])) + 4 * target) *
                        std::abs(dlosses[row]);
            bound[at] += storage_error(dtype, std::abs(dx[at]) + bound[at]);
          }
        }
        const Tensor found = filled(c.shape(), dtype, NAN);
        run_backward(in, in.dlosses, forward.lse, smoothing, found);
        expect_within(read(found), dx, bound, std::string(name(dtype)) + " dlogits");
        run_backward(in, in.dlosses, forward.lse, smoothing, in.logits);
        expect_same_bits(in.logits, found, "in place");
      }
    }
  }
}

TEST(CpuLoss, BothAtOnceAreTheSameBits) {
  for (const Case& c : cases) {
    for (const DType dtype : compute_types) {
      for (const double smoothing : {0.0, 0.1}) {
        const Inputs in(c, dtype);
        const Forward forward = run_forward(c, in, smoothing);
        const Tensor ones = filled({c.rows}, DType::f32, 1),
                     gradient = filled(c.shape(), dtype, NAN),
                     losses = filled({c.rows}, forward.losses.dtype(), NAN);
        run_backward(in, ones, forward.lse, smoothing, gradient);
        run_to_gradient(in, smoothing, losses);
        expect_same_bits(losses, forward.losses, "losses");
        expect_same_bits(in.logits, gradient, "dlogits");
      }
    }
  }
}

// A copy of a matrix whose rows lie `gap` elements further apart, NaN between them.
Tensor apart(const Tensor& t, int64_t gap) {
  const int64_t rows = t.size(0), columns = t.size(1), stride = columns + gap;
  Values values(static_cast<size_t>(rows * stride), NAN);
  const Values from = read(t);
  for (int64_t i = 0; i < rows * columns; ++i) values[i / columns * stride + i % columns] = from[i];
  return make({rows, stride}, t.dtype(), values).strided({rows, columns}, {stride, 1}, 0);
}

// The elements of such a copy.
Values together(const Tensor& t) {
  const int64_t columns = t.size(1), stride = t.strides()[0];
  const Values from = read(t.strided({t.size(0), stride}, {stride, 1}, 0));
  Values values(static_cast<size_t>(t.numel()));
  for (int64_t i = 0; i < t.numel(); ++i) values[i] = from[i / columns * stride + i % columns];
  return values;
}

TEST(CpuLoss, RowsMayHaveAnyStride) {
  const Case c{9, 33};
  for (const DType dtype : compute_types) {
    const Inputs in(c, dtype);
    const Forward dense = run_forward(c, in, 0.1);
    Inputs spread = in;
    spread.logits = apart(in.logits, 7);
    const Forward found = run_forward(c, spread, 0.1);
    expect_same_bits(found.losses, dense.losses, "losses");
    expect_same_bits(found.lse, dense.lse, "lse");
    const Tensor ones = filled({c.rows}, DType::f32, 1), gradient = filled(c.shape(), dtype, NAN),
                 losses = filled({c.rows}, dense.losses.dtype(), NAN), strided = apart(gradient, 7);
    run_backward(in, ones, dense.lse, 0.1, gradient);
    run_backward(spread, ones, dense.lse, 0.1, strided);
    run_to_gradient(spread, 0.1, losses);
    EXPECT_EQ(together(strided), read(gradient));
    EXPECT_EQ(together(spread.logits), read(gradient));
    expect_same_bits(losses, dense.losses, "losses at once");
  }
}

TEST(CpuLoss, TargetsMayBeI32) {
  const Case c{9, 33};
  const Inputs wide(c, DType::bf16), narrow(c, DType::bf16, DType::i32);
  expect_same_bits(run_forward(c, wide, 0.1).losses, run_forward(c, narrow, 0.1).losses, "losses");
  EXPECT_THROW(run_forward(c, Inputs(c, DType::bf16, DType::f32), 0), Error);
}

TEST(CpuLoss, LargeLogitsKeepASmallLossExact) {
  // The loss is log(1 + e^-3); lse - logit would round it to the spacing of f32 at 30000.
  const Tensor logits = make({1, 2}, DType::f32, {30000, 29997}),
               target = Tensor::empty({1}, DType::i64);
  target.mutable_data<int64_t>()[0] = 0;
  const Tensor losses = filled({1}, DType::f32, NAN), lse = filled({1}, DType::f32, NAN);
  kernels.cross_entropy(
      {.logits = logits, .target = target, .ignore_index = ignored, .losses = losses, .lse = lse});
  EXPECT_NEAR(losses.data<float>()[0], std::log1p(std::exp(-3.0)), 1e-7);
}

TEST(CpuLoss, InfiniteLogits) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor target = Tensor::empty({2}, DType::i64);
  target.mutable_data<int64_t>()[0] = 1;
  target.mutable_data<int64_t>()[1] = 0;
  const Tensor logits = make({2, 2}, DType::f32, {0, -infinity, 0, -infinity});
  const Tensor losses = filled({2}, DType::f32, NAN), lse = filled({2}, DType::f32, NAN);
  kernels.cross_entropy(
      {.logits = logits, .target = target, .ignore_index = ignored, .losses = losses, .lse = lse});
  EXPECT_EQ(read(losses), (Values{infinity, 0}));
}

TEST(CpuLoss, CountsTargets) {
  const Case c{41, 3};
  const Inputs in(c, DType::f32);
  const Tensor count = filled({1}, DType::f32, NAN);
  kernels.count_targets(in.target, ignored, count);
  EXPECT_EQ(count.data<float>()[0], 41 - std::count(in.labels.begin(), in.labels.end(), ignored));
}

TEST(CpuLoss, BitsDoNotDependOnThreads) {
  const Case c{57, 333};
  const Inputs in(c, DType::bf16);
  std::vector<Forward> forwards;
  std::vector<Tensor> gradients;
  for (const int count : {1, 2, 8}) {
    const ThreadCount threads(count);
    forwards.push_back(run_forward(c, in, 0.1));
    gradients.push_back(filled(c.shape(), DType::bf16, NAN));
    run_backward(in, in.dlosses, forwards.back().lse, 0.1, gradients.back());
  }
  for (const size_t i : {1u, 2u}) {
    expect_same_bits(forwards[i].losses, forwards[0].losses, "losses");
    expect_same_bits(forwards[i].lse, forwards[0].lse, "lse");
    expect_same_bits(gradients[i], gradients[0], "dlogits");
  }
}

}  // namespace
}  // namespace binade::backend::cpu_loss_test
