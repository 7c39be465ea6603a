#include "binade/nn/conv.h"

#include <gmock/gmock.h>

#include <memory>

#include "nn/golden_modules.h"
#include "support/error_of.h"

namespace binade::nn {
namespace {

using ::testing::HasSubstr;

PerAxis per_axis(const json::Value& params, const char* name, PerAxis otherwise) {
  const json::Value* value = params.find(name);
  if (value == nullptr) return otherwise;
  if (!value->describe().starts_with("an array")) return {value->integer(0, 100)};
  PerAxis result;
  for (const json::Value& one : value->array()) result.push_back(one.integer(0, 100));
  return result;
}

std::unique_ptr<Layer> conv_transpose_of(const json::Value& item) {
  const json::Value& params = item.at("params");
  const ConvTransposeConfig config{
      .in = 4,
      .out = 6,
      .kernel = per_axis(item, "kernel", {}),
      .options = {.stride = per_axis(params, "stride", {1}),
                  .padding = per_axis(params, "padding", {0}),
                  .output_padding = per_axis(params, "output_padding", {0}),
                  .dilation = per_axis(params, "dilation", {1}),
                  .groups = golden::whole(params, "groups", 1)},
      .bias = golden::flag(params, "bias", true)};
  const int64_t axes = item.at("axes").integer(1, 3);
  if (axes == 1) return std::make_unique<ConvTranspose1d>(config);
  if (axes == 2) return std::make_unique<ConvTranspose2d>(config);
  return std::make_unique<ConvTranspose3d>(config);
}

TEST(ConvTranspose, AgreesWithPyTorch) {
  const json::Document document = golden::cases("conv_transpose");
  EXPECT_EQ(document.root().array().size(), 3u);
  for (const json::Value& item : document.root().array()) {
    const std::string name = item.at("case").string();
    SCOPED_TRACE(name);
    const auto module = conv_transpose_of(item);
    golden::load(name, *module);
    const Tensor x = golden::input(name, "x");
    golden::check(name, *module, {{"output", (*module)(x)}}, {{"x", x}});
  }
}

// It undoes the shape of a convolution with the same options.
TEST(ConvTranspose, HasTheShapeBeforeAConvolution) {
  Conv2d down({.in = 3, .out = 5, .kernel = {4}, .options = {.stride = {2}, .padding = {1}}});
  ConvTranspose2d up(
      {.in = 5, .out = 3, .kernel = {4}, .options = {.stride = {2}, .padding = {1}}});
  const Tensor x = randn({2, 3, 8, 10}, {1, 1});
  EXPECT_EQ(up(down(x)).shape(), x.shape());
  EXPECT_EQ(up.weight.shape(), down.weight.shape());
}

// PyTorch's bound: 1 / sqrt(second axis times kernel).
TEST(ConvTranspose, StartsAsInPyTorch) {
  const ConvTranspose1d layer({.in = 64, .out = 16, .kernel = {4}});
  const double bound = 1.0 / 8;
  double largest = 0;
  for (const double value : to_vector(layer.weight)) largest = std::max(largest, std::fabs(value));
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.99 * bound);  // of 4096 draws
}

TEST(ConvLayers, RefuseBadSizes) {
  EXPECT_THAT(
      test::error_of([] { ConvTranspose2d({.in = 4, .out = 6, .options = {.groups = 4}}); }),
      HasSubstr("multiples of groups (4)"));
  EXPECT_THROW(ConvTranspose2d({.in = 4, .out = 6, .options = {.groups = 0}}), Error);
  EXPECT_THROW(Conv2d({.in = 4, .out = 6, .options = {.groups = 0}}), Error);
  EXPECT_THROW(ConvTranspose2d({.in = 4, .out = 6, .kernel = {3, 3, 3}}), Error);
  EXPECT_THROW(ConvTranspose1d({.in = 4, .out = 6, .kernel = {0}}), Error);
  EXPECT_THAT(test::error_of([] { Conv1d({.in = 0, .out = 6}); }), HasSubstr("Conv"));
}

}  // namespace
}  // namespace binade::nn
