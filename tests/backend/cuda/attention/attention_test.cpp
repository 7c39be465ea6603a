#ifdef BINADE_CUDA

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "backend/cpu/values.h"
#include "binade/backend/attention.h"
#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cuda/attention/hopper.h"
#include "binade/backend/cuda/attention/simt.h"
#include "binade/backend/cuda/common/tensor_map.h"
#include "binade/backend/cuda/device.h"
#include "binade/backend/cuda/kernels.h"
#include "binade/backend/transfer.h"
#ifdef BINADE_CUDNN
#include "binade/backend/cuda/attention/cudnn.h"
#endif

namespace binade::backend::cuda_attention_test {
namespace {

struct Case {
  int64_t batch, heads, kv_heads, queries, keys, dim;
  bool causal;
  double q_factor = 1;

  Shape q_shape() const { return {batch, heads, queries, dim}; }
  Shape k_shape() const { return {batch, kv_heads, keys, dim}; }
  Shape lse_shape() const { return {batch, heads, queries}; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(dim)); }
  std::string text(DType dtype) const {
    std::string text(name(dtype));
    for (const int64_t size : {batch, heads, kv_heads, queries, keys, dim})
      text += " " + std::to_string(size);
    return text + (causal ? " causal" : "") +
           (q_factor != 1 ? " q x " + std::to_string(q_factor) : "");
  }
};

// Grouped heads, lengths that fill no tile, more keys than queries and fewer, every size of tile.
const Case cases[] = {
    {2, 4, 4, 64, 64, 64, false},   {2, 4, 4, 128, 128, 64, true},  {1, 4, 2, 70, 70, 64, true},
    {1, 6, 2, 33, 129, 40, false},  {1, 6, 1, 33, 129, 40, true},   {1, 2, 2, 130, 65, 16, true},
    {2, 3, 3, 1, 77, 80, true},     {1, 2, 1, 1, 1, 1, false},      {1, 2, 2, 5, 3, 7, true},
    {1, 1, 1, 100, 100, 256, true}, {1, 2, 2, 128, 192, 96, false}, {1, 2, 1, 3, 0, 8, false},
    {1, 2, 1, 0, 5, 8, true},       {0, 2, 2, 4, 4, 8, false},      {3, 8, 4, 200, 200, 128, true},
    {2, 4, 1, 257, 300, 72, true},  {1, 3, 3, 90, 70, 200, false},
};

// The arguments of a backward call: results of the forward among them.
struct Tensors {
  Tensor q, k, v, dout, out, lse, dq, dk, dv;
};

Tensors make_tensors(const Case& c, DType dtype) {
  Values q = read(noise(c.q_shape(), dtype, 1));
  for (double& x : q) x *= c.q_factor;
  return {.q = make(c.q_shape(), dtype, q),
          .k = noise(c.k_shape(), dtype, 2),
          .v = noise(c.k_shape(), dtype, 3),
          .dout = noise(c.q_shape(), dtype, 4),
          .out = filled(c.q_shape(), dtype, NAN),
          .lse = filled(c.lse_shape(), dtype == DType::f64 ? dtype : DType::f32, NAN),
          .dq = filled(c.q_shape(), dtype, NAN),
          .dk = filled(c.k_shape(), dtype, NAN),
          .dv = filled(c.k_shape(), dtype, NAN)};
}

Tensors moved(const Tensors& t, Device device) {
  const auto move = [&](const Tensor& x) { return transfer(x, device); };
  return {move(t.q),   move(t.k),  move(t.v),  move(t.dout), move(t.out),
          move(t.lse), move(t.dq), move(t.dk), move(t.dv)};
}

// One way to attend on the GPU. `own_rounding` is the relative error of storing probabilities and
// the gradients of scores in a smaller type; `operand_rounding` that of a matmul's operands.
struct Implementation {
  const char* name;
  bool (*forward)(const Case&, const Tensors&);
  bool (*backward)(const Case&, const Tensors&);
  double (*own_rounding)(DType);
  double operand_rounding = 0;
};

AttentionForward forward_call(const Case& c, const Tensors& t, bool tf32 = false) {
  return {.q = t.q,
          .k = t.k,
          .v = t.v,
          .scale = c.scale(),
          .causal = c.causal,
          .tf32 = tf32,
          .out = t.out,
          .lse = t.lse};
}

AttentionBackward backward_call(const Case& c, const Tensors& t, bool tf32 = false) {
  return {.dout = t.dout,
          .q = t.q,
          .k = t.k,
          .v = t.v,
          .out = t.out,
          .lse = t.lse,
          .scale = c.scale(),
          .causal = c.causal,
          .tf32 = tf32,
          .dq = t.dq,
          .dk = t.dk,
          .dv = t.dv};
}

const Implementation native_kernels{"native",
                                    [](const Case& c, const Tensors& t) {
                                      cuda::native::attention_forward(forward_call(c, t));
                                      return true;
                                    },
                                    [](const Case& c, const Tensors& t) {
                                      cuda::native::attention_backward(backward_call(c, t));
                                      return true;
                                    },
                                    [](DType) { return 0.0; }};

const Implementation table{
    "table",
    [](const Case& c, const Tensors& t) {
      cuda::attention_kernels.forward(forward_call(c, t));
      return true;
    },
    [](const Case& c, const Tensors& t) {
      cuda::attention_kernels.backward(backward_call(c, t));
      return true;
    },
    [](DType dtype) { return size_of(dtype) == 2 ? 4 * epsilon(dtype) : 0.0; }};

// The table with f32 operands rounded to TF32, whose epsilon is 2^-10.
const Implementation tf32{"tf32",
                          [](const Case& c, const Tensors& t) {
                            cuda::attention_kernels.forward(forward_call(c, t, true));
                            return true;
                          },
                          [](const Case& c, const Tensors& t) {
                            cuda::attention_kernels.backward(backward_call(c, t, true));
                            return true;
                          },
                          native_kernels.own_rounding, 0x1p-11};

// False, with nothing written, if the kernel does not support the call.
bool ran_hopper(const AttentionBackward& call) {
  const auto& kernel = cuda::native::hopper_backward;
  if (!kernel.supports(call)) return false;
  kernel.run(call);
  return true;
}

// Its backward after the table's forward.
const Implementation hopper{
    "Hopper", table.forward,
    [](const Case& c, const Tensors& t) { return ran_hopper(backward_call(c, t)); },
    table.own_rounding};

#ifdef BINADE_CUDNN
const Implementation cudnn{"cuDNN",
                           [](const Case& c, const Tensors& t) {
                             return cuda::cudnn::attention_forward(forward_call(c, t));
                           },
                           [](const Case& c, const Tensors& t) {
                             return cuda::cudnn::attention_backward(backward_call(c, t));
                           },
                           table.own_rounding};
#endif

Tensor widened(const Tensor& x) { return make(x.shape(), DType::f64, read(x)); }

double largest(const Tensor& x) {
  double most = 0;
  for (const double value : read(x)) most = std::max(most, std::abs(value));
  return most;
}

double largest_row_norm(const Tensor& x, int64_t dim) {
  const Values values = read(x);
  double most = 0, sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += values[i] * values[i];
    if (static_cast<int64_t>(i + 1) % dim == 0) {
      most = std::max(most, std::sqrt(sum));
      sum = 0;
    }
  }
  return most;
}

