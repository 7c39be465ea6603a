#include "binade/backend/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "backend/cpu/values.h"
#include "binade/backend/cpu/kernels.h"

namespace binade::backend::cpu_attention_test {
namespace {

const AttentionKernels& kernels = cpu::attention_kernels;

struct Case {
  int64_t batch, heads, kv_heads, queries, keys, dim;
  bool causal;

  Shape q_shape() const { return {batch, heads, queries, dim}; }
  Shape k_shape() const { return {batch, kv_heads, keys, dim}; }
  Shape lse_shape() const { return {batch, heads, queries}; }
  double scale() const { return dim > 0 ? 1 / std::sqrt(static_cast<double>(dim)) : 1; }
  // Keys that a query sees.
  int64_t visible(int64_t query) const {
    return causal ? std::clamp<int64_t>(query + keys - queries + 1, 0, keys) : keys;
  }
  std::string text(DType dtype) const {
    std::string text(name(dtype));
    for (const int64_t size : {batch, heads, kv_heads, queries, keys, dim}) {
      text += " " + std::to_string(size);
    }
    return text + (causal ? " causal" : "");
  }
};

// The last ones have several blocks of queries and of keys.
const Case cases[] = {
    {2, 4, 4, 64, 64, 32, false},   {2, 4, 4, 64, 64, 32, true},    {1, 4, 2, 70, 70, 64, true},
    {1, 6, 2, 33, 129, 40, false},  {1, 6, 1, 33, 129, 40, true},   {1, 2, 2, 130, 65, 16, true},
    {2, 3, 3, 1, 77, 80, true},     {1, 2, 1, 1, 1, 1, false},      {1, 2, 2, 5, 3, 7, true},
    {1, 1, 1, 100, 100, 256, true}, {1, 2, 2, 128, 192, 96, false}, {1, 2, 1, 3, 0, 8, false},
    {1, 2, 1, 0, 5, 8, true},       {0, 2, 2, 4, 4, 8, false},      {3, 8, 4, 200, 200, 5, true},
    {1, 2, 1, 300, 530, 24, true},  {1, 1, 1, 530, 301, 9, true},   {1, 1, 1, 270, 259, 16, false},
};

struct Inputs {
  Tensor q, k, v, dout;

  Inputs(const Case& c, DType dtype)
      : q(noise(c.q_shape(), dtype, 1)),
        k(noise(c.k_shape(), dtype, 2)),
        v(noise(c.k_shape(), dtype, 3)),
        dout(noise(c.q_shape(), dtype, 4)) {}
};

struct Results {
  Tensor out, lse, dq, dk, dv;

  Results(const Case& c, DType dtype)
      : out(filled(c.q_shape(), dtype, NAN)),
        lse(filled(c.lse_shape(), dtype == DType::f64 ? dtype : DType::f32, NAN)),
        dq(filled(c.q_shape(), dtype, NAN)),
        dk(filled(c.k_shape(), dtype, NAN)),
        dv(filled(c.k_shape(), dtype, NAN)) {}
};

void run_forward(const Case& c, const Inputs& in, const Results& r) {
  kernels.forward({.q = in.q,
                   .k = in.k,
                   .v = in.v,
                   .scale = c.scale(),
                   .causal = c.causal,
                   .out = r.out,
                   .lse = r.lse});
}

void run_backward(const Case& c, const Inputs& in, const Results& r) {
  kernels.backward({.dout = in.dout,
                    .q = in.q,
                    .k = in.k,
                    .v = in.v,
                    .out = r.out,
                    .lse = r.lse,
                    .scale = c.scale(),
                    .causal = c.causal,
                    .dq = r.dq,
                    .dk = r.dk,
                    .dv = r.dv});
}

Results run(const Case& c, DType dtype, const Inputs& in) {
  Results r(c, dtype);
  run_forward(c, in, r);
  run_backward(c, in, r);
  return r;
}

// Values and the error that f32 (f64) arithmetic may add to each.
struct Bounded {
  Values value, error;

  explicit Bounded(int64_t size) : value(static_cast<size_t>(size)), error(value) {}
  void add(size_t i, double v, double e) {
    value[i] += v;
    error[i] += e;
  }
};

// Where operands are bf16 a probability, and the gradient of a score, is rounded to it before it is
// multiplied.
double operand_rounding(DType dtype) {
  return dtype == DType::bf16 ? 0.5 * epsilon(DType::bf16) : 0;
}

// One query's row of scores, probabilities and their errors, straight from the definition.
struct Row {
  Values score, p;
  double score_error = 0;  // the largest
  double maximum = -std::numeric_limits<double>::infinity(), sum = 0;

