#include "binade/ops/matmul/linear.h"

#include "binade/backend/capabilities.h"
#include "binade/ops/common.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/einsum.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"

namespace binade {
namespace {

using namespace ops;
using backend::batch_of_one;

void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  require_compute("linear", "x", x);
  require_compute("linear", "weight", weight);
  require_rank("linear", "weight", weight, 2);
  if (x.rank() == 0 || x.size(-1) != weight.size(1)) {
    fail("linear", {.argument = "x",
                    .expected = "[..., " + std::to_string(weight.size(1)) + "] for weight " +
                                describe(weight),
                    .found = describe(x)});
  }
  if (!bias.defined()) return;
  require_compute("linear", "bias", bias);
  require_shape("linear", "bias", bias, {weight.size(0)});
}

// A linear layer's activated result, from the matrix before the activation.
class ActivationRecompute final : public autograd::ResultRecompute {
 public:
  ActivationRecompute(Activation activation, const Tensor& pre, bool has_bias)
      : activation_(activation), pre_(pre), has_bias_(has_bias) {}

  Tensor compute(const Tensor& gradient) override {
    const Tensor& pre = pre_;
    const auto& kernels = backend::of(pre).activation;
    if (gradient.defined()) {
      return with_gradients(pre, gradient, {.dy = viewed(dense(gradient), pre.shape())},
                            kernels.activation_backward);
    }
    // The pass has a second result, which is not read.
    const Tensor y = Tensor::empty_like(pre), unused = Tensor::empty_like(pre);
    kernels.activation_backward(
        {.activation = activation_, .dy = pre, .pre_activation = pre, .dx = unused, .y = y});
    return y;
  }

  Tensor compute_from_matmul(const Tensor& a, const Tensor& b, const Tensor& gradient,
                             const Tensor& kept) override {
    const Tensor& pre = pre_;
    return with_gradients(pre, gradient, {.dy = viewed(gradient, pre.shape()), .y = kept},
                          [&](const backend::ActivationBackward& args) {
                            backend::of(a).matmul.matmul_activation_backward(a, b, args);
                          });
  }

  // The gradient before the activation; also adds the bias's gradient.
  Tensor gradient(const Tensor& dy, const GradSlot& bias) {
    if (const std::optional<Gradients> early = early_.take(dy)) {
      if (early->dbias.defined()) bias.add(early->dbias);
      return early->dpre;
    }
    return activation_gradient(activation_, viewed(dense(dy), pre_->shape()), pre_, bias);
  }

 private:
  struct Gradients {
    Tensor dpre, dbias;
  };

  struct Operands {
    Tensor dy;      // a view of the result's gradient
    Tensor y = {};  // the result, if it was kept
  };

  // The result; keeps the gradients that the kernel computes from dy.
  template <class Kernel>
  Tensor with_gradients(const Tensor& pre, const Tensor& gradient, const Operands& given,
                        Kernel kernel) {
    const Tensor y = given.y.defined() ? given.y : Tensor::empty_like(pre);
    const Tensor dpre = overwritten_or_new(pre);
    Tensor dbias;
    if (has_bias_) dbias = Tensor::empty({pre.size(1)}, accumulation_type(pre), pre.device());
    kernel({.activation = activation_,
            .dy = given.dy,
            .pre_activation = pre,
            .dx = dpre,
            .dbias = has_bias_ ? backend::Target{.view = dbias} : backend::Target{},
            .y = given.y.defined() ? TensorView() : TensorView(y)});
    early_.set(gradient, {dpre, dbias});
    return y;
  }

  Activation activation_;
  Saved pre_;
  bool has_bias_;
  EarlyGradients<Gradients> early_;
};

// The gradient of a linear layer's bias.
class BiasGradient final : public autograd::GradientSums {
 public:
  void set(const Tensor& gradient, const Tensor& sums) override { early_.set(gradient, sums); }

  // Adds the sums of dy, which `rows` is a view of.
  void add(const Tensor& dy, const Tensor& rows, const GradSlot& bias) {
    if (const std::optional<Tensor> early = early_.take(dy)) {
      bias.add(*early);
    } else {
      add_reduced(bias, rows);
    }
  }

 private:
  EarlyGradients<Tensor> early_;
};

// What a linear layer's kernel is to compute.
struct Forward {
  Tensor x, weight, bias;  // x [rows, in]
  Activation activation;
  Tensor y, pre;  // pre may be undefined
  bool tf32;

  void run() const {
    backend::of(y).matmul.matmul(
        batch_of_one(x), backend::transposed(batch_of_one(weight)), batch_of_one(y),
        {.bias = bias,
         .activation = activation,
         .pre_activation = pre.defined() ? batch_of_one(pre) : TensorView(),
         .tf32 = tf32});
  }

