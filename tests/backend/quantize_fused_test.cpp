#include <gtest/gtest.h>

#include "binade/backend/backend.h"
#include "binade/backend/gpu.h"
#include "binade/base/random.h"
#include "support/values.h"

// A matrix quantized as it is computed has the bits of the matrix computed, rounded and quantized.
namespace binade::backend::quantize_fused_test {
namespace {

class QuantizeFused : public testing::Test {
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

  // `write` without the data: the transposed data and amax that it had with it.
  template <class F>
  void expect_transposed_alone(const QuantizedOutput& complete, const Tensor& transposed,
                               const Tensor& amax, F write) {
    const Tensor alone = filled(transposed.shape(), transposed.dtype(), 0),
                 its_amax = filled({1}, DType::f32, 0);
    write({.scale = complete.scale, .transposed = alone, .amax = its_amax});
    EXPECT_TRUE(test::same_bits(alone, transposed));
    EXPECT_TRUE(test::same_bits(its_amax, amax));
  }

  // `fused(out)` against quantize(x): data, transposed data and amax.
  template <class F>
  void expect_bits_of(const Tensor& x, F fused) {
    const auto plain = [&](const QuantizedOutput& out) { of(device).quantize.quantize(x, out); };
    for (const DType fp8 : {DType::e4m3, DType::e5m2}) {
      for (const bool with_transposed : {false, true}) {
        SCOPED_TRACE(std::string(name(fp8)) + (with_transposed ? ", transposed too" : ""));
        const Tensor scale = filled({1}, DType::f32, 37.5);
        std::vector<Tensor> results[2];
        for (const bool direct : {false, true}) {
          std::vector<Tensor>& out = results[direct];
          out = {filled(x.shape(), fp8, 0), filled({1}, DType::f32, 0)};
          if (with_transposed) out.push_back(filled({x.size(1), x.size(0)}, fp8, 0));
          const QuantizedOutput output{
              .scale = scale,
              .data = out[0],
              .transposed = with_transposed ? TensorView(out[2]) : TensorView(),
              .amax = out[1]};
          if (direct) {
            fused(output);
            if (with_transposed) expect_transposed_alone(output, out[2], out[1], fused);
          } else {
            plain(output);
            if (with_transposed) expect_transposed_alone(output, out[2], out[1], plain);
          }
        }
        for (size_t i = 0; i < results[0].size(); ++i)
          EXPECT_TRUE(test::same_bits(results[1][i], results[0][i])) << "result " << i;
      }
    }
  }

  // quantize_swiglu_backward with swiglu(x) = y as its second output.
  void expect_gated(const Tensor& dy, const Tensor& x, const Tensor& dx, const Tensor& y,
                    bool with_data) {
    const Tensor scale = filled({1}, DType::f32, 37.5), other_scale = filled({1}, DType::f32, 3.5);
    const auto bytes = [&](const Shape& shape, DType fp8) { return filled(shape, fp8, 0); };
    const Tensor data[2] = {bytes(dx.shape(), DType::e5m2), bytes(dx.shape(), DType::e5m2)};
    const Shape columns{y.size(1), y.size(0)};
    const Tensor gated[2] = {bytes(y.shape(), DType::e4m3), bytes(y.shape(), DType::e4m3)},
                 transposed[2] = {bytes(columns, DType::e4m3), bytes(columns, DType::e4m3)};
    const auto& kernels = of(device).quantize;
    kernels.quantize(dx, {.scale = scale, .data = data[0]});
    kernels.quantize(y, {.scale = other_scale, .data = gated[0], .transposed = transposed[0]});
    kernels.quantize_swiglu_backward(dy, x, {.scale = scale, .data = data[1]},
                                     {.scale = other_scale,
                                      .data = with_data ? TensorView(gated[1]) : TensorView(),
                                      .transposed = transposed[1]});
    EXPECT_TRUE(test::same_bits(data[1], data[0]));
    EXPECT_TRUE(test::same_bits(transposed[1], transposed[0]));
    if (with_data) {
      EXPECT_TRUE(test::same_bits(gated[1], gated[0]));
    }
  }

  // Full tiles, full chunks, ragged edges, more rows than the CPU computes at a time.
  const std::vector<Shape> shapes = {{128, 128}, {80, 272}, {67, 131}, {1, 7}, {300, 48}, {0, 16}};
  const DType types[3] = {DType::bf16, DType::f16, DType::f32};