  Row(const Case& c, const double* q, const double* k, int64_t visible, double eps) {
    const auto dim = static_cast<size_t>(c.dim);
    for (int64_t j = 0; j < visible; ++j) {
      double s = 0, size = 0;
      for (size_t p = 0; p < dim; ++p) {
        const double term = c.scale() * q[p] * k[static_cast<size_t>(j) * dim + p];
        s += term;
        size += std::abs(term);
      }
      score.push_back(s);
      score_error = std::max(score_error, static_cast<double>(c.dim + 2) * eps * size);
      maximum = std::max(maximum, s);
    }
    for (const double s : score) sum += std::exp(s - maximum);
    for (const double s : score) p.push_back(std::exp(s - maximum) / sum);
  }
  double lse() const { return maximum + std::log(sum); }
};

const double* head(const Values& x, const Case& c, int64_t batch, int64_t heads, int64_t h,
                   int64_t rows) {
  return x.data() + (batch * heads + h) * rows * c.dim;
}

void check_forward(const Case& c, DType dtype, const Inputs& in, const Results& found) {
  const double eps = sum_epsilon(dtype);
  const Values q = read(in.q), k = read(in.k), v = read(in.v);
  Bounded out(in.q.numel()), lse(found.lse.numel());
  size_t at = 0;
  for (int64_t row = 0; row < c.batch * c.heads * c.queries; ++row) {
    const int64_t h = row / c.queries % c.heads, b = row / c.queries / c.heads;
    const int64_t kv = h / (c.heads / c.kv_heads);
    const double* values = head(v, c, b, c.kv_heads, kv, c.keys);
    const Row r(c, q.data() + row * c.dim, head(k, c, b, c.kv_heads, kv, c.keys),
                c.visible(row % c.queries), eps);
    // exp of the score and of the maximum are each off by score_error, the sums by one eps a term.
    const double relative = 2 * r.score_error + static_cast<double>(2 * c.keys + 16) * eps;
    for (int64_t p = 0; p < c.dim; ++p, ++at) {
      double size = 0;
      for (size_t j = 0; j < r.p.size(); ++j) {
        const double term = r.p[j] * values[static_cast<int64_t>(j) * c.dim + p];
        out.value[at] += term;
        size += std::abs(term);
      }
      out.error[at] =
          (relative + operand_rounding(dtype)) * size + storage_error(dtype, out.value[at]);
    }
    const auto i = static_cast<size_t>(row);
    if (r.p.empty()) {
      EXPECT_EQ(read(found.lse)[i], -std::numeric_limits<double>::infinity());
    } else {
      lse.value[i] = r.lse();
      lse.error[i] = relative + 4 * eps * (std::abs(r.maximum) + std::abs(r.lse()));
    }
  }
  expect_within(read(found.out), out.value, out.error, "out " + c.text(dtype));
  Values found_lse = read(found.lse);
  for (double& value : found_lse) value = std::isinf(value) ? 0 : value;
  expect_within(found_lse, lse.value, lse.error, "lse " + c.text(dtype));
}

// The gradients' definition, given the `out` that the forward stored (its rounding is not the
// backward's error).
void check_backward(const Case& c, DType dtype, const Inputs& in, const Results& found) {
  const double eps = sum_epsilon(dtype);
  const Values q = read(in.q), k = read(in.k), v = read(in.v), dout = read(in.dout),
               out = read(found.out);
  Bounded dq(in.q.numel()), dk(in.k.numel()), dv(in.k.numel());
  const int64_t group = c.heads / c.kv_heads, dim = c.dim;
  const double terms =
      static_cast<double>(group * c.queries + c.keys + 16) * eps + operand_rounding(dtype);
  for (int64_t row = 0; row < c.batch * c.heads * c.queries; ++row) {
    const int64_t h = row / c.queries % c.heads, b = row / c.queries / c.heads;
    const int64_t first = (b * c.kv_heads + h / group) * c.keys * dim;
    const double* query = q.data() + row * dim;
    const double* gradient = dout.data() + row * dim;
    const Row r(c, query, k.data() + first, c.visible(row % c.queries), eps);
    double delta = 0, delta_size = 0;
    for (int64_t p = 0; p < dim; ++p) {
      delta += gradient[p] * out[static_cast<size_t>(row * dim + p)];
      delta_size += std::abs(gradient[p] * out[static_cast<size_t>(row * dim + p)]);
    }
    for (size_t j = 0; j < r.p.size(); ++j) {
      const int64_t key = first + static_cast<int64_t>(j) * dim;
      double dp = 0, dp_size = 0;
      for (int64_t p = 0; p < dim; ++p) {
        dp += gradient[p] * v[static_cast<size_t>(key + p)];
        dp_size += std::abs(gradient[p] * v[static_cast<size_t>(key + p)]);
      }
      const double relative =
          2 * r.score_error + (4 * std::abs(r.lse()) + static_cast<double>(2 * c.keys + 16)) * eps;
      const double ds = r.p[j] * (dp - delta);
      const double ds_error = relative * std::abs(ds) +
                              r.p[j] * static_cast<double>(dim + 4) * eps * (dp_size + delta_size);
      for (int64_t p = 0; p < dim; ++p) {
        const auto kp = static_cast<size_t>(key + p), qp = static_cast<size_t>(row * dim + p);
        dv.add(kp, r.p[j] * gradient[p], (relative + terms) * std::abs(r.p[j] * gradient[p]));
        dk.add(kp, c.scale() * ds * query[p],
               c.scale() * (ds_error + terms * std::abs(ds)) * std::abs(query[p]));
        dq.add(qp, c.scale() * ds * k[kp],
               c.scale() * (ds_error + terms * std::abs(ds)) * std::abs(k[kp]));
      }
    }
  }
  for (Bounded* x : {&dq, &dk, &dv}) {
    for (size_t i = 0; i < x->value.size(); ++i) x->error[i] += storage_error(dtype, x->value[i]);
  }
  expect_within(read(found.dq), dq.value, dq.error, "dq " + c.text(dtype));
  expect_within(read(found.dk), dk.value, dk.error, "dk " + c.text(dtype));
  expect_within(read(found.dv), dv.value, dv.error, "dv " + c.text(dtype));
}

TEST(CpuAttention, FollowsItsDefinition) {
  for (const DType dtype : compute_types) {
    for (const Case& c : cases) {
      const Inputs in(c, dtype);
      const Results found = run(c, dtype, in);
      check_forward(c, dtype, in, found);
      check_backward(c, dtype, in, found);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CpuAttention, IsTheSameForAnyNumberOfThreads) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Case& c : {Case{1, 4, 2, 200, 260, 64, true}, Case{3, 2, 1, 130, 130, 24, false},
                          Case{1, 2, 1, 530, 530, 16, true}}) {
      const Inputs in(c, dtype);
      const Results one = [&] {
        ThreadCount count(1);
        return run(c, dtype, in);
      }();
      for (const int threads : {2, 8}) {
        ThreadCount count(threads);
        const Results many = run(c, dtype, in);
        expect_same_bits(one.out, many.out, "out");
        expect_same_bits(one.lse, many.lse, "lse");
        expect_same_bits(one.dq, many.dq, "dq");
        expect_same_bits(one.dk, many.dk, "dk");
        expect_same_bits(one.dv, many.dv, "dv");
      }
    }
  }
}

// q, k and v in one buffer [batch, tokens, 3, heads, dim], gradients in another.
TEST(CpuAttention, TakesPackedBuffers) {
  const Case c{2, 3, 3, 70, 70, 40, true};
  for (const DType dtype : compute_types) {
    const Inputs in(c, dtype);
    const Results dense = run(c, dtype, in);
    const Shape packed_shape{c.batch, c.queries, 3, c.heads, c.dim};
    const Tensor packed = filled(packed_shape, dtype, 0),
                 gradients = filled(packed_shape, dtype, NAN);
    const Strides strides{c.queries * 3 * c.heads * c.dim, c.dim, 3 * c.heads * c.dim, 1};
    const auto part = [&](const Tensor& x, int64_t index) {
      return x.strided(c.q_shape(), strides, index * c.heads * c.dim);
    };
    const auto copy = [&](const Tensor& from, const Tensor& to) {
      const size_t size = size_of(dtype);
      for (int64_t i = 0; i < from.numel(); ++i) {
        const int64_t p = i % c.dim, token = i / c.dim % c.queries, h = i / c.dim / c.queries;
        const int64_t offset =
            h / c.heads * strides[0] + h % c.heads * strides[1] + token * strides[2] + p;
        std::memcpy(static_cast<char*>(to.raw_data()) + static_cast<size_t>(offset) * size,
                    static_cast<const char*>(from.raw_data()) + static_cast<size_t>(i) * size,
                    size);
      }
    };
    copy(in.q, part(packed, 0));
    copy(in.k, part(packed, 1));
    copy(in.v, part(packed, 2));
    Inputs views = in;
    views.q = part(packed, 0);
    views.k = part(packed, 1);
    views.v = part(packed, 2);
    Results found(c, dtype);
    found.dq = part(gradients, 0);
    found.dk = part(gradients, 1);
    found.dv = part(gradients, 2);
    run_forward(c, views, found);
    expect_same_bits(found.out, dense.out, "out");
    run_backward(c, views, found);
    const Tensor expected = filled(packed_shape, dtype, NAN);
    copy(dense.dq, part(expected, 0));
    copy(dense.dk, part(expected, 1));
    copy(dense.dv, part(expected, 2));
    expect_same_bits(gradients, expected, "gradients");
  }
}

TEST(CpuAttention, RowsThatSeeNoKeyAreZero) {
  const Case c{1, 1, 1, 100, 20, 8, true};  // the first 80 queries come before every key
  const Inputs in(c, DType::f32);
  const Results found = run(c, DType::f32, in);
  for (int64_t i = 0; i < 80 * c.dim; ++i) {
    ASSERT_EQ(found.out.data<float>()[i], 0);
    ASSERT_EQ(found.dq.data<float>()[i], 0);
  }
  for (int64_t i = 0; i < 80; ++i) {
    ASSERT_EQ(found.lse.data<float>()[i], -std::numeric_limits<float>::infinity());
  }
  EXPECT_NE(found.out.data<float>()[80 * c.dim], 0);
}

// Up to scores of 1e13, where adjacent floats are a million apart.
TEST(CpuAttention, LargeScoresDoNotOverflow) {
  const Case c{1, 1, 1, 70, 70, 8, false};
  for (const float size : {1e2f, 1e4f, 1e6f}) {
    Inputs in(c, DType::f32);
    for (int64_t i = 0; i < in.q.numel(); ++i) in.q.mutable_data<float>()[i] *= size;
    for (int64_t i = 0; i < in.k.numel(); ++i) in.k.mutable_data<float>()[i] *= size;
    const Results found = run(c, DType::f32, in);
    for (const double value : read(found.out)) ASSERT_LE(std::abs(value), 10) << size;
    for (const double value : read(found.dk)) ASSERT_TRUE(std::isfinite(value)) << size;
    for (const double value : read(found.dv)) ASSERT_TRUE(std::isfinite(value)) << size;
  }
}

TEST(CpuAttention, NanReachesTheRowsThatSeeIt) {
  const Case c{1, 1, 1, 4, 4, 8, false};
  Inputs in(c, DType::f32);
  in.q.mutable_data<float>()[c.dim] = NAN;
  const Results found = run(c, DType::f32, in);
  for (int64_t i = 0; i < found.out.numel(); ++i) {
    EXPECT_EQ(std::isnan(found.out.data<float>()[i]), i / c.dim == 1) << i;
  }
  EXPECT_TRUE(std::isnan(found.dv.data<float>()[0]));
}

// d(sum(out * dout)) along a random direction of every input.
TEST(CpuAttention, BackwardMatchesFiniteDifferences) {
  const Case c{1, 4, 2, 9, 70, 6, true};
  const Inputs in(c, DType::f64);
  const Results found = run(c, DType::f64, in);
  const auto loss = [&](const Inputs& at) {
    Results r(c, DType::f64);
    run_forward(c, at, r);
    double sum = 0;
    for (int64_t i = 0; i < r.out.numel(); ++i)
      sum += r.out.data<double>()[i] * in.dout.data<double>()[i];
    return sum;
  };
  const auto check = [&](Tensor Inputs::*which, const Tensor& gradient, const char* what) {
    const Tensor direction = noise(gradient.shape(), DType::f64, 9);
    const double step = 1e-5;
    double expected = 0, difference = 0;
    for (int64_t i = 0; i < gradient.numel(); ++i) {
      expected += gradient.data<double>()[i] * direction.data<double>()[i];
    }
    for (const double sign : {1.0, -1.0}) {
      Inputs moved(c, DType::f64);
      for (int64_t i = 0; i < gradient.numel(); ++i) {
        (moved.*which).mutable_data<double>()[i] += sign * step * direction.data<double>()[i];
      }
      difference += sign * loss(moved) / (2 * step);
    }
    // The third derivative times step^2, and the loss's rounding over step.
    EXPECT_NEAR(difference, expected, 1e-7 * (1 + std::abs(expected))) << what;
  };
  check(&Inputs::q, found.dq, "dq");
  check(&Inputs::k, found.dk, "dk");
  check(&Inputs::v, found.dv, "dv");
}

struct Tables {
  Tensor cosine, sine;

