#include <gtest/gtest.h>

#include "backend/cpu/values.h"
#include "binade/backend/backend.h"
#include "binade/backend/gpu.h"
#include "binade/backend/transfer.h"

// Norm backward of 16-bit rows on a GPU against the definition in double.
namespace binade::backend::cuda_norm_backward_test {
namespace {

class NormBackward16BitGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (gpus().empty()) GTEST_SKIP() << "there is no GPU";
  }
};

struct Case {
  NormKind kind;
  DType data, parameters;
  int64_t rows, width;
  bool with_sum = false, accumulates = false;

  bool sums_dx() const { return kind == NormKind::layer && with_sum; }
  std::string text() const {
    return std::string(kind == NormKind::layer ? "layer " : "rms ") + std::string(name(data)) +
           " " + std::string(name(parameters)) + " " + std::to_string(rows) + " x " +
           std::to_string(width) + (with_sum ? " with a sum" : "") +
           (accumulates ? " accumulating" : "");
  }
};

struct Inputs {
  Tensor dy, dsum, x, weight, mean, rstd;

  explicit Inputs(const Case& c)
      : dy(noise({c.rows, c.width}, c.data, 1)),
        dsum(c.with_sum ? noise({c.rows, c.width}, c.data, 2) : Tensor()),
        x(noise({c.rows, c.width}, c.data, 3)),
        weight(noise({c.width}, c.parameters, 4)),
        mean(c.kind == NormKind::layer ? noise({c.rows}, DType::f32, 5) : Tensor()),
        rstd(filled({c.rows}, DType::f32, 0.75)) {}
};

struct Outputs {
  Tensor dx, dx_sums, dweight, dbias;
};

constexpr double present = 2.5;  // in targets that are added to

Outputs run(const Case& c, const Inputs& in) {
  const Device gpu = Device::cuda();
  const auto there = [&](const Tensor& x) { return x.defined() ? transfer(x, gpu) : Tensor(); };
  const double old = c.accumulates ? present : NAN;
  const Outputs out{
      there(filled({c.rows, c.width}, c.data, old)), there(filled({1, c.width}, DType::f32, old)),
      there(filled({c.width}, DType::f32, old)), there(filled({c.width}, DType::f32, old))};
  const Tensor dy = there(in.dy), dsum = there(in.dsum), x = there(in.x), weight = there(in.weight),
               mean = there(in.mean), rstd = there(in.rstd);
  backend::of(gpu).norm.backward(
      {.kind = c.kind,
       .dy = dy,
       .dsum = dsum,
       .x = x,
       .weight = weight,
       .mean = mean,
       .rstd = rstd,
       .dx = {out.dx, c.accumulates},
       .dx_sums = c.sums_dx() ? Target{out.dx_sums, c.accumulates} : Target{},
       .dweight = {out.dweight, c.accumulates},
       .dbias = c.kind == NormKind::layer ? Target{out.dbias, c.accumulates} : Target{}});
  const auto here = [](const Tensor& x) { return transfer(x, Device::cpu()); };
  return {here(out.dx), here(out.dx_sums), here(out.dweight), here(out.dbias)};
}

// A value and the magnitudes of the terms it is the sum of.
struct Sum {
  double value = 0, size = 0;
  void add(double term) { value += term, size += std::abs(term); }
};

void check(const Case& c) {
  const Inputs in(c);
  const Outputs found = run(c, in);
  const double unit = sum_epsilon(c.data), n = static_cast<double>(c.width);
  const double old = c.accumulates ? present : 0;
  const Values dy = read(in.dy), x = read(in.x), w = read(in.weight), rstd = read(in.rstd),
               mean = in.mean.defined() ? read(in.mean) : Values(static_cast<size_t>(c.rows)),
               dsum = in.dsum.defined() ? read(in.dsum) : Values(x.size());
  Values dx(x.size()), dx_bound(x.size());
  std::vector<Sum> dw(static_cast<size_t>(c.width)), db(dw.size());
  for (int64_t row = 0; row < c.rows; ++row) {
    Sum plain, dot;
    const auto hat = [&](int64_t i) { return (x[row * c.width + i] - mean[row]) * rstd[row]; };
    for (int64_t i = 0; i < c.width; ++i) {
      const double g = dy[row * c.width + i];
      if (c.kind == NormKind::layer) plain.add(g * w[i]);
      dot.add(g * w[i] * hat(i));
      dw[i].add(g * hat(i));
      db[i].add(g);
    }
    for (int64_t i = 0; i < c.width; ++i) {
      const int64_t at = row * c.width + i;
      Sum all;
      for (const double term : {rstd[row] * dy[at] * w[i], dsum[at], old}) all.add(term);
      dx[at] = all.value - rstd[row] * (plain.value / n + hat(i) * dot.value / n);
      // A thread adds at most 24 elements and then 10 sums of others.
      dx_bound[at] =
          44 * unit * (all.size + rstd[row] * (plain.size + std::abs(hat(i)) * dot.size) / n);
      dx_bound[at] += storage_error(c.data, std::abs(dx[at]) + dx_bound[at]);
    }
  }
  expect_within(read(found.dx), dx, dx_bound, c.text() + " dx");
  const auto check_sums = [&](const Tensor& sums, std::vector<Sum>& expected, const char* which) {
    Values values, bounds;
    for (Sum& sum : expected) {
      sum.add(old);
      values.push_back(sum.value);
      bounds.push_back(static_cast<double>(c.rows + 4) * unit * sum.size);
    }
    expect_within(read(sums), values, bounds, c.text() + which);
  };
  check_sums(found.dweight, dw, " dweight");
  if (c.kind == NormKind::layer) check_sums(found.dbias, db, " dbias");
  if (!c.sums_dx()) return;
  const Values stored = read(found.dx);
  std::vector<Sum> totals(db.size());
  for (size_t i = 0; i < stored.size(); ++i) totals[i % totals.size()].add(stored[i]);
  check_sums(found.dx_sums, totals, " sums of dx");
}

TEST_F(NormBackward16BitGpu, IsTheDefinition) {
  // Widths of one to three packs per thread of a warp, and of blocks; more rows than teams.
  for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{3, 8},
                                    {1700, 248},
                                    {517, 512},
                                    {1700, 768},
                                    {301, 1024},
                                    {1100, 2048},
                                    {37, 4104},
                                    {5, 8192}}) {
    for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
      check({kind, DType::bf16, DType::bf16, rows, width, true});
      check({kind, DType::f16, DType::f32, rows, width});
    }
  }
  check({NormKind::layer, DType::bf16, DType::f32, 300, 768, true, true});
}

TEST_F(NormBackward16BitGpu, GivesTheSameBitsTwice) {
  const Case c{NormKind::layer, DType::bf16, DType::bf16, 2000, 768, true};
  const Inputs in(c);
  const Outputs once = run(c, in), again = run(c, in);
  expect_same_bits(again.dx, once.dx, "dx");
  expect_same_bits(again.dx_sums, once.dx_sums, "sums of dx");
  expect_same_bits(again.dweight, once.dweight, "dweight");
  expect_same_bits(again.dbias, once.dbias, "dbias");
}

}  // namespace
}  // namespace binade::backend::cuda_norm_backward_test