  // Runs it along with SwiGLU of y, which it returns. Undefined, with nothing run, if no kernel
  // computes both.
  Tensor run_with_swiglu() const {
    backend::LinearSwiGlu args{.a = x, .weight = weight, .bias = bias, .x = y};
    if (!backend::fuses_swiglu(args, y.device())) return {};
    const Tensor gated = Tensor::empty({y.size(0), y.size(1) / 2}, y.dtype(), y.device());
    args.y = gated;
    backend::of(y).matmul.matmul_swiglu(args);
    return gated;
  }
};

// `gated`: if not null, receives SwiGLU of the result if the kernel computes that, too.
Tensor recorded_linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       Activation activation, Tensor* gated) {
  check_linear(x, weight, bias);
  const Call call(Op::linear, {x, weight, bias});
  require_same_dtype("linear", call[0], call[1]);
  const int64_t rows = rows_of(call[0].shape()).rows, in = weight.size(1);
  const int64_t out = weight.size(0);
  const Tensor flat = viewed(dense(call[0]), {rows, in});
  const Tensor y = Tensor::empty({rows, out}, flat.dtype(), flat.device());
  const bool keeps_pre = activation != Activation::none && call.recording();
  const Tensor pre = keeps_pre ? Tensor::empty_like(y) : Tensor();
  const bool tf32 = amp::matmul_precision() == amp::MatmulPrecision::high;
  const Forward forward{.x = flat,
                        .weight = call[1],
                        .bias = dense(call[2]),
                        .activation = activation,
                        .y = y,
                        .pre = pre,
                        .tf32 = tf32};
  if (gated != nullptr) *gated = forward.run_with_swiglu();
  if (gated == nullptr || !gated->defined()) forward.run();
  Shape shape = x.shape();
  shape[x.rank() - 1] = out;
  const auto activated =
      keeps_pre ? std::make_shared<ActivationRecompute>(activation, pre, call[2].defined())
                : nullptr;
  // Asks the bias itself, since its cast in call[2] is without autograd.
  const bool needs_sums = call.recording() && !keeps_pre && bias.defined() && bias.requires_grad();
  const auto bias_gradient = needs_sums ? std::make_shared<BiasGradient>() : nullptr;
  const Tensor result = viewed(y, shape);
  call.result(result, [=, x = SavedInput(call[0], flat), weight = Saved(call[1])](
                          const Tensor& dy_given, GradSlots dx) {
    const auto& kernels = backend::of(dy_given);
    Tensor dy;
    if (activated == nullptr) {
      dy = viewed(dense(dy_given), {rows, out});
      if (bias_gradient != nullptr) bias_gradient->add(dy_given, dy, dx[2]);
    } else {
      dy = activated->gradient(dy_given, dx[2]);
    }
    // x, if it is needed and was computed along with its gradient.
    Tensor flat;
    if (dx[1].needs_grad() && size_of(dy.dtype()) == 2) flat = x.get_from_matmul(dx[0], dy, weight);
    if (dx[0].needs_grad() && !flat.defined()) {
      const auto [buffer, accumulate] = dx[0].target();
      kernels.matmul.matmul(batch_of_one(dy), batch_of_one(weight.get()),
                            batch_of_one(viewed(buffer, {rows, in})),
                            {.beta = accumulate ? 1.0f : 0.0f, .tf32 = tf32});
    }
    if (dx[1].needs_grad()) {
      const auto [buffer, accumulate] = dx[1].target();
      kernels.matmul.matmul(backend::transposed(batch_of_one(dy)),
                            batch_of_one(flat.defined() ? flat : x.get(dx[0])),
                            batch_of_one(buffer), {.beta = accumulate ? 1.0f : 0.0f, .tf32 = tf32});
    }
  });
  offer_gradient_sums(result, bias_gradient);
  if (activated != nullptr && backend::capabilities(y.device()).recomputes_results) {
    activated->keeps_result = !recomputes_results(y.device());
    offer_recompute(result, activated);
  }
  return result;
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  return recorded_linear(x, weight, bias, activation, nullptr);
}

std::pair<Tensor, Tensor> linear_with_swiglu(const Tensor& x, const Tensor& weight,
                                             const Tensor& bias) {
  Tensor gated;
  const Tensor y = recorded_linear(x, weight, bias, Activation::none, &gated);
  return {y, gated};
}

Tensor activate(const Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return relu(x);
    case Activation::gelu:
      return gelu(x, Gelu::erf);
    case Activation::gelu_tanh:
      return gelu(x, Gelu::tanh);
    case Activation::silu:
      return silu(x);
  }
  return x;
}

Tensor linear_composite(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        Activation activation) {
  check_linear(x, weight, bias);
  Composite call(Op::linear, {x, weight, bias});
  const Tensor y = matmul(call[0], transpose(call[1], 0, 1));
  return call.result(activate(bias.defined() ? y + call[2] : y, activation));
}

Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias) {
  require_compute("bilinear", "a", a);
  require_compute("bilinear", "b", b);
  require_rank("bilinear", "weight", weight, 3);
  if (a.rank() == 0 || b.rank() == 0 || a.size(-1) != weight.size(1) ||
      b.size(-1) != weight.size(2) || rows_of(a.shape()).rows != rows_of(b.shape()).rows) {
    fail("bilinear", {.argument = "a and b",
                      .expected = "[..., i] and [..., j] for weight " + describe(weight),
                      .found = describe(a) + " and " + describe(b)});
  }
  require_compute("bilinear", "weight", weight);
  if (bias.defined()) require_shape("bilinear", "bias", bias, {weight.size(0)});
  Composite call(Op::bilinear, {a, b, weight, bias});
  for (const size_t i : {0, 1, 3}) require_same_dtype("bilinear", call[i], call[2]);
  const int64_t rows = rows_of(a.shape()).rows;
  const Tensor left = reshape(call[0], {rows, a.size(-1)}),
               right = reshape(call[1], {rows, b.size(-1)});
  const Tensor half =
      reshape(tensordot(left, call[2], {1}, {1}), {rows, weight.size(0), b.size(-1)});
  Tensor y = sum(half * unsqueeze(right, 1), {-1});
  if (bias.defined()) y = y + call[3];
  Shape shape = a.shape();
  shape[a.rank() - 1] = weight.size(0);
  return call.result(reshape(y, shape));
}

}  // namespace binade
