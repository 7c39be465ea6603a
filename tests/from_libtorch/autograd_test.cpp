// Programs of LibTorch's documentation of autograd, with Binade's names. docs/from-libtorch.md
// lists them.
#include <binade/binade.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace binade;

namespace {

using ::testing::Each;
using ::testing::ElementsAre;

void expect_close(const Tensor& found, const Tensor& expected, double tolerance) {
  ASSERT_EQ(found.shape(), expected.shape());
  EXPECT_LE(max(abs(found - expected)).item(), tolerance);
}

// Autograd in C++ Frontend: d mean(3 (x + 2)^2) / dx = 6 (x + 2) / 4.
TEST(FromLibTorchAutograd, BasicOperations) {
  const Tensor x = ones({2, 2}).set_requires_grad();
  const Tensor y = x + 2;
  EXPECT_FALSE(y.is_leaf());
  const Tensor z = y * y * 3;
  const Tensor out = mean(z);
  EXPECT_EQ(out.item(), 27);
  out.backward();
  EXPECT_THAT(to_vector(x.grad()), Each(4.5));
}

// Autograd in C++ Frontend: the product of a vector and the Jacobian.
TEST(FromLibTorchAutograd, VectorJacobianProduct) {
  const Tensor x = tensor({0.5, -1.0, 2.0}).set_requires_grad();
  Tensor y = x * 2;
  double factor = 2;
  while (norm(y).item() < 1000) {
    y = y * 2;
    factor *= 2;
  }
  const Tensor v = tensor({0.25, 1.0, 0.0625});
  y.backward(v);
  EXPECT_TRUE(equal(x.grad(), v * factor)) << "powers of two are exact";
}

// Autograd in C++ Frontend: no gradients in a scope, and for a copy of the handle.
TEST(FromLibTorchAutograd, StopsTracking) {
  Tensor x = randn({3}).set_requires_grad();
  EXPECT_TRUE((x * x).requires_grad());
  {
    const NoGrad no_grad;
    EXPECT_FALSE((x * x).requires_grad());
  }
  const Tensor y = x.detach();
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE(equal(x, y));
  x.set_requires_grad(false);
  EXPECT_FALSE((x * x).requires_grad());
}

// Autograd API, Gradient Computation: grad() beside backward(), of an op's result, too.
TEST(FromLibTorchAutograd, GradOfOutputsAndInputs) {
  const Tensor x = tensor({1.0, 2.0}).set_requires_grad();
  const Tensor y = x * x;
  const Tensor z = sum(y * 3);
  const std::vector<Tensor> gradients = autograd::grad({z}, {x, y});
  EXPECT_THAT(to_vector(gradients[0]), ElementsAre(6, 12));
  EXPECT_THAT(to_vector(gradients[1]), ElementsAre(3, 3));
  EXPECT_FALSE(x.grad().defined()) << "grad() changes no leaf";
  // Gradients are not recorded: a gradient penalty needs LibTorch.
  EXPECT_THROW(autograd::grad({sum(x * x)}, {x}, {.create_graph = true}), Error);
}

// Autograd in C++ Frontend: a linear layer with its own backward.
struct LinearFunction : autograd::Function<LinearFunction> {
  static Tensor forward(autograd::FunctionContext& context, const Tensor& input,
                        const Tensor& weight, const Tensor& bias) {
    context.save({input, weight});
    return matmul(input, transpose(weight, 0, 1)) + bias;
  }
  static std::vector<Tensor> backward(autograd::FunctionContext& context,
                                      std::span<const Tensor> dy) {
    const std::vector<Tensor> saved = context.saved();
    return {matmul(dy[0], saved[1]), matmul(transpose(dy[0], 0, 1), saved[0]), sum(dy[0], 0)};
  }
};

TEST(FromLibTorchAutograd, CustomLinearFunction) {
  const Tensor x = randn({2, 3}).set_requires_grad(), weight = randn({4, 3}).set_requires_grad(),
               bias = randn({4}).set_requires_grad();
  sum(square(LinearFunction::apply(x, weight, bias))).backward();
  const std::vector<Tensor> expected =
      autograd::grad({sum(square(linear(x, weight, bias)))}, {x, weight, bias});
  const double tolerance = 1e-5;  // sums of a few numbers of about 1
  expect_close(x.grad(), expected[0], tolerance);
  expect_close(weight.grad(), expected[1], tolerance);
  expect_close(bias.grad(), expected[2], tolerance);
}

// Autograd in C++ Frontend: an argument that is no tensor.
struct MulConstant : autograd::Function<MulConstant> {
  static Tensor forward(autograd::FunctionContext& context, const Tensor& x, double constant) {
    context.numbers["constant"] = constant;
    return x * constant;
  }
  static std::vector<Tensor> backward(autograd::FunctionContext& context,
                                      std::span<const Tensor> dy) {
    return {dy[0] * context.numbers["constant"]};
  }
};

TEST(FromLibTorchAutograd, CustomFunctionWithANumber) {
  const Tensor x = randn({2}).set_requires_grad();
  MulConstant::apply(x, 5.5).backward(ones({2}));
  EXPECT_THAT(to_vector(x.grad()), Each(5.5));
}

// Inference Mode: a trained model without any graph.
TEST(FromLibTorchAutograd, Inference) {
  nn::Sequential model{std::make_unique<nn::Linear>(4, 8), std::make_unique<nn::Dropout>(0.5),
                       std::make_unique<nn::Linear>(8, 2)};
  model.eval();
  const NoGrad guard;
  const Tensor input = randn({3, 4});
  const Tensor output = model(input);
  EXPECT_FALSE(output.requires_grad());
  EXPECT_TRUE(equal(output, model(input))) << "dropout is off";
}

// Custom C++ Extensions: the LLTM cell, an LSTM without a forget gate and with an ELU, whose
// forward returns two tensors. Gates are input, output and candidate.
struct Lltm : autograd::Function<Lltm> {
  static std::vector<Tensor> forward(autograd::FunctionContext& context, const Tensor& input,
                                     const Tensor& weight, const Tensor& bias, const Tensor& old_h,
                                     const Tensor& old_cell) {
    const Tensor x = cat({old_h, input}, 1);
    const std::vector<Tensor> gates = chunk(addmm(bias, x, transpose(weight, 0, 1)), 3, 1);
    const Tensor input_gate = sigmoid(gates[0]), output_gate = sigmoid(gates[1]);
    const Tensor candidate = elu(gates[2]);
    const Tensor new_cell = old_cell + candidate * input_gate;
    context.save({new_cell, input_gate, output_gate, candidate, x, gates[2], weight});
    return {tanh(new_cell) * output_gate, new_cell};
  }
  static std::vector<Tensor> backward(autograd::FunctionContext& context,
                                      std::span<const Tensor> dy) {
    const std::vector<Tensor> saved = context.saved();
    const Tensor &new_cell = saved[0], &input_gate = saved[1], &output_gate = saved[2],
                 &candidate = saved[3], &x = saved[4], &candidate_argument = saved[5],
                 &weight = saved[6];
    const auto sigmoid_derivative = [](const Tensor& y) { return y * (1 - y); };
    const Tensor squashed = tanh(new_cell);
    const Tensor d_cell = dy[0] * output_gate * (1 - square(squashed)) + dy[1];
    const Tensor elu_derivative =
        where(candidate_argument > 0, ones_like(candidate), candidate + 1);
    const Tensor d_gates = cat(
        {d_cell * candidate * sigmoid_derivative(input_gate),
         dy[0] * squashed * sigmoid_derivative(output_gate), d_cell * input_gate * elu_derivative},
        1);
    const Tensor d_x = matmul(d_gates, weight);
    const int64_t width = new_cell.size(1);
    return {slice(d_x, 1, width, d_x.size(1)), matmul(transpose(d_gates, 0, 1), x), sum(d_gates, 0),
            slice(d_x, 1, 0, width), d_cell};
  }
};

TEST(FromLibTorchAutograd, CustomCellWithTwoResults) {
  const Tensor input = randn({3, 5}).set_requires_grad(),
               weight = randn({12, 9}).set_requires_grad(), bias = randn({12}).set_requires_grad(),
               old_h = randn({3, 4}).set_requires_grad(),
               old_cell = randn({3, 4}).set_requires_grad();
  const std::vector<Tensor> leaves{input, weight, bias, old_h, old_cell};
  const auto loss = [](const std::vector<Tensor>& state) {
    return sum(square(state[0]) + state[1] * 0.5);
  };
  const auto found =
      autograd::grad({loss(Lltm::apply(input, weight, bias, old_h, old_cell))}, leaves);
  autograd::FunctionContext unused;  // the same forward, recorded op by op
  const auto expected =
      autograd::grad({loss(Lltm::forward(unused, input, weight, bias, old_h, old_cell))}, leaves);
  for (size_t i = 0; i < leaves.size(); ++i) expect_close(found[i], expected[i], 1e-5);
}

}  // namespace