  void swiglu() {
    for (const Shape& shape : shapes) {
      for (const DType type : types) {
        SCOPED_TRACE(to_string(shape) + std::string(name(type)));
        const Tensor x = noise({shape[0], 2 * shape[1]}, type, 1, 2);
        const Tensor y = Tensor::empty(shape, type, device);
        of(x).activation.swiglu(x, y);
        expect_bits_of(y,
                       [&](const QuantizedOutput& out) { of(x).quantize.quantize_swiglu(x, out); });

        const Tensor dy = noise(shape, type, 2), dx = Tensor::empty_like(x);
        of(x).activation.swiglu_backward({dy, x, dx});
        expect_bits_of(dx, [&](const QuantizedOutput& out) {
          of(x).quantize.quantize_swiglu_backward(dy, x, out, {});
        });
        for (const bool with_data : {false, true}) expect_gated(dy, x, dx, y, with_data);
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
          expect_bits_of(dx, [&](const QuantizedOutput& out) {
            of(x).quantize.quantize_activation_backward(activation, dy, x, out);
          });
        }
      }
    }
  }

  // norm.forward with a quantized output: the sum, and the data and amax of quantize(y).
  void expect_quantized_by(NormForward args, const Tensor& sum, const Tensor& y) {
    const Tensor scale = filled({1}, DType::f32, 37.5), again = Tensor::empty_like(sum);
    for (const DType fp8 : {DType::e4m3, DType::e5m2}) {
      const Tensor data[2] = {filled(y.shape(), fp8, 0), filled(y.shape(), fp8, 0)},
                   amax[2] = {filled({1}, DType::f32, 0), filled({1}, DType::f32, 0)};
      of(device).quantize.quantize(y, {.scale = scale, .data = data[0], .amax = amax[0]});
      args.sum = again;
      args.quantized = {.scale = scale, .data = data[1], .amax = amax[1]};
      args.rounded = y.dtype();
      of(device).norm.forward(args);
      EXPECT_TRUE(test::same_bits(again, sum));
      EXPECT_TRUE(test::same_bits(data[1], data[0])) << name(fp8);
      EXPECT_TRUE(test::same_bits(amax[1], amax[0])) << name(fp8);
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
            expect_quantized_by(args, sum, y);
            expect_bits_of(y, [&](const QuantizedOutput& out) {
              kernels.quantize.quantize_norm({.x = sum,
                                              .weight = weight,
                                              .bias = bias,
                                              .mean = mean,
                                              .rstd = rstd,
                                              .dtype = type},
                                             out);
            });
          }
        }
      }
    }
  }

  // {batch, tokens, heads, dim}: whole tiles, heads of other sizes, one that crosses tiles, halves
  // that chunks do not divide, and more rows of a sequence than the CPU computes at a time.
  void rope() {
    const std::vector<Shape> all = {{2, 64, 3, 128}, {3, 16, 4, 64}, {2, 48, 3, 256},
                                    {1, 5, 3, 20},   {2, 7, 1, 2},   {2, 150, 3, 32}};
    for (const Shape& shape : all) {
      for (const DType type : types) {
        for (const bool inverse : {false, true}) {
          SCOPED_TRACE(to_string(shape) + std::string(name(type)) + (inverse ? " inverse" : ""));
          const int64_t start = 3, rotated = std::max<int64_t>(1, shape[2] - 1);
          const Shape table{start + shape[1], shape[3] / 2};
          const Tensor x = noise(shape, type, 9), cosine = noise(table, DType::f32, 10),
                       sine = noise(table, DType::f32, 11), y = Tensor::empty_like(x);
          const auto heads = [&](const Tensor& t) {
            return t.strided({shape[0], shape[1], rotated, shape[3]}, t.strides(), 0);
          };
          of(x).elementwise.copy(x, y);
          of(x).attention.rope({.x = heads(x),
                                .cosine = cosine,
                                .sine = sine,
                                .start = start,
                                .inverse = inverse,
                                .y = heads(y)});
          const Shape matrix{shape[0] * shape[1], shape[2] * shape[3]};
          expect_bits_of(y.strided(matrix, {matrix[1], 1}, 0), [&](const QuantizedOutput& out) {
            of(x).quantize.quantize_rope({.x = x,
                                          .rotated = rotated,
                                          .cosine = cosine,
                                          .sine = sine,
                                          .start = start,
                                          .inverse = inverse},
                                         out);
          });
        }
      }
    }
  }
};

class QuantizeFusedGpu : public QuantizeFused {
 protected:
  void SetUp() override {
    if (gpus().empty()) GTEST_SKIP() << "there is no GPU";
    device = Device::cuda();
  }
};

TEST_F(QuantizeFused, SwigluAndItsGradient) { swiglu(); }
TEST_F(QuantizeFused, TheGradientOfEveryActivation) { activation_backward(); }
TEST_F(QuantizeFused, Norms) { norms(); }
TEST_F(QuantizeFused, Rope) { rope(); }
TEST_F(QuantizeFusedGpu, SwigluAndItsGradient) { swiglu(); }
TEST_F(QuantizeFusedGpu, Rope) { rope(); }
TEST_F(QuantizeFusedGpu, Norms) { norms(); }
TEST_F(QuantizeFusedGpu, TheGradientOfEveryActivation) { activation_backward(); }

}  // namespace
}  // namespace binade::backend::quantize_fused_test
