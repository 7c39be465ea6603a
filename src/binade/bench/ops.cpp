#include "binade/bench/ops.h"

#include <fmt/format.h>

#include <functional>

#include "binade/backend/backend.h"
#include "binade/backend/capabilities.h"
#include "binade/backend/update_rules.h"
#include "binade/base/json.h"
#include "binade/bench/machine.h"
#include "binade/formats/dynamic_code.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/unary.h"

namespace binade::bench {
namespace {

using backend::NormKind;

constexpr int64_t rows = 16384, width = 1024;

struct Kernel {
  std::string name;
  double bytes;
  std::function<void()> run;
};

// Operands that the kernels share.
struct Operands {
  explicit Operands(Device device) : device(device) {}

  Tensor random(const Shape& shape, DType dtype, uint64_t stream) const {
    const Tensor values = randn(shape, {1, stream}, DType::f32, device);
    return dtype == DType::f32 ? values : cast(values, dtype);
  }
  Tensor empty(const Shape& shape, DType dtype) const {
    return Tensor::empty(shape, dtype, device);
  }

  // The transposed quantized matrix, which some devices' matmuls take as well.
  Tensor transposed(const Shape& shape, DType dtype) const {
    return needs_transposed() ? empty(shape, dtype) : Tensor();
  }
  bool needs_transposed() const { return backend::capabilities(device).needs_transposed_quantized; }
  // How many times the quantized data is written.
  double times() const { return needs_transposed() ? 2 : 1; }

