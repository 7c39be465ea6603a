#include "binade/ops/quantized/block_linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/amp/autocast.h"
#include "binade/autograd/op_observer.h"
#include "binade/formats/weights/base_format.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/reduce/reduce.h"
#include "support/error_of.h"
#include "support/thread_count.h"
#include "support/values.h"

namespace binade {
namespace {

using ::testing::HasSubstr;

constexpr const char* formats_of_bases[] = {"q4_0", "q4_k", "q8_0", "nf4", "fp8-block"};

BlockPart random_part(const formats::BlockFormat& format, int64_t rows, int64_t columns) {
  const Tensor values = randn({rows, columns}, {.seed = 7, .stream = static_cast<uint64_t>(rows)});
  BlockPart part{&format, Tensor::empty({rows, format.bytes_of(columns)}, DType::u8)};
  formats::encode_base(
      format, {values.data<float>(), rows, columns},
      {static_cast<std::byte*>(part.blocks.raw_data()), static_cast<size_t>(part.blocks.bytes())});
  return part;
}

std::shared_ptr<const BlockWeight> random_blocks(const char* format, int64_t rows,
                                                 int64_t columns) {
  return std::make_shared<BlockWeight>(
      BlockWeight{.shape = {rows, columns},
                  .parts = {random_part(*formats::find_base_format(format), rows, columns)}});
}

// The result and the gradients of x and bias.
struct LinearBits {
  std::vector<double> y, dx, dbias;
  bool operator==(const LinearBits&) const = default;
};

template <class Run>
LinearBits bits_of(const Run& run, int64_t tokens, int64_t out, int64_t in, bool has_bias) {
  Tensor x = randn({tokens, in}, {.seed = 1, .stream = 1});
  Tensor bias = has_bias ? randn({out}, {.seed = 1, .stream = 2}) : Tensor();
  const Tensor dy = randn({tokens, out}, {.seed = 1, .stream = 3});
  x.set_requires_grad();
  if (has_bias) bias.set_requires_grad();
  const Tensor y = run(x, bias);
  sum(cast(y, DType::f32) * dy).backward();
  return {to_vector(y), to_vector(x.grad()),
          has_bias ? to_vector(bias.grad()) : std::vector<double>()};
}

struct Precision {
  const char* name;
  bool autocast;
  DType dtype;
};
constexpr Precision precisions[] = {
    {"fp32", false, DType::f32}, {"bf16", true, DType::bf16}, {"fp16", true, DType::f16}};

void expect_bits_of_plain(const std::shared_ptr<const BlockWeight>& weight, int64_t tokens,
                          bool has_bias) {
  const int64_t out = weight->shape[0], in = weight->shape[1];
  const Tensor plain = dequantized(*weight);
  for (const Precision& precision : precisions) {
    SCOPED_TRACE(precision.name);
    const auto scope = precision.autocast ? std::make_unique<amp::Autocast>(precision.dtype)
                                          : std::unique_ptr<amp::Autocast>();
    const LinearBits expected =
        bits_of([&](const Tensor& x, const Tensor& bias) { return linear(x, plain, bias); }, tokens,
                out, in, has_bias);
    const LinearBits found =
        bits_of([&](const Tensor& x, const Tensor& bias) { return block_linear(x, weight, bias); },
                tokens, out, in, has_bias);
    EXPECT_TRUE(found == expected);
  }
}

TEST(BlockLinear, HasTheBitsOfADequantizedWeight) {
  for (const char* format : formats_of_bases) {
    SCOPED_TRACE(format);
    expect_bits_of_plain(random_blocks(format, 37, 512), 5, true);
    expect_bits_of_plain(random_blocks(format, 129, 256), 1, false);
    expect_bits_of_plain(random_blocks(format, 1, 256), 3, true);
  }
}

// More than 2 MiB in every type: several panels, the last of them smaller, and one of a single row.
TEST(BlockLinear, HasTheSameBitsInSeveralPanels) {
  for (const char* format : {"q8_0", "nf4"}) {
    SCOPED_TRACE(format);
    expect_bits_of_plain(random_blocks(format, 1025, 1024), 6, true);
    expect_bits_of_plain(random_blocks(format, 5000, 768), 3, false);
  }
}

// q, k and v of a GGUF file often differ.
TEST(BlockLinear, TakesPartsOfSeveralFormats) {
  const auto weight = std::make_shared<BlockWeight>(
      BlockWeight{.shape = {2100, 512},
                  .parts = {random_part(*formats::find_base_format("q4_k"), 2048, 512),
                            random_part(*formats::find_base_format("q8_0"), 33, 512),
                            random_part(formats::nf4, 19, 512)}});
  EXPECT_EQ(weight->bytes(), 2048 * 2 * 144 + 33 * 16 * 34 + 19 * 8 * 36);
  expect_bits_of_plain(weight, 7, true);
}

TEST(BlockLinear, DoesNotDependOnThreads) {
  const auto weight = random_blocks("q4_0", 700, 2048);
  const auto run = [&] {
    const amp::Autocast cast(DType::bf16);
    return bits_of(
        [&](const Tensor& x, const Tensor& bias) { return block_linear(x, weight, bias); }, 9, 700,
        2048, true);
  };
  const LinearBits several = run();
  const ThreadCount one(1);
  EXPECT_TRUE(run() == several);
}

// A gradient that is added to what others left.
TEST(BlockLinear, AddsToAGradient) {
  const auto weight = random_blocks("q8_0", 40, 64);
  const Tensor plain = dequantized(*weight);
  const auto gradient = [&](const auto& run) {
    Tensor x = randn({3, 64}, {.seed = 2, .stream = 1});
    x.set_requires_grad();
    sum(run(x) * 0.5 + run(x)).backward();
    return to_vector(x.grad());
  };
  EXPECT_EQ(gradient([&](const Tensor& x) { return block_linear(x, weight); }),
            gradient([&](const Tensor& x) { return linear(x, plain); }));
}

// Far less memory than the weight, of 16 MiB in bf16.
TEST(BlockLinear, TakesAPanelOfMemory) {
  const auto weight = random_blocks("q8_0", 4096, 2048);
  Tensor x = randn({2, 2048}, {.seed = 1, .stream = 1});
  x.set_requires_grad();
  const amp::Autocast cast(DType::bf16);
  memory::reset_peak();
  const int64_t before = memory::allocated();
  sum(block_linear(x, weight)).backward();
  EXPECT_LT(memory::peak() - before, int64_t{3} << 20);
}

class ShownWeight final : public autograd::OpObserver {
 public:
  void forward(Op op, std::span<const Tensor> inputs, std::span<const Tensor>,
               std::span<const Tensor>) override {
    if (op == Op::linear) weight = to_vector(inputs[1]);
  }
  void after_backward(const autograd::Node&, std::span<const Tensor>) override {}
  std::vector<double> weight;
};

TEST(BlockLinear, ShowsItsValuesToObservers) {
  const auto weight = random_blocks("nf4", 9, 64);
  ShownWeight observer;
  const autograd::OpObserverScope scope(&observer);
  block_linear(ones({1, 64}), weight);
  EXPECT_EQ(observer.weight, to_vector(dequantized(*weight)));
}

TEST(BlockLinear, RefusesOtherShapes) {
  const auto weight = random_blocks("q4_0", 9, 64);
  EXPECT_THAT(test::error_of([&] {
                block_linear(ones({2, 32}), weight);
              }),
              HasSubstr("[..., 64] of f32, bf16 or f16 for a weight in blocks"));
  EXPECT_THAT(test::error_of([&] {
                block_linear(ones({2, 64}), weight, ones({8}));
              }),
              HasSubstr("[9]"));
  EXPECT_THAT(test::error_of([&] {
                block_linear(ones({2, 64}, DType::f64), weight);
              }),
              HasSubstr("f64"));
}

}  // namespace
}  // namespace binade
