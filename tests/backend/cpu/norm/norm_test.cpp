#include "binade/backend/norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "backend/cpu/values.h"
#include "binade/backend/cpu/kernels.h"

namespace binade::backend::cpu_norm_test {
namespace {

const NormKernels& kernels = cpu::norm_kernels;
constexpr double eps = 1e-5;

// The most roundings a row sum's term goes through: partial sums of 4096 / 16 terms, then blocks in
// order, then a tree of 16, and a few for what is done with the sum.
double steps(int64_t n) {
  return static_cast<double>(std::min<int64_t>(n, 4096) / 16 + n / 4096) + 16;
}

Tensor shifted_noise(const Shape& shape, DType dtype, uint64_t seed, double mean,
                     double deviation) {
  Values values = read(noise(shape, DType::f64, seed));
  for (double& v : values) v = mean + deviation * v;
  return make(shape, dtype, values);
}

struct RowCase {
  int64_t rows, width;
};
const RowCase row_cases[] = {{0, 8},  {1, 1},    {3, 1},    {5, 7},    {4, 16},
                             {7, 33}, {300, 20}, {65, 128}, {2, 4097}, {3, 10000}};

struct Types {
  DType x, weight, y;
};
const Types type_cases[] = {
    {DType::f64, DType::f64, DType::f64},    {DType::f32, DType::f32, DType::f32},
    {DType::bf16, DType::bf16, DType::bf16}, {DType::bf16, DType::f32, DType::bf16},
    {DType::bf16, DType::f32, DType::f32},   {DType::f32, DType::f32, DType::bf16},
    {DType::f16, DType::f32, DType::f16},    {DType::f16, DType::f16, DType::f32}};

std::string text(NormKind kind, const RowCase& c, const Types& t) {
  return std::string(kind == NormKind::layer ? "layer " : "rms ") + std::to_string(c.rows) + "x" +
         std::to_string(c.width) + " " + std::string(name(t.x)) + " " +
         std::string(name(t.weight)) + " " + std::string(name(t.y));
}

struct Forward {
  Tensor sum, y, mean, rstd;
};

Forward run_forward(NormKind kind, const RowCase& c, const Types& t, const Tensor& x,
                    const Tensor& residual, const Tensor& weight, const Tensor& bias) {
  const Shape shape{c.rows, c.width};
  Forward out{.y = filled(shape, t.y, NAN), .rstd = filled({c.rows}, accumulation_type(t.x), NAN)};
  if (residual.defined()) out.sum = filled(shape, t.x, NAN);
  if (kind == NormKind::layer) out.mean = filled({c.rows}, accumulation_type(t.x), NAN);
  kernels.forward({.kind = kind,
                   .x = x,
                   .residual = residual,
                   .weight = weight,
                   .bias = bias,
                   .eps = eps,
                   .sum = out.sum,
                   .y = out.y,
                   .mean = out.mean,
                   .rstd = out.rstd});
  return out;
}

// Compares a forward's outputs with those worked out in double from what was normalized.
void check_forward(NormKind kind, const RowCase& c, const Types& t, const Tensor& normalized,
                   const Tensor& weight, const Tensor& bias, const Forward& found,
                   const std::string& what) {
  const Values x = read(normalized), w = weight.defined() ? read(weight) : Values(c.width, 1.0),
               b = bias.defined() ? read(bias) : Values(c.width, 0.0);
  const double unit = sum_epsilon(t.x), grow = steps(c.width) * unit,
               n = static_cast<double>(c.width);
  Values y(x.size()), y_bound(x.size()), mean(c.rows), mean_bound(c.rows), rstd(c.rows),
      rstd_bound(c.rows);
  for (int64_t row = 0; row < c.rows; ++row) {
    const double* in = x.data() + row * c.width;
    double sum = 0, magnitude = 0, squares = 0;
    for (int64_t i = 0; i < c.width; ++i) sum += in[i], magnitude += std::abs(in[i]);
    const bool layer = kind == NormKind::layer;
    mean[row] = layer ? sum / n : 0;
    mean_bound[row] = layer ? grow * magnitude / n : 0;
    for (int64_t i = 0; i < c.width; ++i) squares += (in[i] - mean[row]) * (in[i] - mean[row]);
    rstd[row] = 1 / std::sqrt(squares / n + eps);
    // A mean that is off adds its square to the variance; x - mean rounds too.
    const double off = mean_bound[row] + unit * (magnitude / n + std::abs(mean[row]));
    rstd_bound[row] = rstd[row] * (grow + off * off * rstd[row] * rstd[row]);
    for (int64_t i = 0; i < c.width; ++i) {
      const int64_t at = row * c.width + i;
      const double hat = (in[i] - mean[row]) * rstd[row];
      y[at] = hat * w[i] + b[i];
      const double hat_bound = rstd[row] * off + std::abs(in[i] - mean[row]) * rstd_bound[row];
      y_bound[at] =
          std::abs(w[i]) * (hat_bound + 4 * unit * std::abs(hat)) + unit * std::abs(y[at]);
      y_bound[at] += storage_error(t.y, std::abs(y[at]) + y_bound[at]);
    }
  }
  expect_within(read(found.y), y, y_bound, what + " y");
  expect_within(read(found.rstd), rstd, rstd_bound, what + " rstd");
  if (kind == NormKind::layer) expect_within(read(found.mean), mean, mean_bound, what + " mean");
}

class CpuNorm : public testing::TestWithParam<NormKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, CpuNorm, testing::Values(NormKind::layer, NormKind::rms),
                         [](const auto& info) {
                           return info.param == NormKind::layer ? "layer" : "rms";
                         });

TEST_P(CpuNorm, ForwardAgreesWithDouble) {
  for (const RowCase& c : row_cases) {
    for (const Types& t : type_cases) {
      const Tensor x = shifted_noise({c.rows, c.width}, t.x, 1, 3, 0.5);
      const Tensor w = noise({c.width}, t.weight, 2), b = noise({c.width}, t.weight, 3);
      for (const bool with_bias : {false, true}) {
        for (const bool with_weight : {false, true}) {
          const Tensor weight = with_weight ? w : Tensor(), bias = with_bias ? b : Tensor();
          check_forward(GetParam(), c, t, x, weight, bias,
                        run_forward(GetParam(), c, t, x, {}, weight, bias), text(GetParam(), c, t));
        }
      }
    }
  }
}

TEST_P(CpuNorm, ResidualIsAddedRoundedAndReturned) {
  for (const RowCase& c : row_cases) {
    for (const Types& t : type_cases) {
      const Shape shape{c.rows, c.width};
      const Tensor x = noise(shape, t.x, 1), residual = noise(shape, t.x, 4);
      const Tensor weight = noise({c.width}, t.weight, 2), bias = noise({c.width}, t.weight, 3);
      const Forward found = run_forward(GetParam(), c, t, x, residual, weight, bias);
      Values expected = read(x);
      const Values other = read(residual);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += other[i];
      // Two 16-bit numbers add exactly in f32 or round alike, so the sum is known to the bit.
      if (t.x == DType::f32) {
        for (double& v : expected) v = static_cast<float>(v);
      }
      expect_same_bits(found.sum, make(shape, t.x, expected), text(GetParam(), c, t));
      check_forward(GetParam(), c, t, found.sum, weight, bias, found, text(GetParam(), c, t));
      const Forward separate = run_forward(GetParam(), c, t, found.sum, {}, weight, bias);
      expect_same_bits(found.y, separate.y, text(GetParam(), c, t) + " as a separate add");
    }
  }
}

struct Backward {
  Tensor dx, dweight, dbias;
};

struct BackwardInputs {
  Tensor dy, dsum, x, weight, mean, rstd;