// The CPU's f64 attention of the same numbers, and bounds on what f32 sums (f64 for f64) and an
// implementation's own rounding may change.
class Reference {
 public:
  Reference(const Case& c, DType dtype, const Tensors& inputs, const Implementation& attention)
      : c_(c), dtype_(dtype), t_(make_tensors(c, DType::f64)) {
    t_.q = widened(inputs.q);
    t_.k = widened(inputs.k);
    t_.v = widened(inputs.v);
    t_.dout = widened(inputs.dout);
    cpu::attention_kernels.forward(forward_call(c, t_));
    const double eps = sum_epsilon(dtype);
    const double scores = c.scale() * largest_row_norm(t_.q, c.dim) * largest_row_norm(t_.k, c.dim);
    score_error_ = (static_cast<double>(c.dim + 4) * eps + 2 * attention.operand_rounding) * scores;
    const int64_t terms = c.keys + c.heads / c.kv_heads * c.queries + 32;
    sum_error_ = (static_cast<double>(terms) + 8 * scores) * eps;
    // Two matmuls follow the scores' in each result: four operands.
    relative_ = 2 * score_error_ + sum_error_ + attention.own_rounding(dtype) +
                4 * attention.operand_rounding;
  }

  void check_forward(const Tensors& found, const std::string& what) const {
    expect_near(found.out, t_.out, relative_ * largest(t_.v), "out " + what);
    const Values lse = read(found.lse), expected = read(t_.lse);
    for (size_t i = 0; i < lse.size(); ++i) {
      if (std::isinf(expected[i])) {
        ASSERT_EQ(lse[i], expected[i]) << what;
      } else {
        ASSERT_NEAR(lse[i], expected[i], 2 * score_error_ + sum_error_) << "lse " << what;
      }
    }
  }

