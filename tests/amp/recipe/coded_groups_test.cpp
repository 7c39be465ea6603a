#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "binade/amp/recipe/quantizer.h"
#include "binade/amp/recipe/text.h"
#include "binade/binade.h"
#include "binade/formats/codes.h"
#include "binade/formats/parse.h"
#include "binade/io/safetensors.h"
#include "support/paths.h"
#include "support/thread_count.h"
#include "support/values.h"

// Codes and scales of groups compared with an independent reference
// (tests/golden/recipes_numpy.py), and what must hold for random rounding.
namespace binade {
namespace {

using amp::QuantizerDraws;
using amp::Role;
using amp::TensorRecipe;

const io::SafetensorsFile& groups_golden() {
  static const io::SafetensorsFile file(test::golden_dir() + "/recipes.safetensors");
  return file;
}

constexpr const char* group_inputs[] = {"normal", "partial", "zero",    "powers",   "denormal",
                                        "huge",   "limits",  "outlier", "infinity", "nan"};

std::vector<int> bytes_of(const Tensor& x) {
  const auto* data = static_cast<const uint8_t*>(x.raw_data());
  return {data, data + x.bytes()};
}

// The codes of q, one each; -1 in groups whose scale is NaN, where they have no meaning.
std::vector<int> plain_codes(const Quantized& q, const std::vector<int>& bytes, bool packed) {
  const auto columns = q.shape[1];
  const ScaleGroup group = sized_group(q.shape, q.layout.group);
  const Shape scales = scale_shape(q.shape, q.layout.group);
  const std::vector<int> scale = bytes_of(q.scale_inv);
  const int nan = static_cast<int>(q.layout.scale.nan_code());
  const int64_t width = packed ? formats::code_bytes(q.layout.format, columns) : columns;
  std::vector<int> codes;
  for (int64_t i = 0; i < q.shape[0]; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const bool halves = packed && formats::codes_per_byte(q.layout.format) == 2;
      const int byte = bytes[static_cast<size_t>(i * width + (halves ? j / 2 : j))];
      const int code = halves ? byte >> j % 2 * 4 & 15 : byte;
      const auto at = static_cast<size_t>(i / group.rows * scales[1] + j / group.columns);
      codes.push_back(scale[at] == nan ? -1 : code & ((1 << q.layout.format.bits()) - 1));
    }
  }
  return codes;
}

Quantized quantized_with(const Tensor& x, const TensorRecipe& recipe, const QuantizerDraws& draws) {
  amp::ScaleStream none;
  return amp::Quantizer{recipe, none, false, false, draws}.quantize(x);
}

void expect_codes(const std::string& name, const std::string& input, const TensorRecipe& recipe,
                  const QuantizerDraws& draws = {}) {
  SCOPED_TRACE(name + "/" + input);
  const std::string prefix = name + "/" + input + "/";
  const Quantized q = quantized_with(groups_golden().load("in/" + input), recipe, draws);
  check_quantized(q);
  EXPECT_EQ(bytes_of(q.scale_inv), bytes_of(groups_golden().load(prefix + "scale")));
  EXPECT_EQ(plain_codes(q, bytes_of(q.data), true),
            plain_codes(q, bytes_of(groups_golden().load(prefix + "codes")), false));
  if (q.outer_inv.defined()) {
    EXPECT_EQ(bytes_of(q.outer_inv), bytes_of(groups_golden().load(prefix + "outer")));
  }
}

TensorRecipe mx_of(const char* format, amp::ScaleRule rule) {
  TensorRecipe recipe = amp::recipes::mxfp4()[Role::input];
  recipe.format = formats::parse(format);
  recipe.rule = rule;
  return recipe;
}

TEST(CodedGroups, AreThoseOfTheReference) {
  using enum amp::ScaleRule;
  TensorRecipe four_over_six = amp::recipes::nvfp4_plain()[Role::input];
  four_over_six.four_over_six = true;
  for (const char* input : group_inputs) {
    expect_codes("mxfp8", input, amp::recipes::mxfp8()[Role::gradient]);
    expect_codes("mx_ceil", input, mx_of("e2m1", mx_ceil));
    expect_codes("mx_up", input, mx_of("e2m1", mx_round_up));
    expect_codes("mxfp6", input, amp::recipes::mxfp6()[Role::input]);
    expect_codes("mxfp6_gradient", input, amp::recipes::mxfp6()[Role::gradient]);
    expect_codes("mx_e5m2", input, mx_of("e5m2", mx_ceil));
    expect_codes("four_over_six", input, four_over_six);
    expect_codes("stochastic", input, amp::recipes::nvfp4()[Role::gradient],
                 {.key = {44, uint64_t{1} << 40}});
  }
  expect_codes("hadamard", "hadamard", amp::recipes::nvfp4_plain()[Role::input],
               {.hadamard = 16, .signs = 0xD7E8});
}

// Transposed matrices are read by columns, and every number of threads gives the same bits.
TEST(CodedGroups, DoNotDependOnThreadsOrStrides) {
  const Tensor x = randn({77, 133}, {3, 0}, DType::bf16);
  const Tensor columns = contiguous(transpose(x, 0, 1));
  for (const char* text : {"nvfp4", "mxfp8, input.stochastic = true", "mxfp6",
                           "row, format = \"int8\"", "nvfp4, input.four_over_six = true"}) {
    SCOPED_TRACE(text);
    const amp::Recipe recipe = amp::parse_recipe(text);
    for (const Role role : {Role::input, Role::weight, Role::gradient}) {
      for (const int hadamard : {0, 16}) {
        std::set<std::vector<int>> codes, scales;
        for (const int threads : {1, 2, 3, 7}) {
          const ThreadCount count(threads);
          for (const bool is_view : {false, true}) {
            const Quantized q =
                quantized_with(is_view ? transpose(columns, 0, 1) : x, recipe[role],
                               {.key = {1, 2}, .first = 5, .hadamard = hadamard, .signs = 9});
            codes.insert(bytes_of(q.data));
            scales.insert(bytes_of(q.scale_inv));
          }
        }
        EXPECT_EQ(codes.size(), 1u);
        EXPECT_EQ(scales.size(), 1u);
      }
    }
  }
}

// The mean of n roundings differs from a value by a mean of independent errors, each within a step
// s around 0: by Hoeffding, P(|error| >= t) <= 2 exp(-2 n t^2 / s^2). With t = s sqrt(10 / n) that
// is 4e-9 a value.
TEST(CodedGroups, StochasticRoundingIsUnbiased) {
  constexpr int64_t n = 4000;
  TensorRecipe recipe = amp::recipes::nvfp4()[Role::gradient];
  const Tensor x = randn({4, 16}, {8, 0});
  std::vector<double> sums(64);
  for (int64_t i = 0; i < n; ++i) {
    const Quantized q = quantized_with(x, recipe, {.key = {5, static_cast<uint64_t>(i)}});
    const std::vector<double> values = test::read(dequantize(q));
    for (size_t k = 0; k < 64; ++k) sums[k] += values[k];
  }
  const Quantized once = quantized_with(x, recipe, {});
  const std::vector<double> exact = test::read(x);
  const double outer = once.outer_inv.item();
  const std::vector<int> scales = bytes_of(once.scale_inv);
  int inside = 0;
  for (size_t k = 0; k < 64; ++k) {
    const auto code = static_cast<uint32_t>(scales[k / 16]);
    const double scale = formats::decode<formats::spec::e4m3>(code) * outer;
    const double magnitude = std::abs(exact[k]) / scale;
    if (magnitude > 6) continue;  // it saturates
    const double step = (magnitude < 2 ? 0.5 : magnitude < 4 ? 1 : 2) * scale;
    EXPECT_NEAR(sums[k] / n, exact[k], step * std::sqrt(10.0 / n)) << k;
    ++inside;
  }
  EXPECT_GT(inside, 55);
}

// Keys, and the elements of one key, draw independently.
TEST(CodedGroups, DrawByKeyAndElement) {
  const Tensor x = full({32, 64}, 0.3);
  const TensorRecipe recipe = amp::recipes::nvfp4()[Role::gradient];
  const auto codes = [&](QuantizerDraws draws) {
    return bytes_of(quantized_with(x, recipe, draws).data);
  };
  std::set<std::vector<int>> all;
  for (const QuantizerDraws& draws :
       {QuantizerDraws{.key = {1, 1}}, QuantizerDraws{.key = {1, 2}}, QuantizerDraws{.key = {2, 1}},
        QuantizerDraws{.key = {1, 1}, .first = 64}})
    all.insert(codes(draws));
  // The group's largest number is exact in all: a value between codes draws.
  EXPECT_EQ(all.size(), 1u);
  Tensor mixed = full({32, 64}, 0.3);
  {
    const NoGrad no_grad;
    fill_(mixed.strided({32, 4}, {64, 16}, 0), 1.0);
  }
  std::set<std::vector<int>> drawn;
  for (const QuantizerDraws& draws :
       {QuantizerDraws{.key = {1, 1}}, QuantizerDraws{.key = {1, 2}}, QuantizerDraws{.key = {2, 1}},
        QuantizerDraws{.key = {1, 1}, .first = 64}})
    drawn.insert(bytes_of(quantized_with(mixed, recipe, draws).data));
  EXPECT_EQ(drawn.size(), 4u);
}

// An orthonormal transform of both operands leaves their product as it is.
TEST(CodedGroups, TheTransformIsOrthonormal) {
  const TensorRecipe recipe{.format = formats::spec::int8, .group = {1, 0}};
  const Tensor x = randn({1, 64}, {3, 0}, DType::bf16);
  const std::vector<double> plain = test::read(x);
  double expected = 0;
  for (const double value : plain) expected += value * value;
  for (const int size : {2, 16, 64}) {
    const std::vector<double> values =
        test::read(dequantize(quantized_with(x, recipe, {.hadamard = size, .signs = 0x5A5A})));
    double found = 0, difference = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      found += values[i] * values[i];
      difference += std::abs(values[i] - plain[i]);
    }
    // 64 values, each within half a step of max / 127 and half a unit of bf16.
    EXPECT_NEAR(found, expected, 2 * std::sqrt(expected * 64) * (4.0 / 254 + 4 * 0x1p-8));
    EXPECT_GT(difference, 10);
  }
}