  BackwardInputs(NormKind kind, const RowCase& c, const Types& t, bool with_sum)
      : dy(noise({c.rows, c.width}, t.y, 5)),
        x(shifted_noise({c.rows, c.width}, t.x, 1, 0.5, 2)),
        weight(noise({c.width}, t.weight, 2)) {
    if (with_sum) dsum = noise({c.rows, c.width}, t.x, 6);
    const Forward forward = run_forward(kind, c, t, x, {}, weight, {});
    mean = forward.mean;
    rstd = forward.rstd;
  }
};

Backward run_backward(NormKind kind, const RowCase& c, const Types& t, const BackwardInputs& in,
                      double present) {
  const bool accumulate = !std::isnan(present);
  Backward out{filled({c.rows, c.width}, t.x, present), filled({c.width}, t.weight, present),
               filled({c.width}, accumulation_type(t.x), present)};
  kernels.backward({.kind = kind,
                    .dy = in.dy,
                    .dsum = in.dsum,
                    .x = in.x,
                    .weight = in.weight,
                    .mean = in.mean,
                    .rstd = in.rstd,
                    .dx = {out.dx, accumulate},
                    .dweight = {out.dweight, accumulate},
                    .dbias = {out.dbias, accumulate}});
  return out;
}

void check_backward(NormKind kind, const RowCase& c, const Types& t, const BackwardInputs& in,
                    double present, const std::string& what) {
  const Backward found = run_backward(kind, c, t, in, present);
  const double old = std::isnan(present) ? 0 : present;
  const double unit = sum_epsilon(t.x), grow = steps(c.width) * unit,
               n = static_cast<double>(c.width);
  const Values dy = read(in.dy), x = read(in.x), w = read(in.weight), rstd = read(in.rstd),
               mean = in.mean.defined() ? read(in.mean) : Values(c.rows, 0.0),
               dsum = in.dsum.defined() ? read(in.dsum) : Values(x.size());
  Values dx(x.size()), dx_bound(x.size()), dw(c.width, old), dw_size(c.width, old),
      db(c.width, old), db_size(c.width, old);
  for (int64_t row = 0; row < c.rows; ++row) {
    double plain = 0, plain_size = 0, dot = 0, dot_size = 0;
    const auto hat = [&](int64_t i) { return (x[row * c.width + i] - mean[row]) * rstd[row]; };
    for (int64_t i = 0; i < c.width; ++i) {
      const double g = dy[row * c.width + i], gw = g * w[i];
      plain += gw, plain_size += std::abs(gw), dot += gw * hat(i),
          dot_size += std::abs(gw * hat(i));
      dw[i] += g * hat(i), dw_size[i] += std::abs(g * hat(i)), db[i] += g,
          db_size[i] += std::abs(g);
    }
    if (kind == NormKind::rms) plain = plain_size = 0;
    for (int64_t i = 0; i < c.width; ++i) {
      const int64_t at = row * c.width + i;
      const double gw = dy[at] * w[i];
      dx[at] = rstd[row] * (gw - plain / n - hat(i) * dot / n) + dsum[at] + old;
      dx_bound[at] =
          grow * (rstd[row] * (std::abs(gw) + plain_size / n + std::abs(hat(i)) * dot_size / n) +
                  std::abs(dsum[at]) + old);
      dx_bound[at] += storage_error(t.x, std::abs(dx[at]) + dx_bound[at]);
    }
  }
  // A chunk holds a 64th of the rows, at least 4; then come at most 64 chunks.
  const double row_steps =
      static_cast<double>(std::max<int64_t>(4, c.rows / 64 + 1) + std::min<int64_t>(64, c.rows));
  Values dw_bound(c.width), db_bound(c.width);
  for (int64_t i = 0; i < c.width; ++i) {
    dw_bound[i] = (row_steps + 4) * unit * dw_size[i] + storage_error(t.weight, dw_size[i]);
    db_bound[i] = (row_steps + 4) * unit * db_size[i];
  }
  expect_within(read(found.dx), dx, dx_bound, what + " dx");
  expect_within(read(found.dweight), dw, dw_bound, what + " dweight");
  expect_within(read(found.dbias), db, db_bound, what + " dbias");
}

TEST_P(CpuNorm, BackwardAgreesWithDouble) {
  for (const RowCase& c : row_cases) {
    for (const Types& t : type_cases) {
      for (const bool with_sum : {false, true}) {
        const BackwardInputs in(GetParam(), c, t, with_sum);
        check_backward(GetParam(), c, t, in, NAN, text(GetParam(), c, t));
        check_backward(GetParam(), c, t, in, 2.5, text(GetParam(), c, t) + " accumulating");
      }
    }
  }
}

TEST_P(CpuNorm, WithoutParametersOnlyDxIsWritten) {
  const RowCase c{9, 21};
  const Types t{DType::f32, DType::f32, DType::f32};
  BackwardInputs in(GetParam(), c, t, false);
  const Backward with = [&] {
    BackwardInputs ones = in;
    ones.weight = filled({c.width}, DType::f32, 1);
    return run_backward(GetParam(), c, t, ones, NAN);
  }();
  const Tensor dx = filled({c.rows, c.width}, DType::f32, NAN);
  kernels.backward(
      {.kind = GetParam(), .dy = in.dy, .x = in.x, .mean = in.mean, .rstd = in.rstd, .dx = {dx}});
  expect_same_bits(dx, with.dx, "dx");
}

// Every target has a flag of its own, and may be absent.
TEST_P(CpuNorm, TargetsAreIndependent) {
  const RowCase c{9, 21};
  const Types t{DType::f32, DType::f32, DType::f32};
  const BackwardInputs in(GetParam(), c, t, false);
  const Backward written = run_backward(GetParam(), c, t, in, NAN),
                 added = run_backward(GetParam(), c, t, in, 2.5);
  const Tensor dweight = filled({c.width}, DType::f32, 2.5),
               dbias = filled({c.width}, DType::f32, NAN);
  kernels.backward({.kind = GetParam(),
                    .dy = in.dy,
                    .x = in.x,
                    .weight = in.weight,
                    .mean = in.mean,
                    .rstd = in.rstd,
                    .dweight = {dweight, true},
                    .dbias = {dbias}});
  expect_same_bits(dweight, added.dweight, "dweight");
  expect_same_bits(dbias, written.dbias, "dbias");
}

TEST_P(CpuNorm, BitsDoNotDependOnThreads) {
  for (const RowCase& c : {RowCase{301, 77}, RowCase{37, 1024}}) {
    for (const Types& t :
         {Types{DType::f32, DType::f32, DType::f32}, Types{DType::bf16, DType::f32, DType::bf16}}) {
      const BackwardInputs in(GetParam(), c, t, true);
      std::vector<Backward> backwards;
      std::vector<Forward> forwards;
      for (const int count : {1, 2, 8}) {
        const ThreadCount threads(count);
        forwards.push_back(run_forward(GetParam(), c, t, in.x, in.dsum, in.weight, {}));
        backwards.push_back(run_backward(GetParam(), c, t, in, NAN));
      }
      for (const size_t i : {1u, 2u}) {
        expect_same_bits(forwards[i].y, forwards[0].y, "y");
        expect_same_bits(forwards[i].rstd, forwards[0].rstd, "rstd");
        expect_same_bits(backwards[i].dx, backwards[0].dx, "dx");
        expect_same_bits(backwards[i].dweight, backwards[0].dweight, "dweight");
        expect_same_bits(backwards[i].dbias, backwards[0].dbias, "dbias");
      }
    }
  }
}

TEST(CpuNormStatistics, SurviveALargeMean) {
  // One pass over squares would lose the variance: 1e4^2 * eps(f32) is far above 1.
  const RowCase c{4, 3000};
  const Types t{DType::f32, DType::f32, DType::f32};
  const Tensor x = shifted_noise({c.rows, c.width}, DType::f32, 8, 1e4, 1);
  for (const double r : read(run_forward(NormKind::layer, c, t, x, {}, {}, {}).rstd))
    EXPECT_NEAR(r, 1, 0.06);
}

TEST(CpuNormStatistics, OneBadElementSpoilsItsRowOnly) {
  const RowCase c{3, 40};
  const Types t{DType::f32, DType::f32, DType::f32};
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    const Tensor x = noise({c.rows, c.width}, DType::f32, 9);
    x.mutable_data<float>()[40 + 17] = static_cast<float>(bad);
    const Values y = read(run_forward(NormKind::layer, c, t, x, {}, {}, {}).y);
    for (int64_t i = 0; i < 120; ++i) EXPECT_EQ(std::isnan(y[i]), i / 40 == 1) << i;
  }
}

