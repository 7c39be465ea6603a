#include <gtest/gtest.h>

#include "binade/backend/backend.h"
#include "binade/backend/gpu.h"
#include "binade/base/random.h"
#include "support/values.h"

// Codes of a matrix made on the way are those of the matrix made, rounded and quantized.
namespace binade::backend {
namespace {

class QuantizeMade : public testing::Test {
 protected:
  Device device = Device::cpu();

  Tensor noise(const Shape& shape, DType dtype, uint64_t stream, double deviation = 1) {
    const Tensor x = Tensor::empty(shape, dtype, device);
    of(x).activation.fill_normal(0, deviation, {2025, stream}, x);
    return x;
  }
  Tensor filled(const Shape& shape, DType dtype, double value) {
    const Tensor x = Tensor::empty(shape, dtype, device);
    of(x).elementwise.fill(x, value);
    return x;
  }

  // `fused(codes)` against quantize(made), along rows and transposed, with the amax.
  template <class F>
  void expect_codes(const Tensor& made, F fused) {
    for (const DType fp8 : {DType::e4m3, DType::e5m2}) {
      for (const bool turn : {false, true}) {
        SCOPED_TRACE(std::string(name(fp8)) + (turn ? " transposed too" : ""));
        const Tensor scale = filled({1}, DType::f32, 37.5);
        std::vector<Tensor> results[2];
        for (const bool direct : {false, true}) {
          std::vector<Tensor>& out = results[direct];
          out = {filled(made.shape(), fp8, 0), filled({1}, DType::f32, 0)};
          if (turn) out.push_back(filled({made.size(1), made.size(0)}, fp8, 0));
          const Codes codes{scale, out[0], turn ? TensorView(out[2]) : TensorView(), out[1]};
          if (direct) {
            fused(codes);
          } else {
            of(device).quantize.quantize(made, codes);
          }
        }
        for (size_t i = 0; i < results[0].size(); ++i)
          EXPECT_TRUE(test::same_bits(results[1][i], results[0][i])) << "result " << i;
      }
    }
  }

  // Whole tiles, whole chunks, ragged ends, more rows than the CPU makes at once.
  const std::vector<Shape> shapes = {{128, 128}, {80, 272}, {67, 131}, {1, 7}, {300, 48}, {0, 16}};
  const DType types[3] = {DType::bf16, DType::f16, DType::f32};

  void swiglu() {
    for (const Shape& shape : shapes) {
      for (const DType type : types) {
        SCOPED_TRACE(to_string(shape) + std::string(name(type)));
        const Tensor x = noise({shape[0], 2 * shape[1]}, type, 1, 2);
        const Tensor y = Tensor::empty(shape, type, device);
        of(x).activation.swiglu(x, y);
        expect_codes(y, [&](const Codes& codes) { of(x).quantize.quantize_swiglu(x, codes); });

        const Tensor dy = noise(shape, type, 2), dx = Tensor::empty_like(x);
        of(x).activation.swiglu_backward(dy, x, dx);
        expect_codes(
            dx, [&](const Codes& codes) { of(x).quantize.quantize_swiglu_backward(dy, x, codes); });
      }
    }
  }

  void activation_backward() {
    for (const Shape& shape : shapes) {
      for (const DType type : types) {
        const Tensor x = noise(shape, type, 3, 2), dy = noise(shape, type, 4);
        for (const Activation activation :
             {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
          SCOPED_TRACE(to_string(shape) + std::string(name(type)) +
                       std::to_string(static_cast<int>(activation)));
          const Tensor dx = Tensor::empty_like(dy);
          of(x).activation.activation_backward(
              {.activation = activation, .dy = dy, .pre_activation = x, .dx = dx});
          expect_codes(dx, [&](const Codes& codes) {
            of(x).quantize.quantize_activation_backward(activation, dy, x, codes);
          });
        }
      }
    }
  }

  void norms() {
    for (const Shape& shape : shapes) {
      for (const DType type : types) {
        for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
          for (const DType parameters : {DType::f32, DType::bf16}) {
            SCOPED_TRACE(to_string(shape) + std::string(name(type)) +
                         std::string(name(parameters)) + std::to_string(static_cast<int>(kind)));
            const bool centered = kind == NormKind::layer;
            const Tensor x = noise(shape, type, 5), residual = noise(shape, type, 6);
            const Tensor weight = noise({shape[1]}, parameters, 7),
                         bias = centered ? noise({shape[1]}, parameters, 8) : Tensor();
            const Tensor sum = Tensor::empty_like(x), y = Tensor::empty_like(x);
            const auto statistic = [&] { return filled({shape[0]}, DType::f32, 0); };
            const Tensor mean = centered ? statistic() : Tensor(), rstd = statistic();
            const Tensor mean_again = centered ? statistic() : Tensor(), rstd_again = statistic();
            const Tensor sum_again = Tensor::empty_like(x);
            const auto& kernels = of(device);
            NormForward args{.kind = kind,
                             .x = x,
                             .residual = residual,
                             .weight = weight,
                             .bias = bias,
                             .eps = 1e-5,
                             .sum = sum,
                             .y = y,
                             .mean = mean,
                             .rstd = rstd};
            kernels.norm.forward(args);
            args.y = {};
            args.sum = sum_again;
            args.mean = mean_again;
            args.rstd = rstd_again;
            kernels.norm.forward(args);
            EXPECT_TRUE(test::same_bits(sum_again, sum));
            EXPECT_TRUE(test::same_bits(mean_again, mean));
            EXPECT_TRUE(test::same_bits(rstd_again, rstd));
            expect_codes(y, [&](const Codes& codes) {
              kernels.quantize.quantize_norm(sum, weight, bias, mean, rstd, type, codes);
            });
          }
        }
      }
    }
  }
};

class QuantizeMadeGpu : public QuantizeMade {
 protected:
  void SetUp() override {
    if (gpus().empty()) GTEST_SKIP() << "there is no GPU";
    device = Device::cuda();
  }
};

TEST_F(QuantizeMade, SwigluAndItsGradient) { swiglu(); }
TEST_F(QuantizeMade, TheGradientOfEveryActivation) { activation_backward(); }
TEST_F(QuantizeMade, Norms) { norms(); }
TEST_F(QuantizeMadeGpu, SwigluAndItsGradient) { swiglu(); }
TEST_F(QuantizeMadeGpu, Norms) { norms(); }
TEST_F(QuantizeMadeGpu, TheGradientOfEveryActivation) { activation_backward(); }

}  // namespace
}  // namespace binade::backend
