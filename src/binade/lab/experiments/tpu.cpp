#include <fmt/format.h>

#include <cmath>

#include "binade/amp/autocast.h"
#include "binade/lab/experiments.h"
#include "binade/lab/experiments/regression.h"
#include "binade/nn/init.h"
#include "binade/ops/create/create.h"
#include "binade/ops/custom.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "binade/optim/adam.h"

namespace binade::lab {
namespace {

Tensor in_bf16(const Tensor& x) { return cast(cast(x, DType::bf16), DType::f32); }

// x weight^T with operands rounded to bf16 on the way in and a sum that stays f32; so are its two
// backward matmuls. Products of bf16 numbers are exact in f32.
Tensor tpu_linear(const Tensor& x, const Tensor& weight) {
  static const CustomOp op{
      .name = "tpu_linear",
      .forward =
          [](std::span<const Tensor> in) {
            return matmul(in_bf16(in[0]), transpose(in_bf16(in[1]), 0, 1));
          },
      .backward =
          [](const Tensor& dy, std::span<const Tensor> in, const Tensor&, autograd::GradSlots dx) {
            const Tensor rounded = in_bf16(dy);
            dx[0].add(matmul(rounded, in_bf16(in[1])));
            dx[1].add(matmul(transpose(rounded, 0, 1), in_bf16(in[0])));
          }};
  return custom(op, {x, weight});
}

enum class Products : uint8_t { f32, tpu, autocast };

Tensor product(const Tensor& x, const Tensor& weight, Products products) {
  if (products == Products::tpu) return tpu_linear(x, weight);
  const amp::Autocast cast(DType::bf16, {.enabled = products == Products::autocast});
  return linear(x, weight);
}

TpuResult::Mode measure_products(const std::string& name, Products products) {
  const Tensor x = randn({64, 256}, {19, 1}), w = randn({64, 256}, {19, 2});
  const Tensor exact = linear(cast(x, DType::f64), cast(w, DType::f64));
  const Tensor y = product(x, w, products);
  TpuResult::Mode mode{.name = name, .result = std::string(binade::name(y.dtype()))};
  mode.error = norm(cast(y, DType::f64) - exact).item() / norm(exact).item();
  nn::init::restart(3);
  Tensor up = nn::init::normal({32, 16}, 0.25, {}), down = nn::init::normal({1, 32}, 0.2, {});
  up.set_requires_grad();
  down.set_requires_grad();
  optim::Adam adam({up, down}, {.lr = 1e-2});
  const RegressionData data = regression_data();
  for (int step = 0; step < 200; ++step) {
    adam.zero_grad();
    const Tensor out = product(gelu(product(data.x, up, products)), down, products);
    const Tensor loss = mse_loss(cast(out, DType::f32), data.target);
    mode.loss = loss.item();
    loss.backward();
    adam.step();
  }
  return mode;
}

}  // namespace

TpuResult tpu_experiment(ExperimentReport& report) {
  report.add_paragraph(
      "A TPU's matrix unit stores tensors in f32, rounds the operands of a product to bf16 on the "
      "way in, and sums in f32. GPUs under autocast also round the result to bf16, which halves "
      "the "
      "memory of activations. Both are compared with f32: the error of a matmul of depth 256, and "
      "the loss of a small network after 200 steps.");
  TpuResult result{{measure_products("f32", Products::f32),
                    measure_products("bf16 products of f32 storage (TPU)", Products::tpu),
                    measure_products("bf16 autocast (GPU)", Products::autocast)}};
  std::vector<std::vector<std::string>> table;
  for (const TpuResult::Mode& mode : result.modes)
    table.push_back({mode.name, mode.result, fmt::format("{:.5f}%", 100 * mode.error),
                     fmt::format("{:.4f}", mode.loss)});
  report.add_table({"matmuls", "result", "error of a matmul", "loss after 200 steps"}, table);
  report.add_conclusion(
      fmt::format("rounding the operands costs {:.2f}% and rounding the result, too, {:.2f}%: the "
                  "operands make "
                  "most of the error, whichever machine it is. The losses are {:.4f}, {:.4f} and "
                  "{:.4f}. Such a "
                  "product is a CustomOp of ten lines.",
                  100 * result.modes[1].error, 100 * result.modes[2].error, result.modes[0].loss,
                  result.modes[1].loss, result.modes[2].loss));
  return result;
}

}  // namespace binade::lab