  // Given the `out` that the forward stored: its rounding is not the backward's error.
  void check_backward(const Tensors& found, const std::string& what) {
    t_.out = widened(found.out);
    backward(t_.dout);
    const Tensors results = t_;
    // The gradient of a score is at most p (|dp| + |delta|) and both are products of rows.
    const double gradient =
        2 * largest_row_norm(t_.dout, c_.dim) * largest_row_norm(t_.v, c_.dim) * c_.scale();
    expect_near(found.dq, results.dq, relative_ * gradient * largest(t_.k), "dq " + what);
    // With dout = 1, dv is each key's sum of probabilities.
    t_.dv = filled(c_.k_shape(), DType::f64, 0);
    backward(filled(c_.q_shape(), DType::f64, 1));
    const Values seen = read(t_.dv);
    expect_near(found.dk, results.dk, relative_ * gradient * largest(t_.q), "dk " + what, &seen);
    expect_near(found.dv, results.dv, relative_ * largest(t_.dout), "dv " + what, &seen);
  }

 private:
  void backward(const Tensor& dout) {
    t_.dq = filled(c_.q_shape(), DType::f64, NAN);
    t_.dk = filled(c_.k_shape(), DType::f64, NAN);
    t_.dv = filled(c_.k_shape(), DType::f64, NAN);
    AttentionBackward call = backward_call(c_, t_);
    call.dout = dout;
    cpu::attention_kernels.backward(call);
  }
  void expect_near(const Tensor& found, const Tensor& expected, double error,
                   const std::string& what, const Values* weights = nullptr) const {
    const Values values = read(expected);
    Values bound(values.size());
    for (size_t i = 0; i < bound.size(); ++i) {
      bound[i] = error * (weights != nullptr ? (*weights)[i] + sum_error_ : 1) +
                 storage_error(dtype_, std::abs(values[i]) + error);
    }
    expect_within(read(found), values, bound, what);
  }

  const Case& c_;
  const DType dtype_;
  Tensors t_;
  double score_error_, sum_error_, relative_;
};

class AttentionGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::devices().empty()) GTEST_SKIP() << "no GPU";
    cuda::activate(Device::cuda());
  }

  // Whether the implementation serves the case; its results are checked where it does.
  static bool check(const Implementation& attention, const Case& c, DType dtype) {
    const Tensors inputs = make_tensors(c, dtype), on_gpu = moved(inputs, Device::cuda());
    if (!attention.forward(c, on_gpu)) return false;
    const std::string what = std::string(attention.name) + " " + c.text(dtype);
    Reference reference(c, dtype, inputs, attention);
    reference.check_forward(moved(on_gpu, Device::cpu()), what);
    if (!attention.backward(c, on_gpu)) return false;
    reference.check_backward(moved(on_gpu, Device::cpu()), what);
    return true;
  }
};

