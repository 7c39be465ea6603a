#include "ops/bad_input.h"

#include <gtest/gtest.h>

#include <limits>

#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/index/index.h"
#include "binade/ops/index/mask.h"
#include "binade/ops/index/sort.h"
#include "binade/ops/quantized/quantize.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/pad.h"
#include "binade/ops/shape/rearrange.h"
#include "binade/ops/shape/shape.h"

// One case a line.
// clang-format off
namespace binade::bad_input {
namespace {

constexpr int64_t most = std::numeric_limits<int64_t>::max();

TEST(BadInput, Arithmetic) {
  expect_refused({
      {"add", "operands", [] { add(f({2, 3}), f({2})); }},
      {"add", "a", [] { add(none, f({2})); }},
      {"mul", "b", [] { mul(f({2}), none); }},
      {"div", "operands", [] { div(f({3}), f({4})); }},
      {"sub", "inputs", [] { sub(f({3}), m({3})); }},
      {"mul", "operands", [] { mul(fp8({3}), f({3})); }},
      {"add", "x", [] { add(none, 1.5); }},
      {"mul", "operands", [] { mul(fp8({3}), 2); }},
      {"div", "divisor", [] { f({3}) / 0.0; }},
      {"pow", "exponent", [] { pow(f({3}), infinity); }},
      {"maximum", "operands", [] { maximum(f({2}), f({3})); }},
      {"atan2", "operands", [] { atan2(f({2}), f({3})); }},
      {"addcmul", "a", [] { addcmul(none, f({2}), f({2})); }},
      {"addcmul", "operands", [] { addcmul(f({3}), f({2}), f({2})); }},
      {"addcdiv", "value", [] { addcdiv(f({2}), f({2}), f({2}), nan); }},
      {"addcdiv", "c", [] { addcdiv(f({2}), f({2}), i({2})); }},
      {"where", "condition", [] { where(f({2}), f({2}), f({2})); }},
      {"where", "condition", [] { where(none, f({2}), f({2})); }},
      {"where", "condition", [] { where(m({2}, DType::boolean), f({2}), f({2})); }},
      {"where", "operands", [] { where(b({3}), f({2}), f({2})); }},
      {"eq", "operands", [] { eq(f({2}), f({3})); }},
      {"less", "inputs", [] { less(f({2}), m({2})); }},
  });
}

TEST(BadInput, Unary) {
  expect_refused({
      {"exp", "x", [] { exp(none); }},
      {"log", "x", [] { log(i({2})); }},
      {"relu", "x", [] { relu(b({2})); }},
      {"tanh", "x", [] { tanh(fp8({2})); }},
      {"is_nan", "x", [] { is_nan(none); }},
      {"leaky_relu", "slope", [] { leaky_relu(f({2}), nan); }},
      {"clamp", "bounds", [] { clamp(f({2}), 2, 1); }},
      {"clamp", "bounds", [] { clamp(f({2}), nan, 1); }},
      {"cast", "dtype", [] { cast(f({2}), DType::e4m3); }},
      {"cast", "dtype", [] { cast(fp8({2}), DType::f32); }},
      {"cast", "x", [] { cast(none, DType::f32); }},
      {"prelu", "weight", [] { prelu(f({2, 3}), f({2})); }},
      {"prelu", "weight", [] { prelu(f({2, 3}), f({1, 3})); }},
      {"prelu", "weight", [] { prelu(f({2, 3}), none); }},
      {"dropout", "p", [] { dropout(f({2}), 1.5); }},
      {"dropout", "p", [] { dropout(f({2}), nan); }},
      {"dropout", "x", [] { dropout(i({2}), 0.5); }},
      {"swiglu", "x", [] { swiglu(f({2, 3})); }},
      {"swiglu", "x", [] { swiglu(f({})); }},
  });
}

TEST(BadInput, Reductions) {
  expect_refused({
      {"sum", "axis", [] { sum(f({2, 3}), {2}); }},
      {"sum", "axes", [] { sum(f({2, 3}), {1, -1}); }},
      {"sum", "x", [] { sum(none); }},
      {"sum", "dtype", [] { sum(f({2}), {}, false, DType::i32); }},
      {"mean", "x", [] { mean(i({2})); }},
      {"mean", "axis", [] { mean(f({2}), {-2}); }},
      {"max", "x", [] { max(f({2, 0}), {1}); }},
      {"min", "x", [] { min(f({0})); }},
      {"prod", "x", [] { prod(none); }},
      {"var", "correction", [] { var(f({3}), {}, false, infinity); }},
      {"var", "x", [] { var(f({3, 0}), {1}); }},
      {"norm", "p", [] { norm(f({3}), 0); }},
      {"norm", "p", [] { norm(f({3}), nan); }},
      {"norm", "axis", [] { norm(f({3}), 2, {1}); }},
      {"norm", "x", [] { norm(f({3, 0}), infinity, {1}); }},
      {"argmax", "x", [] { argmax(f({3, 0})); }},
      {"argmax", "axis", [] { argmax(f({3}), 1); }},
      {"argmin", "x", [] { argmin(none); }},
      {"cumsum", "axis", [] { cumsum(f({3}), 3); }},
      {"cumprod", "x", [] { cumprod(none, 0); }},
  });
}

TEST(BadInput, Shapes) {
  expect_refused({
      {"reshape", "shape", [] { reshape(f({2, 3}), {4, 2}); }},
      {"reshape", "shape", [] { reshape(f({2, 3}), {-1, -1}); }},
      {"reshape", "shape", [] { reshape(f({2, 3}), {-1, 4}); }},
      {"reshape", "shape", [] { reshape(f({2, 3}), {-2, -3}); }},
      {"reshape", "shape", [] { reshape(f({0, 3}), {-1, 0}); }},
      {"shape", "sizes", [] { reshape(f({2, 3}), {huge, 8}); }},
      {"flatten", "axes", [] { flatten(f({2, 3}), 1, 0); }},
      {"permute", "axes", [] { permute(f({2, 3}), {0, 0}); }},
      {"permute", "axes", [] { permute(f({2, 3}), {0}); }},
      {"permute", "axis", [] { permute(f({2, 3}), {0, 2}); }},
      {"transpose", "axis", [] { transpose(f({2, 3}), 0, 2); }},
      {"slice", "step", [] { slice(f({3}), 0, 0, 3, 0); }},
      {"slice", "axis", [] { slice(f({3}), 1, 0, 3); }},
      {"select", "index", [] { select(f({3}), 0, 3); }},
      {"select", "index", [] { select(f({3}), 0, -4); }},
      {"expand", "shape", [] { expand(f({2}), {-1, 2}); }},
      {"expand", "shape", [] { expand(f({2}), {3, -2}); }},
      {"expand", "operands", [] { expand(f({2}), {3}); }},
      {"expand", "shape", [] { expand(f({2, 2}), {2}); }},
      {"shape", "sizes", [] { expand(f({1, 1}), {huge, 8}); }},
      {"squeeze", "axis", [] { squeeze(f({2, 3}), 0); }},
      {"unsqueeze", "axis", [] { unsqueeze(f({2}), 3); }},
      {"shape", "rank", [] { unsqueeze(f(Shape::filled(8, 1)), 0); }},
      {"cat", "tensors", [] { cat({f({2, 3}), f({3, 3})}, 1); }},
      {"cat", "tensors", [] { cat({f({2, 3}), f({2})}, 0); }},
      {"cat", "tensors", [] { cat({f({2}), none}, 0); }},
      {"cat", "tensors", [] { cat(std::span<const Tensor>(), 0); }},
      {"cat", "axis", [] { cat({f({2})}, 1); }},
      {"cat", "inputs", [] { cat({f({2}), m({2})}, 0); }},
      {"stack", "tensors", [] { stack({f({2}), f({3})}, 0); }},
      {"stack", "axis", [] { stack({f({2})}, 2); }},
      {"split", "sizes", [] { split(f({5}), std::vector<int64_t>{2, 2}, 0); }},
      {"split", "sizes", [] { split(f({5}), std::vector<int64_t>{6, -1}, 0); }},
      {"split", "sizes", [] { split(f({5}), std::vector<int64_t>{most, most, 7}, 0); }},
      {"split", "sizes", [] { split(f({5}), std::vector<int64_t>(12, 1), 0); }},
      {"split", "size", [] { split(f({5}), 0, 0); }},
  });
}

TEST(BadInput, Rearrangements) {
  constexpr int64_t least = std::numeric_limits<int64_t>::min(), far = (int64_t{1} << 48) + 1;
  expect_refused({
      {"flip", "x", [] { flip(none, {0}); }},
      {"flip", "axes", [] { flip(f({2, 3}), {0, -2}); }},
      {"flip", "axis", [] { flip(f({2, 3}), {2}); }},
      {"roll", "shifts", [] { roll(f({2, 3}), {1, 2}, {}); }},
      {"roll", "shifts", [] { roll(f({2, 3}), {1}, {0, 1}); }},
      {"roll", "shifts", [] { roll(f({2, 3}), {}, {}); }},
      {"roll", "axis", [] { roll(f({2, 3}), {1}, {-3}); }},
      {"repeat", "times", [] { repeat(f({2, 3}), {2}); }},
      {"repeat", "times", [] { repeat(f({2, 3}), {2, -1}); }},
      {"tril", "x", [] { tril(f({3})); }},
      {"triu", "x", [] { triu(f({3})); }},
      {"triu", "x", [] { triu(none); }},
      {"pad", "padding", [] { pad(f({2, 3}), {1}); }},
      {"pad", "padding", [] { pad(f({3}), {1, 1, 1, 1}); }},
      {"pad", "padding", [] { pad(f({3}), {-4, 1}); }},
      {"pad", "padding", [] { pad(f({3}), {1, -4}); }},
      {"pad", "padding", [] { pad(f({3}), {-2, -2}); }},
      {"pad", "padding", [] { pad(f({3}), {far, 0}); }},
      {"pad", "padding", [] { pad(f({3}), {0, far}); }},
      {"pad", "padding", [] { pad(f({3}), {least, most}); }},
      {"pad", "padding", [] { pad(f({3}), {3, 0}, {.mode = PadMode::reflect}); }},
      {"pad", "padding", [] { pad(f({3}), {0, 3}, {.mode = PadMode::reflect}); }},
      {"pad", "padding", [] { pad(f({3}), {-1, 0}, {.mode = PadMode::reflect}); }},
      {"pad", "padding", [] { pad(f({3}), {0, -1}, {.mode = PadMode::replicate}); }},
      {"pad", "padding", [] { pad(f({0}), {0, 1}, {.mode = PadMode::replicate}); }},
      {"pad", "padding", [] { pad(f({0}), {1, 0}, {.mode = PadMode::reflect}); }},
      {"masked_fill", "mask", [] { masked_fill(f({3}), f({3}), 0); }},
      {"masked_fill", "mask", [] { masked_fill(f({3}), b({2, 3}), 0); }},
      {"masked_fill", "mask", [] { masked_fill(f({3}), m({3}, DType::boolean), 0); }},
      {"masked_select", "x", [] { masked_select(m({3}), m({3}, DType::boolean)); }},
      {"sort", "x", [] { sort(fp8({3})); }},
      {"sort", "axis", [] { sort(f({3}), 1); }},
      {"topk", "k", [] { topk(f({3}), 4); }},
      {"topk", "k", [] { topk(f({3}), -1); }},
  });
}

// The last values before a refusal are results, empty or not.
TEST(BadInput, EdgesAreTaken) {
  EXPECT_EQ(pad(f({3}), {-1, -2}).shape(), Shape({0}));
  EXPECT_EQ(pad(f({3}), {-3, 1}).shape(), Shape({1}));
  EXPECT_EQ(pad(f({3}), {1, -3}).shape(), Shape({1}));
  EXPECT_EQ(pad(f({3}), {2, 2}, {.mode = PadMode::reflect}).shape(), Shape({7}));
  EXPECT_EQ(pad(f({1}), {5, 6}, {.mode = PadMode::replicate}).shape(), Shape({12}));
  EXPECT_EQ(pad(f({2, 3}), {0, 1, 2, 0}).shape(), Shape({4, 4}));
  EXPECT_EQ(topk(f({3}), 3).index.shape(), Shape({3}));
  EXPECT_EQ(topk(f({3}), 0).index.shape(), Shape({0}));
  EXPECT_EQ(repeat(f({2, 3}), {0, 2, 1}).shape(), Shape({0, 4, 3}));
  EXPECT_EQ(split(f({5}), std::vector<int64_t>{0, 5, 0}, 0).size(), 3u);
  EXPECT_EQ(tril(f({0, 3})).shape(), Shape({0, 3}));
  EXPECT_EQ(roll(f({0}), {3}, {}).shape(), Shape({0}));
}

TEST(BadInput, Indices) {
  expect_refused({
      {"gather", "index", [] { gather(f({3, 4}), 1, i({3, 2}, 4)); }},
      {"gather", "index", [] { gather(f({3, 4}), 1, i({3, 2}, -1)); }},
      {"gather", "index", [] { gather(f({3, 4}), 1, f({3, 2})); }},
      {"gather", "index", [] { gather(f({3, 4}), 1, i({3})); }},
      {"gather", "index", [] { gather(f({3, 4}), 1, i({4, 2})); }},
      {"gather", "index", [] { gather(f({3, 4}), 1, m({3, 2}, DType::i64)); }},
      {"gather", "index", [] { gather(f({3, 4}), 1, none); }},
      {"gather", "axis", [] { gather(f({3, 4}), 2, i({3, 2})); }},
      {"index_select", "index", [] { index_select(f({3}), 0, i({2}, 3)); }},
      {"index_select", "index", [] { index_select(f({3}), 0, i({2, 2})); }},
      {"index_select", "index", [] { index_select(f({0}), 0, i({1})); }},
      {"scatter_add", "source", [] { scatter_add(f({3}), 0, i({2}), f({3})); }},
      {"scatter_add", "inputs", [] { scatter_add(f({3}), 0, i({2}), h({2})); }},
      {"scatter_add", "index", [] { scatter_add(f({3}), 0, i({2}, 7), f({2})); }},
      {"index_put", "values", [] { index_put(f({3, 2}), i({2}), f({2, 3})); }},
      {"index_put", "index", [] { index_put(f({3}), i({2}, 5), f({2})); }},
      {"index_put", "index", [] { index_put(f({3}), i({2}, 1), f({2})); }},
      {"index_put", "x", [] { index_put(f({}), i({1}), f({1})); }},
      {"embedding", "index", [] { embedding(f({5, 3}), i({2}, 5)); }},
      {"embedding", "index", [] { embedding(f({5, 3}), f({2})); }},
      {"embedding", "weight", [] { embedding(f({5}), i({2})); }},
      {"embedding", "weight", [] { embedding(i({5, 3}), i({2})); }},
      {"embedding", "index", [] { embedding(m({5, 3}), i({2})); }},
  });
}

TEST(BadInput, Creation) {
  static const double values[] = {1, 2, 3};
  expect_refused({
      {"tensor", "values", [] { tensor(values, {2, 2}); }},
      {"tensor", "values", [] { tensor({1, 2}, {3}); }},
      {"empty", "shape", [] { zeros({-1}); }},
      {"empty", "shape", [] { zeros({huge, 8}, DType::u8); }},
      {"arange", "count", [] { arange(-1); }},
      {"randint", "high", [] { randint(3, 3, {2}, random::Key{}); }},
      {"copy_", "source", [] { copy_(f({2}), f({2, 2})); }},
      {"copy_", "operands", [] { copy_(f({2}), f({3})); }},
      {"add_", "operands", [] { add_(f({2}), f({3})); }},
      {"add_", "other", [] { add_(f({2}), f({2, 2})); }},
      {"add_", "other", [] { add_(f({2}), m({2})); }},
      {"fill_", "x", [] { fill_(none, 1); }},
      {"clone", "x", [] { clone(none); }},
      {"to", "x", [] { to(none, Device::meta()); }},
      {"to", "x", [] { to(m({2}), Device::cpu()); }},
      {"to_vector", "x", [] { to_vector(none); }},
      {"item", "tensor", [] { f({2}).item(); }},
      {"quantize", "dtype", [] { quantize(f({2, 2}), 1.0, DType::f16); }},
      {"recipe", "recipe.format", [] { quantize(f({2, 2}), {.format = formats::spec::f16}); }},
      {"quantize", "x", [] { quantize(f({2})); }},
      {"quantize", "scale", [] { quantize(f({2, 2}), 0.0); }},
      {"dequantize", "q", [] { dequantize({}); }},
  });
  // Without a CUDA backend the device itself is refused, before anything is asked of it.
  EXPECT_NE(test::error_of([] { to(f({2}), Device::cuda(9)); }), "");
}

}  // namespace
}  // namespace binade::bad_input