// ---- batch and group norm: sets of elements that share statistics and, within them, channels ----

struct SetNorm {
  int64_t n, groups, channels, inner;  // batch norm: groups is 1 and statistics span n
  bool batch;

  int64_t size() const { return n * groups * channels * inner; }
  int64_t parameters() const { return groups * channels; }
  int64_t channel(int64_t i) const { return i / inner % parameters(); }
  int64_t sets() const { return batch ? channels : n * groups; }
  int64_t set(int64_t i) const { return batch ? channel(i) : i / (inner * channels); }
  int64_t set_size() const { return sets() == 0 ? 0 : size() / sets(); }
  Shape shape() const {
    return batch ? Shape{n, channels, inner} : Shape{n, groups, channels, inner};
  }
  Shape set_shape() const { return batch ? Shape{channels} : Shape{n, groups}; }
  // Rows of `inner` sum in the compute type, then rows join in f64 or channels one by one.
  double steps() const {
    return cpu_norm_test::steps(batch ? inner : channels * inner) + static_cast<double>(channels);
  }
};

const SetNorm set_cases[] = {
    {4, 1, 3, 25, true},    {2, 1, 5, 1, true},  {1, 1, 1, 1, true},   {3, 1, 17, 49, true},
    {2, 1, 2, 5000, true},  {0, 1, 3, 4, true},  {64, 1, 2, 1, true},  {2, 3, 4, 9, false},
    {1, 1, 1, 1, false},    {3, 2, 5, 1, false}, {2, 1, 7, 33, false}, {2, 4, 1, 50, false},
    {1, 2, 3, 3000, false}, {0, 2, 3, 4, false},
};