TEST_F(AttentionGpu, NativeKernelsFollowTheCpu) {
  for (const DType dtype : compute_types)
    for (const Case& c : cases) {
      check(native_kernels, c, dtype);
      if (HasFatalFailure()) return;
    }
}

TEST_F(AttentionGpu, TheTableFollowsTheCpu) {
  for (const DType dtype : compute_types)
    for (const Case& c : cases) {
      check(table, c, dtype);
      if (HasFatalFailure()) return;
    }
}

TEST_F(AttentionGpu, Tf32FollowsTheCpu) {
  for (const Case& c : cases) {
    check(tf32, c, DType::f32);
    if (HasFatalFailure()) return;
  }
  // What training runs on must not fall back unseen: rounded operands leave other bits.
  for (const int64_t dim : {64, 128}) {
    const Case c{1, 2, 1, 300, 300, dim, true};
    check(tf32, c, DType::f32);
    const Tensors inputs = make_tensors(c, DType::f32);
    const Tensors plain = moved(inputs, Device::cuda()), rounded = moved(inputs, Device::cuda());
    table.forward(c, plain);
    tf32.forward(c, rounded);
    EXPECT_NE(read(transfer(plain.out, Device::cpu())), read(transfer(rounded.out, Device::cpu())));
    const Tensors again = moved(plain, Device::cuda());
    table.backward(c, plain);
    tf32.backward(c, again);
    EXPECT_NE(read(transfer(plain.dk, Device::cpu())), read(transfer(again.dk, Device::cpu())));
  }
}

// One tile of keys, several, grouped heads, no mask, scores that bf16 does not hold.
const Case hopper_cases[] = {
    {1, 1, 1, 128, 128, 64, true},     {1, 2, 2, 640, 640, 64, true},
    {2, 6, 2, 256, 256, 64, true},     {1, 4, 2, 256, 256, 64, false},
    {1, 2, 1, 384, 384, 64, true, 32}, {1, 1, 1, 128, 128, 128, true},
    {1, 2, 2, 384, 384, 128, true},    {2, 4, 1, 256, 256, 128, true},
    {1, 4, 2, 256, 256, 128, false},   {1, 2, 1, 384, 384, 128, false, 32},
};

TEST_F(AttentionGpu, HopperFollowsTheCpu) {
  if (!cuda::has_hopper_kernels()) GTEST_SKIP() << "kernels of compute capability 9.0";
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const Case& c : hopper_cases) {
      EXPECT_TRUE(check(hopper, c, dtype)) << c.text(dtype);
      if (HasFatalFailure()) return;
    }
  EXPECT_FALSE(check(hopper, {1, 2, 2, 130, 130, 64, true}, DType::bf16)) << "fills no tile";
}

// Sums over batch and tokens of a gradient [batch, heads, tokens, dim], and of its magnitudes.
struct HeadSums {
  Values total, size;

  explicit HeadSums(const Tensor& x) {
    const Values values = read(transfer(x, Device::cpu()));
    const int64_t heads = x.size(1), tokens = x.size(2), dim = x.size(3);
    total.resize(static_cast<size_t>(heads * dim));
    size.resize(total.size());
    for (int64_t i = 0; i < x.numel(); ++i) {
      const auto to = static_cast<size_t>(i / (tokens * dim) % heads * dim + i % dim);
      total[to] += values[static_cast<size_t>(i)];
      size[to] += std::abs(values[static_cast<size_t>(i)]);
    }
  }
};