  Tables(int64_t positions, int64_t half)
      : cosine(filled({positions, half}, DType::f32, 0)),
        sine(filled({positions, half}, DType::f32, 0)) {
    for (int64_t i = 0; i < positions * half; ++i) {
      const double angle = 0.1 * static_cast<double>((i / half + 1) * (i % half + 1));
      cosine.mutable_data<float>()[i] = static_cast<float>(std::cos(angle));
      sine.mutable_data<float>()[i] = static_cast<float>(std::sin(angle));
    }
  }
};

TEST(CpuRope, RotatesPairsByTheirPosition) {
  const int64_t batch = 2, tokens = 5, heads = 3, half = 7, start = 4, dim = 2 * half;
  const Tables tables(start + tokens, half);
  for (const DType dtype : compute_types) {
    for (const bool inverse : {false, true}) {
      const Tensor x = noise({batch, tokens, heads, dim}, dtype, 5);
      const Tensor y = filled(x.shape(), dtype, NAN);
      const auto rotate_into = [&](const Tensor& to) {
        kernels.rope({.x = x,
                      .cosine = tables.cosine,
                      .sine = tables.sine,
                      .start = start,
                      .inverse = inverse,
                      .y = to});
      };
      rotate_into(y);
      const Values in = read(x);
      Values expected(in.size()), bound(in.size());
      for (size_t row = 0; row < in.size() / dim; ++row) {
        const size_t position = start + row / heads % tokens;
        for (size_t i = 0; i < half; ++i) {
          const double c = tables.cosine.data<float>()[position * half + i];
          const double s = tables.sine.data<float>()[position * half + i] * (inverse ? -1 : 1);
          const size_t a = row * dim + i, b = a + half;
          expected[a] = in[a] * c - in[b] * s;
          expected[b] = in[b] * c + in[a] * s;
          for (const size_t at : {a, b}) {
            bound[at] = 2 * sum_epsilon(dtype) * (std::abs(in[a]) + std::abs(in[b])) +
                        storage_error(dtype, expected[at]);
          }
        }
      }
      expect_within(read(y), expected, bound, std::string(name(dtype)));
      rotate_into(x);
      expect_same_bits(x, y, "in place");
    }
  }
}

// The queries inside a packed buffer [batch, tokens, 3, heads, dim].
TEST(CpuRope, TakesStridedViewsAndLeavesTheRestAlone) {
  const int64_t batch = 2, tokens = 40, heads = 3, dim = 8;
  const Tables tables(tokens, dim / 2);
  const Tensor packed = noise({batch, tokens, 3, heads, dim}, DType::bf16, 6);
  const Values before = read(packed);
  const Strides strides{tokens * 3 * heads * dim, 3 * heads * dim, dim, 1};
  const Tensor part = packed.strided({batch, tokens, heads, dim}, strides, heads * dim);
  kernels.rope({.x = part, .cosine = tables.cosine, .sine = tables.sine, .y = part});
  const Values after = read(packed);
  for (size_t i = 0; i < before.size(); ++i) {
    const bool inside = i / (heads * dim) % 3 == 1;
    if (!inside) {
      ASSERT_EQ(after[i], before[i]);
    }
  }
  kernels.rope(
      {.x = part, .cosine = tables.cosine, .sine = tables.sine, .inverse = true, .y = part});
  const Values back = read(packed);
  for (size_t i = 0; i < before.size(); ++i) {
    ASSERT_NEAR(back[i], before[i], 4 * epsilon(DType::bf16) * 4);
  }
}

}  // namespace
}  // namespace binade::backend::cpu_attention_test