  Device device;
  Tensor f32 = random({rows, width}, DType::f32, 0), f32_out = empty({rows, width}, DType::f32);
  Tensor bf16 = random({rows, width}, DType::bf16, 1),
         other = random({rows, width}, DType::bf16, 2),
         bf16_out = empty({rows, width}, DType::bf16),
         sum = zeros({rows, width}, DType::bf16, device);
  Tensor pairs = random({rows / 2, 2 * width}, DType::bf16, 3),
         half = random({rows / 2, width}, DType::bf16, 4);
  Tensor weight = ones({width}, DType::f32, device), bias = zeros({width}, DType::f32, device);
  Tensor mean = empty({rows}, DType::f32), rstd = empty({rows}, DType::f32);
  Tensor dweight = empty({width}, DType::f32), dbias = empty({width}, DType::f32);
  Tensor target = randint(0, width, {rows}, {1, 5}, device);
  Tensor losses = empty({rows}, DType::f32), ones_of_rows = ones({rows}, DType::f32, device);
  Tensor moments = zeros({rows, width}, DType::f32, device),
         squares = zeros({rows, width}, DType::f32, device);
  Tensor weights = random({rows, width}, DType::f32, 7),
         rest = zeros({rows, width, 2}, DType::u8, device);  // of split master weights
  Tensor moment_codes = zeros({rows, width}, DType::u8, device),
         square_codes = zeros({rows, width}, DType::u8, device),
         moment_scales = zeros({rows * width / formats::dynamic_block}, DType::f32, device),
         square_scales = zeros({rows * width / formats::dynamic_block}, DType::f32, device);
  Tensor norm = empty({1}, DType::f32), factor = ones({1}, DType::f32, device);
  Tensor index = randint(0, rows, {rows}, {1, 6}, device);
  Tensor quantized = empty({rows, width}, DType::e4m3),
         quantized_transposed = transposed({width, rows}, DType::e4m3);
  Tensor half_quantized = empty({rows / 2, width}, DType::e4m3),
         half_transposed = transposed({width, rows / 2}, DType::e4m3);
  Tensor pair_quantized = empty({rows / 2, 2 * width}, DType::e5m2),
         pair_transposed = transposed({2 * width, rows / 2}, DType::e5m2);
  Tensor amax = zeros({1}, DType::f32, device);
};

using Kernels = std::vector<Kernel>;
constexpr double elements = static_cast<double>(rows * width);

void add_elementwise(Kernels& list, const Operands& o, const backend::Backend& table) {
  list.push_back(
      {"cast f32 to bf16", 6 * elements, [&] { table.elementwise.copy(o.f32, o.bf16_out); }});
  list.push_back(
      {"cast bf16 to f32", 6 * elements, [&] { table.elementwise.copy(o.bf16, o.f32_out); }});
  list.push_back({"add bf16", 6 * elements, [&] {
                    table.elementwise.binary(backend::Binary::add, o.bf16, o.other, o.bf16_out);
                  }});
  list.push_back({"gelu bf16", 4 * elements, [&] {
                    table.elementwise.unary(backend::Unary::gelu_tanh, {}, o.bf16, o.bf16_out);
                  }});
  list.push_back({"gelu backward bf16", 6 * elements, [&] {
                    table.activation.activation_backward({.activation = Activation::gelu_tanh,
                                                          .dy = o.other,
                                                          .pre_activation = o.bf16,
                                                          .dx = o.bf16_out});
                  }});
  list.push_back({"gelu and bias backward bf16", 6 * elements, [&] {
                    table.activation.activation_backward({.activation = Activation::gelu_tanh,
                                                          .dy = o.other,
                                                          .pre_activation = o.bf16,
                                                          .dx = o.bf16_out,
                                                          .dbias = {o.dbias}});
                  }});
  list.push_back({"swiglu bf16", 3 * elements, [&] { table.activation.swiglu(o.pairs, o.half); }});
}

void add_rows(Kernels& list, const Operands& o, const backend::Backend& table) {
  list.push_back({"layer norm bf16", 4 * elements, [&] {
                    table.norm.forward({.kind = NormKind::layer,
                                        .x = o.bf16,
                                        .weight = o.weight,
                                        .bias = o.bias,
                                        .eps = 1e-5,
                                        .y = o.bf16_out,
                                        .mean = o.mean,
                                        .rstd = o.rstd});
                  }});
  list.push_back({"residual + layer norm bf16", 8 * elements, [&] {
                    table.norm.forward({.kind = NormKind::layer,
                                        .x = o.bf16,
                                        .residual = o.other,
                                        .weight = o.weight,
                                        .bias = o.bias,
                                        .eps = 1e-5,
                                        .sum = o.sum,
                                        .y = o.bf16_out,
                                        .mean = o.mean,
                                        .rstd = o.rstd});
                  }});
  list.push_back({"layer norm backward bf16", 6 * elements, [&] {
                    table.norm.backward({.kind = NormKind::layer,
                                         .dy = o.other,
                                         .x = o.bf16,
                                         .weight = o.weight,
                                         .mean = o.mean,
                                         .rstd = o.rstd,
                                         .dx = {o.bf16_out},
                                         .dweight = {o.dweight},
                                         .dbias = {o.dbias}});
                  }});
  list.push_back({"softmax bf16", 4 * elements,
                  [&] { table.softmax.forward(backend::SoftmaxKind::plain, o.bf16, o.bf16_out); }});
  list.push_back({"cross entropy bf16", 2 * elements, [&] {
                    table.loss.cross_entropy({.logits = o.bf16,
                                              .target = o.target,
                                              .ignore_index = -100,
                                              .losses = o.losses,
                                              .lse = o.mean});
                  }});
  list.push_back({"cross entropy backward bf16", 4 * elements, [&] {
                    table.loss.cross_entropy_backward({.dlosses = o.ones_of_rows,
                                                       .logits = o.bf16,
                                                       .target = o.target,
                                                       .lse = o.mean,
                                                       .ignore_index = -100,
                                                       .dlogits = o.bf16_out});
                  }});
  list.push_back(
      {"cross entropy to gradient bf16", 4 * elements, [&] {
         table.loss.cross_entropy_to_gradient(
             {.logits = o.bf16_out, .target = o.target, .ignore_index = -100, .losses = o.losses});
       }});
  list.push_back({"embedding rows f32", 8 * elements,
                  [&] { table.index.index_select(o.f32, 0, o.index, o.f32_out); }});
}

// Quantized matrices as matmuls take them, with their amax.
void add_fp8(Kernels& list, const Operands& o, const backend::Backend& table) {
  list.push_back(
      {"fp8 of bf16", (2 + o.times()) * elements, [&] {
         table.quantize.quantize(o.bf16, {o.factor, o.quantized, o.quantized_transposed, o.amax});
       }});
  list.push_back({"fp8 of layer norm bf16", (2 + o.times()) * elements, [&] {
                    table.quantize.quantize_norm(
                        {.x = o.bf16,
                         .weight = o.weight,
                         .bias = o.bias,
                         .mean = o.mean,
                         .rstd = o.rstd,
                         .dtype = DType::bf16},
                        {o.factor, o.quantized, o.quantized_transposed, o.amax});
                  }});
  list.push_back({"fp8 of swiglu bf16", (2 + o.times() / 2) * elements, [&] {
                    table.quantize.quantize_swiglu(
                        o.pairs, {o.factor, o.half_quantized, o.half_transposed, o.amax});
                  }});
  list.push_back({"fp8 of swiglu backward bf16", (3 + o.times()) * elements, [&] {
                    table.quantize.quantize_swiglu_backward(
                        o.half, o.pairs, {o.factor, o.pair_quantized, o.pair_transposed, o.amax},
                        {});
                  }});
}

void add_optimizer(Kernels& list, const Operands& o, const backend::Backend& table) {
  const auto adamw = [&](const char* name, double bytes, const backend::UpdateItem& item) {
    list.push_back({name, bytes * elements, [&o, &table, item] {
                      table.optimizer.update(
                          {&item, 1},
                          backend::AdamParams{.lr = 1e-6, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8},
                          {.gradient_factor = o.factor});
                    }});
  };
  adamw("adamw f32, bf16 copy", 30,
        {.master = o.weights,
         .gradient = o.f32,
         .first = o.moments,
         .second = o.squares,
         .copy = o.bf16_out});
  backend::UpdateItem split{.master = o.sum, .rest = o.rest, .gradient = o.bf16};
  split.first = o.moments, split.second = o.squares;
  adamw("adamw split, bf16 gradients", 26, split);
  split.first = o.moment_codes, split.second = o.square_codes;
  split.first_scale = o.moment_scales, split.second_scale = o.square_scales;
  adamw("adamw split, 8-bit moments", 14, split);
  list.push_back({"gradient norm f32", 4 * elements, [&] {
                    const TensorView gradient = o.f32;
                    table.optimizer.gradient_norm({&gradient, 1}, 2, o.norm, {});
                  }});
}

}  // namespace

std::vector<OpTiming> bench_ops(Device device, double seconds) {
  const Operands operands(device);
  const backend::Backend& table = backend::of(device);
  const auto copy = [&] { table.elementwise.copy(operands.f32, operands.f32_out); };
  constexpr double copied = 8 * elements;
  Kernels kernels;
  add_elementwise(kernels, operands, table);
  add_rows(kernels, operands, table);
  add_fp8(kernels, operands, table);
  add_optimizer(kernels, operands, table);
  std::vector<OpTiming> result;
  double best_copy = 0;
  for (const Kernel& kernel : kernels) {
    const std::vector<double> best = contest(device, {copy, kernel.run}, seconds);
    if (best_copy == 0 || best[0] < best_copy) best_copy = best[0];
    result.push_back(
        {kernel.name, best[1], kernel.bytes, (kernel.bytes / best[1]) / (copied / best[0])});
  }
  result.insert(result.begin(), {"copy f32", best_copy, copied, 1});
  return result;
}

std::string to_table(Device device, const std::vector<OpTiming>& timings) {
  std::string text = fmt::format("{}\n{:<30} {:>9} {:>9} {:>9}\n", device_text(device), "kernel",
                                 "ms", "GB/s", "of copy");
  for (const OpTiming& f : timings)
    text += fmt::format("{:<30} {:>9.3f} {:>9.1f} {:>8.0f}%\n", f.name, f.seconds * 1e3,
                        f.bytes / f.seconds / 1e9, f.share_of_copy * 100);
  return text;
}

std::string to_json(Device device, const std::vector<OpTiming>& timings) {
  json::Writer out(2);
  out.begin_object().key("bench").value("ops").key("device").value(device_text(device));
  out.key("results").begin_array();
  for (const OpTiming& f : timings) {
    out.begin_object().key("kernel").value(f.name).key("ms").value(f.seconds * 1e3);
    out.key("gigabytes_per_second").value(f.bytes / f.seconds / 1e9);
    out.key("share_of_copy").value(f.share_of_copy).end_object();
  }
  return out.end_array().end_object().text();
}

}  // namespace binade::bench
