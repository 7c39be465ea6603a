#include "binade/backend/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "backend/cpu/values.h"
#include "binade/backend/cpu/kernels.h"

namespace binade::backend::cpu_activation_test {
namespace {

const ActivationKernels& kernels = cpu::activation_kernels;
constexpr double inv_sqrt2pi = std::numbers::inv_sqrtpi / std::numbers::sqrt2;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A derivative in double and how far one computed with rounding unit 1 may be from it.
struct Derivative {
  double value, bound;
};

Derivative derivative_of(Activation activation, double x) {
  switch (activation) {
    case Activation::none:
      return {1, 0};
    case Activation::relu:
      return {x > 0 ? 1.0 : 0.0, 0};
    case Activation::silu: {
      const double s = sigmoid(x);
      return {s * (1 + x * (1 - s)), 8 * s * (1 + std::abs(x))};
    }
    case Activation::gelu: {
      // exp(-x^2 / 2) has a relative error of half x^2 units from its argument alone.
      const double cumulative = 0.5 * std::erfc(-x / std::numbers::sqrt2);
      const double density = inv_sqrt2pi * std::exp(-0.5 * x * x);
      return {cumulative + x * density, (cumulative + std::abs(x) * density) * (10 + x * x)};
    }
    case Activation::gelu_tanh: {
      const double scale = 2 * std::sqrt(2 / std::numbers::pi);
      const double u = scale * (x + 0.044715 * x * x * x), du = scale * (1 + 3 * 0.044715 * x * x),
                   s = sigmoid(u);
      return {s + x * du * s * (1 - s),
              (s + std::abs(x * du) * s * (1 - s)) * (10 + 4 * std::abs(u) * (1 - s)) +
                  8 * std::abs(x * du) * s};
    }
  }
  return {};
}

// Noise with some values far out, where exponentials overflow and vanish.
Tensor wide_noise(const Shape& shape, DType dtype, uint64_t seed) {
  Values values = read(noise(shape, DType::f64, seed));
  const double extremes[] = {0,     -0.0, 12,   -12,  40,    -40,   88.5,  -88.5,
                             -89.5, 104,  -104, 1000, -1000, 30000, -30000};
  for (double& v : values) v *= 3;
  for (size_t i = 0; i < values.size() && i < std::size(extremes); ++i)
    values[values.size() - 1 - i] = extremes[i];
  return make(shape, dtype, values);
}

struct Types {
  DType x, y;
};
const Types type_cases[] = {{DType::f64, DType::f64},  {DType::f32, DType::f32},
                            {DType::f16, DType::f16},  {DType::bf16, DType::bf16},
                            {DType::bf16, DType::f32}, {DType::f32, DType::bf16}};

constexpr Activation activations[] = {Activation::none, Activation::relu, Activation::gelu,
                                      Activation::gelu_tanh, Activation::silu};

void backward(Activation activation, const Tensor& dy, const Tensor& x, const Tensor& dx) {
  kernels.activation_backward({.activation = activation, .dy = dy, .pre_activation = x, .dx = dx});
}

TEST(CpuActivation, BackwardAgreesWithDouble) {
  for (const int64_t n : {0, 1, 3, 17, 1023, 5000}) {
    for (const Types& t : type_cases) {
      for (const Activation activation : activations) {
        const Tensor x_tensor = wide_noise({n}, t.x, 1), dy_tensor = noise({n}, t.y, 2),
                     dx = filled({n}, t.x, NAN);
        backward(activation, dy_tensor, x_tensor, dx);
        const Values x = read(x_tensor), dy = read(dy_tensor);
        Values expected(x.size()), bound(x.size());
        for (size_t i = 0; i < x.size(); ++i) {
          const Derivative derivative = derivative_of(activation, x[i]);
          expected[i] = dy[i] * derivative.value;
          bound[i] =
              std::abs(dy[i]) * sum_epsilon(t.x) * (derivative.bound + std::abs(derivative.value));
          // Below the smallest normal number sigmoid and density are 0, and x multiplies what is
          // lost.
          bound[i] += std::abs(dy[i]) * (1 + std::abs(x[i])) * 0x1p-126;
          bound[i] += storage_error(t.x, std::abs(expected[i]) + bound[i]);
        }
        expect_within(
            read(dx), expected, bound,
            std::string(name(t.x)) + " activation " + std::to_string(static_cast<int>(activation)));
      }
    }
  }
}

TEST(CpuActivation, BackwardSumsItsRowsForTheBias) {
  for (const Shape& shape : {Shape{0, 4}, {1, 1}, {3, 5}, {130, 64}, {70, 2051}}) {
    const int64_t rows = shape[0], width = shape[1];
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      const DType sums = accumulation_type(dtype);
      const Tensor x = noise(shape, dtype, 1), dy = noise(shape, dtype, 2);
      const Tensor plain = filled(shape, dtype, NAN), dx = filled(shape, dtype, NAN),
                   exact = filled(shape, sums, NAN);
      const Tensor dbias = filled({width}, sums, NAN), twice = filled({width}, sums, 1);
      const auto run = [&](const Tensor& to, const Target& bias) {
        kernels.activation_backward({.activation = Activation::gelu_tanh,
                                     .dy = dy,
                                     .pre_activation = x,
                                     .dx = to,
                                     .dbias = bias});
      };
      run(plain, {});
      run(dx, {dbias});
      expect_same_bits(dx, plain, "dx");
      run(exact, {twice, true});  // the same values, not rounded to dtype
      Values expected(width), bound(width), more(width);
      const Values terms = read(exact);
      for (int64_t i = 0; i < rows * width; ++i) {
        expected[i % width] += terms[i];
        bound[i % width] += std::abs(terms[i]) * static_cast<double>(rows) * sum_epsilon(dtype);
      }
      expect_within(read(dbias), expected, bound, std::string(name(dtype)) + " dbias");
      for (int64_t i = 0; i < width; ++i) {
        more[i] = expected[i] + 1;
        bound[i] += (1 + std::abs(more[i])) * sum_epsilon(dtype);
      }
      expect_within(read(twice), more, bound, std::string(name(dtype)) + " dbias added");
    }
  }
}

// Looked up or computed, the derivative at a 16-bit x is that of the same value in f32.
TEST(CpuActivation, BackwardOfEveryBf16IsThatOfItsValue) {
  constexpr int64_t codes = 1 << 16;
  const Tensor x = filled({codes}, DType::bf16, 0), same = filled({codes}, DType::f32, 0);
  for (int64_t i = 0; i < codes; ++i) {
    x.mutable_data<bf16>()[i] = bf16::from_bits(static_cast<uint16_t>(i));
    same.mutable_data<float>()[i] = x.data<bf16>()[i];
  }
  const Tensor dy = noise({codes}, DType::f32, 1);
  for (const Activation activation : activations) {
    const Tensor dx = filled({codes}, DType::f32, 0), expected = filled({codes}, DType::f32, 0);
    backward(activation, dy, x, dx);
    backward(activation, dy, same, expected);
    for (int64_t i = 0; i < codes; ++i) {
      const float found = dx.data<float>()[i], wanted = expected.data<float>()[i];
      ASSERT_TRUE(found == wanted || (std::isnan(found) && std::isnan(wanted)))
          << "activation " << static_cast<int>(activation) << " code " << i << ": " << found
          << " instead of " << wanted;
    }
  }
}

TEST(CpuActivation, BackwardKeepsNaN) {
  const Tensor x = make({3}, DType::f32, {NAN, 1, 2}), dy = make({3}, DType::f32, {1, NAN, 1});
  for (const Activation activation : {Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    const Tensor dx = filled({3}, DType::f32, 0);
    backward(activation, dy, x, dx);
    EXPECT_TRUE(std::isnan(dx.data<float>()[0]));
    EXPECT_TRUE(std::isnan(dx.data<float>()[1]));
    EXPECT_TRUE(std::isfinite(dx.data<float>()[2]));
  }
}

struct Case {
  int64_t rows, width;
};
const Case cases[] = {{0, 4}, {1, 1}, {3, 5}, {7, 64}, {2, 2051}};

TEST(CpuActivation, SwigluAgreesWithDouble) {
  for (const Case& c : cases) {
    for (const Types& t : type_cases) {
      const Tensor x_tensor = wide_noise({c.rows, 2 * c.width}, t.x, 1),
                   y = filled({c.rows, c.width}, t.y, NAN);
      kernels.swiglu(x_tensor, y);
      const Values x = read(x_tensor);
      Values expected(static_cast<size_t>(y.numel())), bound(expected.size());
      for (int64_t i = 0; i < y.numel(); ++i) {
        const int64_t at = i / c.width * 2 * c.width + i % c.width;
        const double gate = x[at], up = x[at + c.width];
        expected[i] = gate * sigmoid(gate) * up;
        bound[i] = 8 * sum_epsilon(t.x) * std::abs(expected[i]) + std::abs(gate * up) * 0x1p-126;
        bound[i] += storage_error(t.y, std::abs(expected[i]) + bound[i]);
        if (std::abs(expected[i]) > 60000 && t.y == DType::f16)
          bound[i] = std::numeric_limits<double>::infinity();
      }
      expect_within(read(y), expected, bound, std::string(name(t.x)) + " swiglu");
    }
  }
}

TEST(CpuActivation, SwigluBackwardAgreesWithDouble) {
  for (const Case& c : cases) {
    for (const Types& t : type_cases) {
      const Shape shape{c.rows, 2 * c.width};
      const Tensor x_tensor = noise(shape, t.x, 1), dy_tensor = noise({c.rows, c.width}, t.y, 2),
                   dx = filled(shape, t.x, NAN);
      const Tensor y = filled({c.rows, c.width}, t.x, NAN),
                   expected_y = filled({c.rows, c.width}, t.x, NAN);
      kernels.swiglu_backward({dy_tensor, x_tensor, dx, y});
      kernels.swiglu(x_tensor, expected_y);
      expect_same_bits(y, expected_y, "the result itself");
      const Values x = read(x_tensor), dy = read(dy_tensor);
      Values expected(x.size()), bound(x.size());
      for (int64_t i = 0; i < dy_tensor.numel(); ++i) {
        const int64_t at = i / c.width * 2 * c.width + i % c.width;
        const double gate = x[at], up = x[at + c.width], unit = sum_epsilon(t.x);
        const Derivative derivative = derivative_of(Activation::silu, gate);
        expected[at] = dy[i] * up * derivative.value;
        bound[at] =
            std::abs(dy[i] * up) * unit * (derivative.bound + 4 * std::abs(derivative.value));
        expected[at + c.width] = dy[i] * gate * sigmoid(gate);
        bound[at + c.width] = 8 * unit * std::abs(expected[at + c.width]);
      }
      for (size_t i = 0; i < x.size(); ++i)
        bound[i] += storage_error(t.x, std::abs(expected[i]) + bound[i]);
      expect_within(read(dx), expected, bound, std::string(name(t.x)) + " swiglu backward");
      kernels.swiglu_backward({dy_tensor, x_tensor, x_tensor});
      expect_same_bits(x_tensor, dx, "in place");
    }
  }
}

TEST(CpuActivation, DropoutKeepsWhatTheKeySays) {
  const random::Key key{11, 5};
  for (const int64_t n : {0, 1, 6, 1025, 40001}) {
    for (const Types& t : type_cases) {
      // The last one is a draw itself, which keeps its element.
      for (const double p : {0.0, 0.1, 0.5, 1.0, double{random::uniform(11, 5, 3)}}) {
        const Tensor x_tensor = noise({n}, t.x, 1), y_tensor = filled({n}, t.y, NAN);
        kernels.dropout(x_tensor, p, key, y_tensor);
        const Values x = read(x_tensor), y = read(y_tensor);
        Values expected(x.size()), bound(x.size());
        for (size_t i = 0; i < x.size(); ++i) {
          const bool kept = random::uniform(key.seed, key.stream, i) >= static_cast<float>(p);
          expected[i] = kept ? x[i] / (1 - p) : 0;
          bound[i] =
              kept ? 2 * sum_epsilon(t.x) * std::abs(expected[i]) + storage_error(t.y, expected[i])
                   : 0;
        }
        expect_within(y, expected, bound, std::string(name(t.x)) + " dropout " + std::to_string(p));
      }
    }
  }
}

TEST(CpuActivation, FillsAreFunctionsOfKeyAndIndex) {
  const random::Key key{3, 9};
  for (const DType dtype : compute_types) {
    const int64_t n = 3001;
    const Tensor normal = filled({n}, dtype, NAN), uniform = filled({n}, dtype, NAN);
    kernels.fill_normal(0.5, 0.02, key, normal);
    kernels.fill_uniform(-2, 3, key, uniform);
    Values expected_normal(n), expected_uniform(n);
    for (int64_t i = 0; i < n; ++i) {
      expected_normal[i] =
          0.5 + 0.02 * static_cast<double>(random::normal(key.seed, key.stream, i));
      expected_uniform[i] = -2 + 5 * static_cast<double>(random::uniform(key.seed, key.stream, i));
    }
    expect_same_bits(normal, make({n}, dtype, expected_normal), "normal");
    expect_same_bits(uniform, make({n}, dtype, expected_uniform), "uniform");
  }
  EXPECT_THROW(kernels.fill_normal(0, 1, key, Tensor::empty({2}, DType::i64)), Error);
}

TEST(CpuActivation, BitsDoNotDependOnThreads) {
  const int64_t n = 100003;
  const Tensor x = noise({n}, DType::bf16, 1), dy = noise({n}, DType::bf16, 2),
               pairs = noise({37, 2000}, DType::f32, 3);
  std::vector<Tensor> results[4];
  for (const int count : {1, 2, 8}) {
    const ThreadCount threads(count);
    for (auto& result : results) result.push_back(filled({n}, DType::bf16, NAN));
    backward(Activation::gelu, dy, x, results[0].back());
    kernels.dropout(x, 0.3, {1, 2}, results[1].back());
    kernels.fill_normal(0, 1, {1, 2}, results[2].back());
    results[3].back() = filled({37, 1000}, DType::f32, NAN);
    kernels.swiglu(pairs, results[3].back());
  }
  for (const auto& result : results) {
    expect_same_bits(result[1], result[0], "2 threads");
    expect_same_bits(result[2], result[0], "8 threads");
  }
}

}  // namespace
}  // namespace binade::backend::cpu_activation_test
