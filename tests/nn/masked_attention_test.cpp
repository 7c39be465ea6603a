#include "binade/nn/masked_attention.h"

#include <gmock/gmock.h>

#include "binade/amp/autocast.h"
#include "binade/base/random.h"
#include "binade/ops/shape/shape.h"
#include "nn/golden_modules.h"
#include "support/error_of.h"

namespace binade::nn {
namespace {

using ::testing::HasSubstr;

TEST(MaskedAttention, AgreesWithPyTorch) {
  const json::Document document = golden::cases("attention");
  EXPECT_EQ(document.root().array().size(), 8u);
  for (const json::Value& item : document.root().array()) {
    const std::string name = item.at("case").string();
    SCOPED_TRACE(name);
    const json::Value& params = item.at("params");
    MaskedAttention attention({.width = 8,
                               .heads = 4,
                               .key_width = golden::whole(params, "kdim", 0),
                               .value_width = golden::whole(params, "vdim", 0),
                               .bias = golden::flag(params, "bias", true),
                               .batch_first = golden::flag(params, "batch_first")});
    golden::load(name, attention);
    const Tensor query = golden::input(name, "query"), key = golden::input(name, "key"),
                 value = golden::input(name, "value");
    const AttentionMasks masks{.key_padding = golden::input(name, "padding"),
                               .attention = golden::input(name, "mask").defined()
                                                ? golden::input(name, "mask").detach()
                                                : Tensor(),
                               .causal = golden::flag(params, "causal")};
    // Without weights, attention may run in tiles: the same output.
    golden::expect_near(attention(query, key, value, masks), name + "/out/output");
    const AttentionResult result = attention.with_weights(query, key, value, masks);
    golden::check(name, attention, {{"output", result.output}, {"weights", result.weights}},
                  {{"query", query}, {"key", key}, {"value", value}});
  }
}

// A masked key has no influence, and neither has a masked value.
TEST(MaskedAttention, IgnoresMaskedKeys) {
  MaskedAttention attention({.width = 8, .heads = 2, .batch_first = true});
  const Tensor query = randn({1, 3, 8}, {1, 1}), key = randn({1, 4, 8}, {1, 2});
  const Tensor padding = tensor({0, 0, 1, 0}, {1, 4}, DType::boolean);
  const auto before = to_vector(attention(query, key, key, {.key_padding = padding}));
  const Tensor row = reshape(tensor({0.0, 0.0, 50.0, 0.0}), {1, 4, 1});
  EXPECT_EQ(to_vector(attention(query, key + row, key + row, {.key_padding = padding})), before);
  EXPECT_NE(to_vector(attention(query, key, key)), before);
}

TEST(MaskedAttention, DropsWeightsWhileTraining) {
  MaskedAttention attention({.width = 8, .heads = 2, .dropout = 0.5});
  const Tensor x = randn({6, 2, 8}, {1, 1});
  random::begin_step(1, 0);
  const auto dropped = to_vector(attention(x, x, x));
  attention.eval();
  EXPECT_NE(to_vector(attention(x, x, x)), dropped);
}

TEST(MaskedAttention, RunsInLowPrecisionUnderAutocast) {
  MaskedAttention attention({.width = 8, .heads = 2});
  const Tensor x = randn({6, 2, 8}, {1, 1});
  const Tensor padding = tensor({0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0}, {2, 6}, DType::boolean);
  const auto exact = to_vector(attention(x, x, x, {.key_padding = padding}));
  const amp::Autocast cast(DType::bf16);
  const Tensor low = attention(x, x, x, {.key_padding = padding});
  EXPECT_EQ(low.dtype(), DType::bf16);
  const auto found = to_vector(low);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], exact[i], 10 * 0x1p-8);
}

TEST(MaskedAttention, RefusesBadInput) {
  EXPECT_THROW(MaskedAttention({.width = 8, .heads = 3}), Error);
  EXPECT_THROW(MaskedAttention({.width = 8, .heads = 2, .dropout = -1}), Error);
  MaskedAttention attention({.width = 8, .heads = 2});
  const Tensor x = zeros({5, 3, 8});
  EXPECT_THAT(test::error_of([&] { attention(x, zeros({5, 2, 8}), x); }), HasSubstr("key"));
  EXPECT_THAT(test::error_of([&] {
                attention(x, x, zeros({4, 3, 8}));
              }),
              HasSubstr("as many as keys"));
  EXPECT_THAT(test::error_of([&] { attention(zeros({5, 3, 7}), x, x); }), HasSubstr("query"));
  EXPECT_THAT(test::error_of([&] {
                attention(x, x, x, {.key_padding = zeros({5, 3}, DType::boolean)});
              }),
              HasSubstr("masks.key_padding"));
  EXPECT_THAT(test::error_of([&] {
                attention(x, x, x, {.attention = zeros({5, 4})});
              }),
              HasSubstr("[5, 5]"));
  EXPECT_THAT(test::error_of([&] {
                attention(x, x, x, {.attention = zeros({5, 5}, DType::i64)});
              }),
              HasSubstr("bool or floating"));
}

}  // namespace
}  // namespace binade::nn