std::string text(const SetNorm& c, const Types& t) {
  return std::string(c.batch ? "batch " : "group ") + to_string(c.shape()) + " " +
         std::string(name(t.x)) + " " + std::string(name(t.weight)) + " " + std::string(name(t.y));
}

struct SetForward {
  Tensor y, mean, rstd;
};

SetForward run_forward(const SetNorm& c, const Types& t, const Tensor& x, const Tensor& weight,
                       const Tensor& bias) {
  SetForward out{filled(c.shape(), t.y, NAN), filled(c.set_shape(), accumulation_type(t.x), NAN),
                 filled(c.set_shape(), accumulation_type(t.x), NAN)};
  const ChannelNormForward args{.x = x,
                                .weight = weight,
                                .bias = bias,
                                .eps = eps,
                                .y = out.y,
                                .mean = out.mean,
                                .rstd = out.rstd};
  if (c.batch) {
    kernels.batch_forward(args);
  } else {
    kernels.group_forward(args);
  }
  return out;
}

TEST(CpuSetNorms, ForwardAgreesWithDouble) {
  for (const SetNorm& c : set_cases) {
    if (c.batch && c.n == 0) continue;  // no statistics of nothing
    for (const Types& t : type_cases) {
      const Tensor x_tensor = shifted_noise(c.shape(), t.x, 1, 2, 0.7),
                   weight = noise({c.parameters()}, t.weight, 2),
                   bias = noise({c.parameters()}, t.weight, 3);
      const SetForward found = run_forward(c, t, x_tensor, weight, bias);
      const Values x = read(x_tensor), w = read(weight), b = read(bias);
      const double n = static_cast<double>(c.set_size()), unit = sum_epsilon(t.x),
                   grow = c.steps() * unit;
      Values mean(c.sets()), size(c.sets()), variance(c.sets()), rstd(c.sets()), y(x.size()),
          y_bound(x.size()), mean_bound(c.sets()), rstd_bound(c.sets());
      for (int64_t i = 0; i < c.size(); ++i)
        mean[c.set(i)] += x[i] / n, size[c.set(i)] += std::abs(x[i]) / n;
      for (int64_t i = 0; i < c.size(); ++i)
        variance[c.set(i)] += std::pow(x[i] - mean[c.set(i)], 2) / n;
      for (int64_t s = 0; s < c.sets(); ++s) {
        rstd[s] = 1 / std::sqrt(variance[s] + eps);
        mean_bound[s] = (grow + 2 * unit) * size[s];
        rstd_bound[s] = rstd[s] * (grow + std::pow(mean_bound[s] * rstd[s], 2));
      }
      for (int64_t i = 0; i < c.size(); ++i) {
        const int64_t s = c.set(i), k = c.channel(i);
        const double centered = x[i] - mean[s];
        y[i] = centered * rstd[s] * w[k] + b[k];
        y_bound[i] = std::abs(w[k]) * (rstd[s] * (mean_bound[s] + unit * std::abs(x[i])) +
                                       std::abs(centered) * (rstd_bound[s] + 4 * unit * rstd[s])) +
                     unit * std::abs(y[i]);
        y_bound[i] += storage_error(t.y, std::abs(y[i]) + y_bound[i]);
      }
      expect_within(read(found.y), y, y_bound, text(c, t) + " y");
      expect_within(read(found.mean), mean, mean_bound, text(c, t) + " mean");
      expect_within(read(found.rstd), rstd, rstd_bound, text(c, t) + " rstd");
    }
  }
}

