#include "binade/ops/quantized/round_weight.h"

#include <gtest/gtest.h>

#include "binade/ops/matmul/linear.h"
#include "binade/ops/shape/shape.h"
#include "support/error_of.h"
#include "support/tensors.h"

namespace binade {
namespace {

const formats::WeightFormat& weight_format(const std::string& name) {
  return *formats::find_weight_format(name);
}

// The rounded values of dense rows, by the format alone.
std::vector<double> rounded_rows(const std::string& format, const std::vector<double>& values,
                                 int64_t columns) {
  const std::vector<float> in(values.begin(), values.end());
  std::vector<float> out(in.size());
  formats::round_weight(weight_format(format),
                        {in.data(), static_cast<int64_t>(in.size()) / columns, columns},
                        out.data());
  return {out.begin(), out.end()};
}

std::vector<double> rows_between(const std::vector<double>& values, int64_t columns, int64_t begin,
                                 int64_t end) {
  return {values.begin() + begin * columns, values.begin() + end * columns};
}

TEST(RoundWeight, RoundsEachPartByItself) {
  // Parts of different magnitudes, whose scales of the tensor differ; rows 2 and 8 are in no part.
  Tensor weight = test::noise({9, 32}, 1);
  const std::vector<double> values = to_vector(weight);
  const std::vector<WeightPart> parts = {{.begin = 0, .rows = 2}, {.begin = 3, .rows = 5}};
  const std::vector<double> found = to_vector(round_weight(weight, weight_format("nvfp4"), parts));
  const auto rows = [&](const std::vector<double>& all, int64_t begin, int64_t end) {
    return rows_between(all, 32, begin, end);
  };
  EXPECT_EQ(rows(found, 0, 2), rounded_rows("nvfp4", rows(values, 0, 2), 32));
  EXPECT_EQ(rows(found, 2, 3), rows(values, 2, 3));
  EXPECT_EQ(rows(found, 3, 8), rounded_rows("nvfp4", rows(values, 3, 8), 32));
  EXPECT_EQ(rows(found, 8, 9), rows(values, 8, 9));
  EXPECT_NE(rows(found, 3, 8), rows(rounded_rows("nvfp4", values, 32), 3, 8));
}

// The file of a GPT-NeoX has q, k and v of a head side by side, so blocks of rows span them.
TEST(RoundWeight, RoundsBlocksInTheOrderOfTheFile) {
  constexpr int64_t heads = 2, dim = 40, columns = 128, rows = 3 * heads * dim;
  const Tensor weight = test::noise({rows, columns}, 2);
  const std::vector<double> values = to_vector(weight);
  std::vector<int64_t> order;  // of the parameter's rows in the file
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t part = 0; part < 3; ++part) {
      for (int64_t i = 0; i < dim; ++i) order.push_back((part * heads + head) * dim + i);
    }
  }
  std::vector<double> in_file;
  for (const int64_t row : order) {
    const auto some = rows_between(values, columns, row, row + 1);
    in_file.insert(in_file.end(), some.begin(), some.end());
  }
  const std::vector<double> expected = rounded_rows("fp8-block", in_file, columns);
  const std::vector<WeightPart> parts = {{.heads = heads}};
  const std::vector<double> found =
      to_vector(round_weight(weight, weight_format("fp8-block"), parts));
  for (int64_t i = 0; i < rows; ++i)
    ASSERT_EQ(rows_between(found, columns, order[static_cast<size_t>(i)],
                           order[static_cast<size_t>(i)] + 1),
              rows_between(expected, columns, i, i + 1))
        << i;
  EXPECT_NE(found, rounded_rows("fp8-block", values, columns));
}

TEST(RoundWeight, TakesOtherTypesAndTheMetaDevice) {
  const Tensor narrow = test::noise({3, 64}, 3, DType::bf16);
  EXPECT_EQ(to_vector(round_weight(narrow, weight_format("q8_0"))),
            rounded_rows("q8_0", to_vector(narrow), 64));
  const Tensor columns = transpose(test::noise({64, 3}, 4), 0, 1);  // dense the other way
  EXPECT_EQ(to_vector(round_weight(columns, weight_format("q4_0"))),
            rounded_rows("q4_0", to_vector(columns), 64));
  const Tensor meta =
      round_weight(Tensor::empty({5, 96}, DType::f32, Device::meta()), weight_format("mxfp4"));
  EXPECT_EQ(meta.shape(), Shape({5, 96}));
  EXPECT_EQ(meta.dtype(), DType::f32);
}

TEST(StraightThrough, ComputesWithTheValuesAndGivesTheGradientToTheParameter) {
  const Tensor weight = test::noise_leaf({4, 32}, 5), x = test::noise_leaf({3, 32}, 6);
  const Tensor values = round_weight(weight, weight_format("q4_0"));
  ASSERT_NE(to_vector(values), to_vector(weight));
  const Tensor y = linear(x, straight_through(values, weight));
  const Tensor dy = test::noise({3, 4}, 7);
  y.backward(dy);
  const auto v = to_vector(values), in = to_vector(x), gradient = to_vector(dy);
  const auto found_y = to_vector(y), dx = to_vector(x.grad()), dw = to_vector(weight.grad());
  const auto at = [](const std::vector<double>& m, size_t columns, size_t i, size_t j) {
    return m[i * columns + j];
  };
  for (size_t i = 0; i < 3; ++i) {
    for (size_t o = 0; o < 4; ++o) {
      double sum = 0;
      for (size_t k = 0; k < 32; ++k) sum += at(in, 32, i, k) * at(v, 32, o, k);
      EXPECT_NEAR(at(found_y, 4, i, o), sum, 1e-5);
    }
    for (size_t k = 0; k < 32; ++k) {
      double sum = 0;
      for (size_t o = 0; o < 4; ++o) sum += at(gradient, 4, i, o) * at(v, 32, o, k);
      EXPECT_NEAR(at(dx, 32, i, k), sum, 1e-5);
    }
  }
  // Also where the format clips: of q4_0, the values opposite to the largest one.
  for (size_t o = 0; o < 4; ++o) {
    for (size_t k = 0; k < 32; ++k) {
      double sum = 0;
      for (size_t i = 0; i < 3; ++i) sum += at(gradient, 4, i, o) * at(in, 32, i, k);
      EXPECT_NEAR(at(dw, 32, o, k), sum, 1e-5);
    }
  }
  EXPECT_EQ(to_vector(weight), to_vector(test::noise({4, 32}, 5)));
}

TEST(StraightThrough, RefusesWhatIsNoParameter) {
  const Tensor weight = test::noise_leaf({2, 32}, 8), square = test::noise_leaf({2, 2}, 10);
  EXPECT_NE(test::error_of([&] {
              straight_through(test::noise({2, 16}, 9), weight);
            }).find("[2, 32]"),
            std::string::npos);
  EXPECT_NE(
      test::error_of([&] { straight_through(square, transpose(square, 0, 1)); }).find("a leaf"),
      std::string::npos);
}

}  // namespace
}  // namespace binade
