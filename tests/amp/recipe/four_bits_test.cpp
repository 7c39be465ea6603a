#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "binade/amp/recipe/quantizer.h"
#include "binade/amp/recipe/text.h"
#include "binade/binade.h"
#include "binade/io/safetensors.h"
#include "support/paths.h"
#include "support/thread_count.h"
#include "support/values.h"

// NVFP4 and MXFP4 compared with codes, scales and values of an independent reference
// (tests/golden/fp4.py).
namespace binade {
namespace {

using amp::Role;
using amp::TensorRecipe;

const io::SafetensorsFile& fp4_golden() {
  static const io::SafetensorsFile file(test::golden_dir() + "/fp4.safetensors");
  return file;
}

constexpr const char* fp4_inputs[] = {"normal", "partial",  "weight", "gradient", "zero",
                                      "one",    "bf16",     "spread", "tiny",     "huge",
                                      "ties",   "infinity", "nan"};

std::vector<uint8_t> raw_bytes(const Tensor& x) {
  const auto* data = static_cast<const uint8_t*>(x.raw_data());
  return {data, data + x.bytes()};
}

// The codes of a matrix whose groups are finite; 0xFF for others, which have no meaning.
std::vector<int> codes_of(const Tensor& data, const Quantized& q) {
  const auto* bytes = static_cast<const uint8_t*>(data.raw_data());
  const auto [rows, columns] = sized_group(q.shape, q.layout.group);
  const Shape scales = scale_shape(q.shape, q.layout.group);
  const auto* scale = static_cast<const uint8_t*>(q.scale_inv.raw_data());
  const int nan = q.layout.scale == formats::spec::e8m0 ? 0xFF : 0x7F;
  std::vector<int> codes;
  for (int64_t i = 0; i < q.shape[0]; ++i) {
    for (int64_t j = 0; j < q.shape[1]; ++j) {
      const int code = bytes[i * data.size(1) + j / 2] >> j % 2 * 4 & 15;
      codes.push_back(scale[i / rows * scales[1] + j / columns] == nan ? 0xFF : code);
    }
  }
  return codes;
}

void expect_golden(const std::string& recipe_name, const TensorRecipe& recipe) {
  for (const std::string name : fp4_inputs) {
    SCOPED_TRACE(recipe_name + "/" + name);
    const std::string prefix = recipe_name + "/" + name + "/";
    const Tensor x = fp4_golden().load("in/" + name);
    const Quantized q = quantize(x, recipe);
    check_quantized(q);
    EXPECT_EQ(raw_bytes(q.scale_inv), raw_bytes(fp4_golden().load(prefix + "scale")));
    EXPECT_EQ(codes_of(q.data, q), codes_of(fp4_golden().load(prefix + "data"), q));
    if (recipe.rule == amp::ScaleRule::nvfp4) {
      EXPECT_EQ(raw_bytes(q.outer_inv), raw_bytes(fp4_golden().load(prefix + "outer")));
    }
    const std::vector<double> values = test::read(dequantize(q)),
                              expected = test::read(fp4_golden().load(prefix + "values"));
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(expected[i])) {
        EXPECT_TRUE(std::isnan(values[i])) << i;
      } else {
        EXPECT_EQ(values[i], expected[i]) << i;
      }
    }
  }
}

TEST(FourBits, CodesAndScalesAreThoseOfTheReference) {
  expect_golden("nvfp4", amp::recipes::nvfp4_plain()[Role::input]);
  expect_golden("nvfp4_16x16", amp::recipes::nvfp4()[Role::weight]);
  expect_golden("mxfp4", amp::recipes::mxfp4()[Role::gradient]);
}