struct SetInputs {
  Tensor dy, x, weight;
  SetForward forward;

  SetInputs(const SetNorm& c, const Types& t)
      : dy(noise(c.shape(), t.y, 5)),
        x(shifted_noise(c.shape(), t.x, 1, 0.5, 2)),
        weight(noise({c.parameters()}, t.weight, 2)),
        forward(run_forward(c, t, x, weight, {})) {}
};

Backward run_backward(const SetNorm& c, const Types& t, const SetInputs& in, bool training,
                      double present) {
  const bool accumulate = !std::isnan(present);
  Backward out{filled(c.shape(), t.x, NAN), filled({c.parameters()}, t.weight, present),
               filled({c.parameters()}, accumulation_type(t.x), present)};
  const ChannelNormBackward args{.dy = in.dy,
                                 .x = in.x,
                                 .weight = in.weight,
                                 .mean = in.forward.mean,
                                 .rstd = in.forward.rstd,
                                 .training = training,
                                 .dx = out.dx,
                                 .dweight = {out.dweight, accumulate},
                                 .dbias = {out.dbias, accumulate}};
  if (c.batch) {
    kernels.batch_backward(args);
  } else {
    kernels.group_backward(args);
  }
  return out;
}

void check_backward(const SetNorm& c, const Types& t, bool training, double present) {
  const std::string what = text(c, t) + (training ? "" : " evaluation");
  const SetInputs in(c, t);
  const Backward found = run_backward(c, t, in, training, present);
  const Values dy = read(in.dy), x = read(in.x), w = read(in.weight), mean = read(in.forward.mean),
               rstd = read(in.forward.rstd);
  const double old = std::isnan(present) ? 0 : present, n = static_cast<double>(c.set_size());
  const double grow = c.steps() * sum_epsilon(t.x);
  Values plain(c.sets()), plain_size(c.sets()), dot(c.sets()), dot_size(c.sets()), dx(x.size()),
      dx_bound(x.size());
  Values dw(c.parameters(), old), dw_bound(c.parameters(), grow * old), db = dw,
                                                                        db_bound = dw_bound;
  const auto hat = [&](int64_t i) { return (x[i] - mean[c.set(i)]) * rstd[c.set(i)]; };
  for (int64_t i = 0; i < c.size(); ++i) {
    const int64_t s = c.set(i), k = c.channel(i);
    const double g = dy[i] * w[k];
    plain[s] += g / n, plain_size[s] += std::abs(g) / n, dot[s] += g * hat(i) / n,
        dot_size[s] += std::abs(g * hat(i)) / n;
    dw[k] += dy[i] * hat(i), dw_bound[k] += grow * std::abs(dy[i] * hat(i));
    db[k] += dy[i], db_bound[k] += grow * std::abs(dy[i]);
  }
  for (int64_t i = 0; i < c.size(); ++i) {
    const int64_t s = c.set(i);
    const double g = dy[i] * w[c.channel(i)], through = training ? 1 : 0;
    dx[i] = rstd[s] * (g - through * (plain[s] + hat(i) * dot[s]));
    dx_bound[i] =
        grow * rstd[s] * (std::abs(g) + through * (plain_size[s] + std::abs(hat(i)) * dot_size[s]));
    dx_bound[i] += storage_error(t.x, std::abs(dx[i]) + dx_bound[i]);
  }
  for (int64_t k = 0; k < c.parameters(); ++k)
    dw_bound[k] += storage_error(t.weight, std::abs(dw[k]) + dw_bound[k]);
  for (int64_t k = 0; k < c.parameters(); ++k)
    db_bound[k] += storage_error(accumulation_type(t.x), db[k]);
  expect_within(read(found.dx), dx, dx_bound, what + " dx");
  expect_within(read(found.dweight), dw, dw_bound, what + " dweight");
  expect_within(read(found.dbias), db, db_bound, what + " dbias");
}

