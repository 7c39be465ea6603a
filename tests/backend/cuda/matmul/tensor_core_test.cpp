#include "binade/formats/tensor_core/tensor_core.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "backend/cuda/matmul/near_cpu.h"
#include "binade/backend/backend.h"
#include "binade/backend/transfer.h"
#include "binade/formats/number.h"

// Matmuls of a Hopper GPU against the model of its tensor cores, bit for bit.
namespace binade::backend::cuda_tensor_core_test {
namespace {

using formats::tensor_core::TensorCore;

class TensorCoreGpu : public MatmulGpuTest {
 protected:
  void SetUp() override {
    MatmulGpuTest::SetUp();
    if (!gpus().empty() && gpus()[0].capability() != 90) GTEST_SKIP() << "the GPU is no Hopper";
  }
};

// What the operands are made of.
enum class Kind { normal, spread, cancelling };

struct ModelCase {
  const char* name;
  DType operand, result;
  bool tf32 = false, fast = false;
  int64_t promote_every = 0;
};

const formats::Format& format_of_case(const ModelCase& p) {
  return p.tf32 ? formats::spec::tf32 : binade::format_of(p.operand);
}

// Exponents of `spread` are up to 2^12 apart; each second product of `cancelling` is the negative
// of the one before.
Tensor operand(const ModelCase& p, const Shape& shape, Kind kind, uint64_t stream, bool negates) {
  Values values = read(noise(shape, DType::f32, stream));
  const auto columns = static_cast<size_t>(shape[2]);
  for (size_t i = 0; i < values.size(); ++i) {
    if (kind == Kind::spread)
      values[i] = std::ldexp(values[i], static_cast<int>(random::bits(7, stream, i) % 13) - 6);
    const bool repeats = i % columns % 2 == 1 && i > 0;
    if (kind == Kind::cancelling && repeats && i % 5 != 0)
      values[i] = negates ? -values[i - 1] : values[i - 1];
  }
  const Tensor x = make(shape, p.operand, values);
  // tf32 operands are given as the hardware reads them.
  if (p.tf32)
    for (int64_t i = 0; i < x.numel(); ++i)
      x.mutable_data<float>()[i] = formats::round_tf32(x.data<float>()[i]);
  return x;
}

std::vector<float> floats(const Tensor& x) {
  const Values values = read(x);
  return {values.begin(), values.end()};
}

// The result's type holds the model's f32 rounded once.
uint32_t bits_of(double value, DType dtype) {
  const auto x = static_cast<float>(value);
  return dtype == DType::bf16 ? bf16(x).bits : formats::float_bits(x);
}

struct Sizes {
  int64_t m, n, k;
};

// Elements of the result that differ from the model's.
int64_t differing(const ModelCase& p, const Sizes& sizes, Kind kind) {
  const auto [m, n, k] = sizes;
  const Tensor a = operand(p, {1, m, k}, kind, 1, true), b = operand(p, {1, n, k}, kind, 2, false);
  const Tensor y = Tensor::empty({1, m, n}, p.result, Device::cuda());
  of(Device::cuda())
      .matmul.matmul(transfer(a, Device::cuda()), backend::transposed(transfer(b, Device::cuda())),
                     y, {.tf32 = p.tf32, .fast_accumulation = p.fast});
  const Values found = read(transfer(y, Device::cpu()));
  const std::vector<float> left = floats(a), right = floats(b);
  std::vector<float> expected(static_cast<size_t>(m * n));
  const formats::Format& format = format_of_case(p);
  TensorCore({.a = &format, .b = &format, .promote_every = p.promote_every})
      .multiply(
          {.a = left.data(), .b = right.data(), .d = expected.data(), .m = m, .n = n, .k = k});
  int64_t count = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    count += bits_of(found[i], p.result) != bits_of(expected[i], p.result) ? 1 : 0;
  return count;
}

constexpr ModelCase one_order[] = {
    {"bf16 to f32", DType::bf16, DType::f32},
    {"bf16 to bf16", DType::bf16, DType::bf16},
    {"f16 to f32", DType::f16, DType::f32},
    {"tf32 to f32", DType::f32, DType::f32, true},
    {"e4m3 to f32, fast accumulation", DType::e4m3, DType::f32, false, true},
    {"e5m2 to f32, fast accumulation", DType::e5m2, DType::f32, false, true},
};

// One instruction's depth, several, and a depth at which cuBLASLt may split K.
constexpr Sizes sizes_of_one_order[] = {
    {64, 64, 32}, {128, 256, 512}, {256, 384, 1024}, {1024, 1024, 4096}};

// Fails where cuBLASLt chose an algorithm with another order of K: the lines say which.
TEST_F(TensorCoreGpu, CublasltMatmulsAreTheModels) {
  for (const ModelCase& p : one_order) {
    for (const Sizes& sizes : sizes_of_one_order) {
      for (const Kind kind : {Kind::normal, Kind::spread, Kind::cancelling}) {
        const int64_t count = differing(p, sizes, kind);
        std::printf("%s, %ld x %ld x %ld, operands %d: %ld differ\n", p.name, sizes.m, sizes.n,
                    sizes.k, static_cast<int>(kind), count);
        EXPECT_EQ(count, 0) << p.name << " k " << sizes.k;
      }
    }
  }
}

// How cuBLASLt adds FP8 products without fast accumulation is not documented: this reports which
// interval of promotion agrees, and fails if none does.
TEST_F(TensorCoreGpu, Fp8WithoutFastAccumulationHasAnInterval) {
  int64_t fewest = INT64_MAX;
  for (const int64_t interval : {32, 64, 128, 256, 512}) {
    const ModelCase p{"e4m3", DType::e4m3, DType::f32, false, false, interval};
    const int64_t count = differing(p, {128, 256, 1024}, Kind::normal);
    std::printf("e4m3 promoted every %ld: %ld of 32768 differ\n", interval, count);
    fewest = std::min(fewest, count);
  }
  EXPECT_EQ(fewest, 0);
}

// The kernel of Binade's own that also computes GELU: its argument is the matmul's result.
TEST_F(TensorCoreGpu, OwnMatmulsAreTheModels) {
  const int64_t m = 256, n = 512, k = 768;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const ModelCase p{"own", dtype, dtype};
    for (const Kind kind : {Kind::normal, Kind::spread, Kind::cancelling}) {
      const Tensor a = operand(p, {1, m, k}, kind, 1, true),
                   b = operand(p, {1, n, k}, kind, 2, false);
      const Tensor y = Tensor::empty({1, m, n}, dtype, Device::cuda());
      const Tensor pre = Tensor::empty({1, m, n}, dtype, Device::cuda());
      of(Device::cuda())
          .matmul.matmul(transfer(a, Device::cuda()),
                         backend::transposed(transfer(b, Device::cuda())), y,
                         {.activation = Activation::gelu_tanh, .pre_activation = pre});
      const Values found = read(transfer(pre, Device::cpu()));
      const std::vector<float> left = floats(a), right = floats(b);
      std::vector<float> expected(static_cast<size_t>(m * n));
      const formats::Format& format = binade::format_of(dtype);
      TensorCore({.a = &format, .b = &format})
          .multiply(
              {.a = left.data(), .b = right.data(), .d = expected.data(), .m = m, .n = n, .k = k});
      const Values rounded = read(make({1, m, n}, dtype, Values(expected.begin(), expected.end())));
      int64_t count = 0;
      for (size_t i = 0; i < rounded.size(); ++i) count += found[i] != rounded[i] ? 1 : 0;
      EXPECT_EQ(count, 0) << name(dtype) << " operands " << static_cast<int>(kind);
    }
  }
}

}  // namespace
}  // namespace binade::backend::cuda_tensor_core_test