// The gradients are the same as without sums, and the sums are theirs before they are rounded.
TEST_F(AttentionGpu, HopperSumsItsGradients) {
  if (!cuda::has_hopper_kernels()) GTEST_SKIP() << "kernels of compute capability 9.0";
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const Case& c : hopper_cases) {
      const Tensors plain = moved(make_tensors(c, dtype), Device::cuda());
      table.forward(c, plain);
      const Tensors summed = moved(plain, Device::cuda());
      AttentionBackward call = backward_call(c, summed);
      ASSERT_EQ(sums_gradients(call, Device::cuda()), c.dim == 64) << c.text(dtype);
      if (c.dim != 64) continue;
      const Tensor sums =
          transfer(filled({c.heads + 2 * c.kv_heads, c.dim}, DType::f32, NAN), Device::cuda());
      call.sums = sums;
      ASSERT_TRUE(ran_hopper(call));
      ASSERT_TRUE(hopper.backward(c, plain));
      Values expected, bound;
      for (const auto& [own, other] :
           {std::pair(&summed.dq, &plain.dq), {&summed.dk, &plain.dk}, {&summed.dv, &plain.dv}}) {
        EXPECT_EQ(read(transfer(*own, Device::cpu())), read(transfer(*other, Device::cpu())));
        const HeadSums of(*own);
        expected.insert(expected.end(), of.total.begin(), of.total.end());
        for (const double size : of.size)
          bound.push_back(
              (static_cast<double>(c.batch * c.keys) * epsilon(DType::f32) + epsilon(dtype) / 2) *
              size);
      }
      expect_within(read(transfer(sums, Device::cpu())), expected, bound, "sums " + c.text(dtype));
    }
  }
}

#ifdef BINADE_CUDNN
TEST_F(AttentionGpu, CudnnFollowsTheCpu) {
  if (cuda::properties().capability() < 80) GTEST_SKIP() << "cuDNN attends from sm_80 on";
  for (const DType dtype : {DType::f16, DType::bf16}) {
    int served = 0;
    for (const Case& c : cases) {
      served += check(cudnn, c, dtype) ? 1 : 0;
      if (HasFatalFailure()) return;
    }
    EXPECT_GE(served, 5) << "cases of head sizes it knows";
    // What training runs on must not fall back unseen.
    EXPECT_TRUE(check(cudnn, {2, 4, 4, 256, 256, 64, true}, dtype));
    EXPECT_TRUE(check(cudnn, {2, 4, 2, 256, 256, 128, true}, dtype));
  }
}

// The statistics mean the same: one's forward meets the other's backward.
TEST_F(AttentionGpu, CudnnAndNativeKernelsShareTheirLse) {
  if (cuda::properties().capability() < 80) GTEST_SKIP() << "cuDNN attends from sm_80 on";
  const Case c{2, 4, 2, 192, 192, 64, true};
  const Tensors inputs = make_tensors(c, DType::bf16);
  for (const auto& [first, second] :
       {std::pair(&cudnn, &native_kernels), std::pair(&native_kernels, &cudnn)}) {
    const Tensors on_gpu = moved(inputs, Device::cuda());
    ASSERT_TRUE(first->forward(c, on_gpu));
    ASSERT_TRUE(second->backward(c, on_gpu));
    Reference reference(c, DType::bf16, inputs, cudnn);
    reference.check_backward(moved(on_gpu, Device::cpu()),
                             std::string(first->name) + " then " + second->name);
  }
}
#endif