// The format and the scales of a tensor are data: int8 rows are max / 127 apart.
TEST(CodedGroups, AnyFormatHasScales) {
  const Tensor x = randn({3, 40}, {6, 0});
  const amp::Recipe recipe = amp::parse_recipe("row, format = \"int8\"");
  const Quantized q = quantize(x, recipe[Role::input]);
  const std::vector<double> values = test::read(x), found = test::read(dequantize(q));
  for (size_t row = 0; row < 3; ++row) {
    double amax = 0;
    for (size_t i = 0; i < 40; ++i) amax = std::max(amax, std::abs(values[row * 40 + i]));
    for (size_t i = row * 40; i < row * 40 + 40; ++i)
      EXPECT_NEAR(found[i], values[i], amax / 127 * 0.5001);
  }
  // A scale format of few exponents bounds the scales: ue3m0 ends at 2^3.
  TensorRecipe bounded = mx_of("e2m1", amp::ScaleRule::mx_floor);
  bounded.scale = formats::parse("ue3m0");
  EXPECT_EQ(test::read(dequantize(quantize(full({1, 32}, 1000.0), bounded)))[0], 6 * 8);
  EXPECT_TRUE(std::isnan(test::read(dequantize(quantize(full({1, 32}, INFINITY), bounded)))[0]));
}

}  // namespace
}  // namespace binade
