#include "binade/formats/tensor_core/tensor_core.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/matmul/near_cpu.h"
#include "binade/backend/backend.h"
#include "binade/backend/transfer.h"
#include "binade/formats/number.h"

// Matmuls of a Hopper GPU against the model of its tensor cores, bit for bit.
namespace binade::backend::cuda_tensor_core_test {
namespace {

using formats::tensor_core::TensorCore;
using formats::tensor_core::ZeroSummands;

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
  std::optional<DType> right = {};  // the other operand's type, if not the same

  ModelCase of_right() const {
    ModelCase other = *this;
    other.operand = right.value_or(operand);
    return other;
  }
};

const formats::Format& format_of_case(const ModelCase& p) {
  return p.tf32 ? formats::spec::tf32 : binade::format_of(p.operand);
}

std::vector<float> floats(const Tensor& x) {
  const Values values = read(x);
  return {values.begin(), values.end()};
}

// What the model says of a [m, k] and b [n, k].
std::vector<float> modelled(const ModelCase& p, const Tensor& a, const Tensor& b,
                            ZeroSummands zeros = ZeroSummands::left_out) {
  const std::vector<float> left = floats(a), right = floats(b);
  const int64_t m = a.size(1), n = b.size(1), k = a.size(2);
  std::vector<float> d(static_cast<size_t>(m * n));
  TensorCore({.a = &format_of_case(p),
              .b = &format_of_case(p.of_right()),
              .zeros = zeros,
              .promote_every = p.promote_every})
      .multiply({.a = left.data(), .b = right.data(), .d = d.data(), .m = m, .n = n, .k = k});
  return d;
}

// The GPU's matmul of them, on the host.
Tensor multiplied(const ModelCase& p, const Tensor& a, const Tensor& b) {
  const Tensor y = Tensor::empty({1, a.size(1), b.size(1)}, p.result, Device::cuda());
  of(Device::cuda())
      .matmul.matmul(transfer(a, Device::cuda()), backend::transposed(transfer(b, Device::cuda())),
                     y, {.tf32 = p.tf32, .fast_accumulation = p.fast});
  return transfer(y, Device::cpu());
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
  const Tensor a = operand(p, {1, m, k}, kind, 1, true),
               b = operand(p.of_right(), {1, n, k}, kind, 2, false);
  const Values found = read(multiplied(p, a, b));
  const std::vector<float> expected = modelled(p, a, b);
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
    {"e5m2 x e4m3 to f32, fast accumulation", DType::e5m2, DType::f32, false, true, 0, DType::e4m3},
};

// One instruction's depth, several, and a depth at which cuBLASLt may split K.
constexpr Sizes sizes_of_one_order[] = {
    {64, 64, 32}, {128, 256, 512}, {256, 384, 1024}, {1024, 1024, 4096}};

// Fails where cuBLASLt chose an algorithm with another order of K.
TEST_F(TensorCoreGpu, CublasltMatmulsAreTheModels) {
  for (const ModelCase& p : one_order) {
    for (const Sizes& sizes : sizes_of_one_order) {
      if (p.tf32 && sizes.k > 100) continue;  // kernels for deep sums in tf32 split them
      for (const Kind kind : {Kind::normal, Kind::spread, Kind::cancelling}) {
        const int64_t count = differing(p, sizes, kind);
        EXPECT_EQ(count, 0) << p.name << " k " << sizes.k << " operands " << static_cast<int>(kind);
      }
    }
  }
}

// Without fast accumulation cuBLASLt adds blocks of 128 FP8 products in f32.
TEST_F(TensorCoreGpu, Fp8WithoutFastAccumulationIsPromoted) {
  for (const int64_t interval : {64, 128, 256}) {
    const ModelCase p{"e4m3", DType::e4m3, DType::f32, false, false, interval};
    const int64_t count = differing(p, {128, 256, 1024}, Kind::normal);
    EXPECT_EQ(count == 0, interval == 128) << interval << ": " << count;
  }
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
      const std::vector<float> expected = modelled(p, a, b);
      const Values rounded = read(make({1, m, n}, dtype, Values(expected.begin(), expected.end())));
      int64_t count = 0;
      for (size_t i = 0; i < rounded.size(); ++i) count += found[i] != rounded[i] ? 1 : 0;
      EXPECT_EQ(count, 0) << name(dtype) << " operands " << static_cast<int>(kind);
    }
  }
}

class TensorCoreSlowGpu : public TensorCoreGpu {};

enum class Codes {
  all,    // NaN and infinities among them
  small,  // below 2, down to the smallest subnormal number
  tiny,   // products down to the smallest subnormal number of f32, and zeros
};

Tensor random_codes(const ModelCase& p, const Shape& shape, uint64_t stream, Codes codes) {
  const Tensor x = Tensor::empty(shape, p.operand);
  const size_t size = size_of(p.operand);
  auto* const bytes = static_cast<std::byte*>(x.raw_data());
  for (int64_t i = 0; i < x.numel(); ++i) {
    uint32_t code = random::bits(11, stream, static_cast<uint64_t>(i));
    if (codes == Codes::tiny) {  // exponents -71 to -64 of the 8 bits of bf16 and tf32
      const uint32_t exponent = 56 + (code >> 23 & 7);
      code = (code & 0x807fffff) | exponent << 23;
      if ((code & 0x700) == 0) code = 0;
    }
    code >>= 32 - 8 * size;
    if (p.tf32) code &= ~uint32_t{0x1fff};
    if (codes == Codes::small) code &= ~(uint32_t{1} << (8 * size - 2));
    std::memcpy(bytes + static_cast<size_t>(i) * size, &code, size);
  }
  return x;
}

// Results whose bits differ from the model's.
int64_t differing_bits(const Tensor& found, const std::vector<float>& expected) {
  int64_t count = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    count += formats::float_bits(found.data<float>()[i]) != formats::float_bits(expected[i]);
  return count;
}

TEST_F(TensorCoreSlowGpu, TenMillionDotsOfRandomCodesAreTheModels) {
  for (const ModelCase& p : one_order) {
    if (p.result != DType::f32) continue;
    const bool has_tiny = p.operand == DType::bf16 || p.tf32;
    for (const Codes codes : {Codes::all, Codes::small, Codes::tiny}) {
      if (codes == Codes::tiny && !has_tiny) continue;
      for (const int64_t k : {32, 96}) {
        SCOPED_TRACE(std::string(p.name) + ", k " + std::to_string(k) + ", codes " +
                     std::to_string(static_cast<int>(codes)));
        const Tensor a = random_codes(p, {1, 3168, k}, 1, codes),
                     b = random_codes(p.of_right(), {1, 3168, k}, 2, codes);
        const Tensor found = multiplied(p, a, b);
        EXPECT_EQ(differing_bits(found, modelled(p, a, b)), 0);
        // These tell the two models of zeros apart.
        if (codes != Codes::tiny) continue;
        EXPECT_GT(differing_bits(found, modelled(p, a, b, ZeroSummands::least_exponent)),
                  1'000'000);
      }
    }
  }
}

}  // namespace
}  // namespace binade::backend::cuda_tensor_core_test