// q, k and v in one buffer [batch, tokens, heads + 2 kv_heads, dim], gradients in another.
TEST_F(AttentionGpu, TakesPackedBuffers) {
  for (const Case& c : {Case{2, 3, 3, 70, 70, 40, true}, Case{2, 4, 2, 128, 128, 64, true},
                        Case{1, 4, 4, 50, 50, 7, false}}) {
    for (const DType dtype : compute_types) {
      const Tensors inputs = make_tensors(c, dtype);
      const int64_t parts = c.heads + 2 * c.kv_heads, row = parts * c.dim;
      const Shape shape{c.batch, c.queries, parts, c.dim};
      const Tensor packed = filled(shape, dtype, 0);
      const auto part = [&](const Tensor& x, int64_t first, int64_t heads) {
        return x.strided({c.batch, heads, c.queries, c.dim}, {c.queries * row, c.dim, row, 1},
                         first * c.dim);
      };
      cpu::elementwise_kernels.copy(inputs.q, part(packed, 0, c.heads));
      cpu::elementwise_kernels.copy(inputs.k, part(packed, c.heads, c.kv_heads));
      cpu::elementwise_kernels.copy(inputs.v, part(packed, c.heads + c.kv_heads, c.kv_heads));
      for (const Implementation* attention : {&native_kernels, &table, &tf32}) {
        if (attention == &tf32 && dtype != DType::f32) continue;
        Tensors on_gpu = moved(inputs, Device::cuda());
        const Tensor qkv = transfer(packed, Device::cuda()),
                     gradients = transfer(filled(shape, dtype, NAN), Device::cuda());
        on_gpu.q = part(qkv, 0, c.heads);
        on_gpu.k = part(qkv, c.heads, c.kv_heads);
        on_gpu.v = part(qkv, c.heads + c.kv_heads, c.kv_heads);
        on_gpu.dq = part(gradients, 0, c.heads);
        on_gpu.dk = part(gradients, c.heads, c.kv_heads);
        on_gpu.dv = part(gradients, c.heads + c.kv_heads, c.kv_heads);
        attention->forward(c, on_gpu);
        attention->backward(c, on_gpu);
        const Tensor back = transfer(gradients, Device::cpu());
        Tensors found = inputs;
        found.out = transfer(on_gpu.out, Device::cpu());
        found.lse = transfer(on_gpu.lse, Device::cpu());
        cpu::elementwise_kernels.copy(part(back, 0, c.heads), found.dq);
        cpu::elementwise_kernels.copy(part(back, c.heads, c.kv_heads), found.dk);
        cpu::elementwise_kernels.copy(part(back, c.heads + c.kv_heads, c.kv_heads), found.dv);
        const std::string what = std::string("packed ") + attention->name + " " + c.text(dtype);
        Reference reference(c, dtype, inputs, *attention);
        reference.check_forward(found, what);
        reference.check_backward(found, what);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(AttentionGpu, GivesTheSameBitsEveryTime) {
  // 300 queries fill no tile; 1024 are for Hopper's own kernels, more tiles than multiprocessors.
  const Case odd{4, 8, 4, 300, 300, 64, true}, narrow{8, 12, 12, 1024, 1024, 64, true},
      wide{4, 8, 4, 1024, 1024, 128, true};
  for (const auto& [attention, dtype, c] :
       {std::tuple(&table, DType::f32, odd), std::tuple(&tf32, DType::f32, odd),
        std::tuple(&table, DType::bf16, odd), std::tuple(&table, DType::bf16, narrow),
        std::tuple(&table, DType::bf16, wide)}) {
    const Tensors inputs = make_tensors(c, dtype);
    const auto run = [&, attention = attention, c = c] {
      const Tensors on_gpu = moved(inputs, Device::cuda());
      attention->forward(c, on_gpu);
      attention->backward(c, on_gpu);
      return moved(on_gpu, Device::cpu());
    };
    const Tensors once = run();
    for (int i = 0; i < 3; ++i) {
      const Tensors again = run();
      expect_same_bits(once.out, again.out, "out");
      expect_same_bits(once.lse, again.lse, "lse");
      expect_same_bits(once.dq, again.dq, "dq");
      expect_same_bits(once.dk, again.dk, "dk");
      expect_same_bits(once.dv, again.dv, "dv");
    }
  }
}

// Heads of this length are worked on two at a time, as what is kept between kernels is bounded.
TEST_F(AttentionGpu, GivesTheSameBitsOneHeadAtATime) {
  const Case c{1, 3, 3, 8192, 8192, 64, true}, one{1, 1, 1, 8192, 8192, 64, true};
  const Tensors inputs = make_tensors(c, DType::f32), together = moved(inputs, Device::cuda());
  native_kernels.forward(c, together);
  Tensors apart = together;
  apart.dq = transfer(inputs.dq, Device::cuda());
  apart.dk = transfer(inputs.dk, Device::cuda());
  apart.dv = transfer(inputs.dv, Device::cuda());
  native_kernels.backward(c, together);
  for (int64_t head = 0; head < c.heads; ++head) {
    const auto part = [&](const Tensor& x) {
      Shape shape = x.shape();
      shape[1] = 1;
      return x.strided(shape, x.strides(), head * x.strides()[1]);
    };
    native_kernels.backward(
        one, {part(apart.q), part(apart.k), part(apart.v), part(apart.dout), part(apart.out),
              part(apart.lse), part(apart.dq), part(apart.dk), part(apart.dv)});
  }
  const Tensors expected = moved(together, Device::cpu()), found = moved(apart, Device::cpu());
  expect_same_bits(expected.dq, found.dq, "dq");
  expect_same_bits(expected.dk, found.dk, "dk");
  expect_same_bits(expected.dv, found.dv, "dv");
  EXPECT_FALSE(std::isnan(largest(found.dq) + found.dq.data<float>()[0]));
}

TEST_F(AttentionGpu, NanReachesTheRowsThatSeeIt) {
  const Case c{1, 1, 1, 4, 4, 8, false};
  for (const Implementation* attention : {&table, &tf32}) {
    const Tensors inputs = make_tensors(c, DType::f32);
    inputs.q.mutable_data<float>()[c.dim] = NAN;
    const Tensors on_gpu = moved(inputs, Device::cuda());
    attention->forward(c, on_gpu);
    const Tensor out = transfer(on_gpu.out, Device::cpu());
    for (int64_t i = 0; i < out.numel(); ++i)
      EXPECT_EQ(std::isnan(out.data<float>()[i]), i / c.dim == 1) << attention->name << " " << i;
  }
}

using RopeGpu = AttentionGpu;

TEST_F(RopeGpu, FollowsTheCpu) {
  struct Sizes {
    int64_t batch, tokens, heads, dim, start;
  };
  for (const Sizes& s : {Sizes{2, 5, 3, 14, 4}, Sizes{3, 33, 4, 64, 0}, Sizes{1, 7, 40, 128, 9},
                         Sizes{2, 3, 1, 2, 1}, Sizes{2, 0, 1, 8, 0}}) {
    const Shape tables{s.start + s.tokens + 1, s.dim / 2};
    const Tensor cosine = noise(tables, DType::f32, 5), sine = noise(tables, DType::f32, 6);
    const Tensor c = transfer(cosine, Device::cuda()), sn = transfer(sine, Device::cuda());
    for (const DType dtype : compute_types) {
      for (const bool inverse : {false, true}) {
        const Tensor x = noise({s.batch, s.tokens, s.heads, s.dim}, dtype, 7);
        const Tensor expected = Tensor::empty_like(x), y = transfer(x, Device::cuda());
        cpu::attention_kernels.rope({.x = x,
                                     .cosine = cosine,
                                     .sine = sine,
                                     .start = s.start,
                                     .inverse = inverse,
                                     .y = expected});
        cuda::attention_kernels.rope({.x = y,  // in place
                                      .cosine = c,
                                      .sine = sn,
                                      .start = s.start,
                                      .inverse = inverse,
                                      .y = y});
        const Values values = read(expected);
        Values bound(values.size());
        // Two products of numbers of this size, then one rounding on either side.
        const double size = 2 * largest(x) * std::max(largest(cosine), largest(sine));
        for (size_t i = 0; i < bound.size(); ++i)
          bound[i] = 2 * sum_epsilon(dtype) * size + 2 * storage_error(dtype, values[i]);
        expect_within(read(transfer(y, Device::cpu())), values, bound, "rope");
      }
    }
  }
}

}  // namespace
}  // namespace binade::backend::cuda_attention_test

#endif  // BINADE_CUDA