TEST(CpuSetNorms, BackwardAgreesWithDouble) {
  for (const SetNorm& c : set_cases) {
    if (c.batch && c.n == 0) continue;
    for (const Types& t : type_cases) {
      for (const double present : {static_cast<double>(NAN), 1.5}) {
        check_backward(c, t, true, present);
        if (c.batch) check_backward(c, t, false, present);
      }
    }
  }
}

TEST(CpuSetNorms, EvaluationReadsTheGivenStatistics) {
  const Shape shape{2, 3, 5};
  const Tensor x = noise(shape, DType::f32, 1), y = filled(shape, DType::f32, NAN);
  const Tensor mean = make({3}, DType::f32, {1, 2, 3}), rstd = make({3}, DType::f32, {0.5, 2, 4});
  kernels.batch_forward(
      {.x = x, .eps = eps, .training = false, .y = y, .mean = mean, .rstd = rstd});
  const Values in = read(x), out = read(y), m = read(mean), r = read(rstd);
  for (size_t i = 0; i < in.size(); ++i) {
    const size_t k = i / 5 % 3;
    EXPECT_NEAR(out[i], (in[i] - m[k]) * r[k],
                4 * epsilon(DType::f32) * (std::abs(in[i]) + 3) * r[k]);
  }
  EXPECT_EQ(m, (Values{1, 2, 3}));
}

TEST(CpuSetNorms, BitsDoNotDependOnThreads) {
  const Types t{DType::bf16, DType::f32, DType::bf16};
  for (const SetNorm& c : {SetNorm{6, 1, 31, 49, true}, SetNorm{6, 4, 8, 49, false}}) {
    const SetInputs in(c, t);
    std::vector<Backward> backwards;
    std::vector<SetForward> forwards;
    for (const int count : {1, 2, 8}) {
      const ThreadCount threads(count);
      forwards.push_back(run_forward(c, t, in.x, in.weight, {}));
      backwards.push_back(run_backward(c, t, in, true, NAN));
    }
    for (const size_t i : {1u, 2u}) {
      expect_same_bits(forwards[i].y, forwards[0].y, "y");
      expect_same_bits(backwards[i].dx, backwards[0].dx, "dx");
      expect_same_bits(backwards[i].dweight, backwards[0].dweight, "dweight");
      expect_same_bits(backwards[i].dbias, backwards[0].dbias, "dbias");
    }
  }
}

}  // namespace
}  // namespace binade::backend::cpu_norm_test