TEST(FourBits, AreThoseOfValuesInBf16) {
  const Tensor x = fp4_golden().load("in/bf16");
  for (const amp::Recipe* recipe : {&amp::recipes::nvfp4(), &amp::recipes::mxfp4()}) {
    const Quantized of_f32 = quantize(x, (*recipe)[Role::input]),
                    of_bf16 = quantize(cast(x, DType::bf16), (*recipe)[Role::input]);
    EXPECT_EQ(raw_bytes(of_f32.data), raw_bytes(of_bf16.data));
    EXPECT_EQ(raw_bytes(of_f32.scale_inv), raw_bytes(of_bf16.scale_inv));
  }
}

// The weight is one set of codes, read along either axis.
TEST(FourBits, SquareGroupsHaveTheSameValuesTransposed) {
  const Tensor x = fp4_golden().load("in/weight");
  const TensorRecipe& recipe = amp::recipes::nvfp4()[Role::weight];
  const Tensor rows = dequantize(quantize(x, recipe)),
               columns = dequantize(quantize(transpose(x, 0, 1), recipe));
  EXPECT_EQ(test::read(rows), test::read(contiguous(transpose(columns, 0, 1))));
}

TEST(FourBits, DoNotDependOnThreads) {
  const Tensor x = randn({77, 133}, {3, 0});
  for (const amp::Recipe* recipe : {&amp::recipes::nvfp4(), &amp::recipes::mxfp4()}) {
    for (const Role role : {Role::input, Role::weight}) {
      std::set<std::vector<uint8_t>> codes, scales;
      for (const int threads : {1, 2, 3, 7}) {
        const ThreadCount count(threads);
        const Quantized q = quantize(x, (*recipe)[role]);
        codes.insert(raw_bytes(q.data));
        scales.insert(raw_bytes(q.scale_inv));
      }
      EXPECT_EQ(codes.size(), 1u);
      EXPECT_EQ(scales.size(), 1u);
    }
  }
}

// The bytes that a plan counts: 4 bits each, and a scale per group.
TEST(FourBits, TakeHalfAByteAndTheirScales) {
  const Tensor x = Tensor::empty({64, 96}, DType::bf16, Device::meta());
  EXPECT_EQ(quantize(x, amp::recipes::nvfp4()[Role::input]).bytes(), 64 * 96 / 2 + 64 * 6 + 4);
  EXPECT_EQ(quantize(x, amp::recipes::nvfp4()[Role::weight]).bytes(), 64 * 96 / 2 + 4 * 6 + 4);
  EXPECT_EQ(quantize(x, amp::recipes::mxfp4()[Role::input]).bytes(), 64 * 96 / 2 + 64 * 3);
}

// A regression of few steps: it falls as bf16's does, within the noise of 4 bits.
TEST(FourBits, Train) {
  const auto final_loss = [](const amp::Recipe* recipe) {
    nn::GPT model({.layers = 2, .width = 64, .heads = 4, .vocab = 32, .context = 32, .seed = 1});
    optim::AdamW adam(model.parameters(), {.lr = 3e-3});
    const Tensor data = randint(0, 32, {8, 33}, {9, 9});
    double loss = 0;
    for (int step = 0; step < 30; ++step) {
      adam.zero_grad();
      const amp::Autocast autocast(DType::bf16);
      const amp::QuantizedAutocast quantized(amp::RecipeState{
          .enabled = recipe != nullptr, .recipe = recipe == nullptr ? amp::Recipe{} : *recipe});
      const Tensor found = model.loss(slice(data, 1, 0, 32), slice(data, 1, 1, 33));
      loss = found.item();
      found.backward();
      adam.step();
    }
    return loss;
  };
  const double plain = final_loss(nullptr);
  for (const amp::Recipe* recipe : {&amp::recipes::nvfp4(), &amp::recipes::mxfp4()}) {
    const double found = final_loss(recipe);
    EXPECT_LT(plain, 1.0);  // from log(32)
    EXPECT_LT(found, 2.0) << recipe->name;
    EXPECT_GT(found, plain) << recipe->name;
  }
}

}  // namespace
}  // namespace binade
