#include "binade/lab/layer_stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/module_path.h"
#include "binade/backend/backend.h"
#include "binade/base/json.h"
#include "binade/ops/create.h"
#include "binade/ops/index.h"
#include "binade/ops/linear.h"
#include "binade/ops/quantize.h"
#include "binade/ops/shape.h"
#include "binade/ops/unary.h"

namespace binade::lab {
namespace {

using amp::Fp8Role;

// Rows and columns sampled from each operand: 32 x 32 outputs cost little beside the layer itself.
constexpr int64_t sample_size = 32;
constexpr double max_decibels = 200;  // reported for a matmul without noise

const formats::Format& format_of(DType fp8) {
  return fp8 == DType::e4m3 ? formats::spec::e4m3 : formats::spec::e5m2;
}

// For its lifetime, disables autograd, observers and autocast.
struct MeasurementScope {
  NoGrad no_grad;
  autograd::OpObserverScope no_observer{nullptr};
  amp::Autocast no_autocast{amp::disabled_autocast()};
};

Tensor matrix(const Tensor& x) { return reshape(x.detach(), {-1, x.size(-1)}); }

// Evenly spaced rows (axis 0), or columns transposed into rows (axis 1), in f32.
Tensor sample(const Tensor& x, int axis) {
  const int64_t size = x.size(axis), count = std::min(sample_size, size);
  std::vector<int64_t> index;
  for (int64_t i = 0; i < count; ++i) index.push_back(i * size / count);
  const Tensor selected =
      cast(index_select(x, axis, tensor(index, {count}, x.device())), DType::f32);
  return axis == 0 ? selected : contiguous(transpose(selected, 0, 1));
}

double amax_of(const Tensor& x) {
  const Tensor amax = Tensor::empty({1}, DType::f32, x.device());
  backend::of(x).quantize.amax(x, amax);
  return amax.item();
}

// `scales` holds the factor each candidate format multiplies values by.
TensorStats statistics(const Tensor& sample, double amax,
                       const std::array<double, candidate_count>& scales) {
  TensorStats stats{.amax = amax};
  const std::vector<double> values = to_vector(sample);
  for (size_t f = 0; f < candidate_count; ++f) {
    const double low = candidates[f]->min_subnormal() / 2;
    // A scale from the amax takes that to the largest number, give or take a rounding in f32.
    const double high = candidates[f]->max() * (1 + formats::spec::f32.epsilon());
    int64_t under = 0, over = 0;
    for (const double value : values) {
      const double scaled = std::abs(value) * scales[f];
      under += scaled != 0 && scaled <= low;
      over += scaled > high;
    }
    const auto count = static_cast<double>(std::max<size_t>(values.size(), 1));
    stats.out_of_range[f] = {static_cast<double>(under) / count, static_cast<double>(over) / count};
  }
  return stats;
}

// The scale of each candidate format: `scale` for the type in use, amax-based for other FP8 types.
std::array<double, candidate_count> scales_for(double amax, DType used, double scale) {
  std::array<double, candidate_count> scales;
  for (size_t f = 0; f < candidate_count; ++f) {
    const formats::Format& format = *candidates[f];
    scales[f] = format.bits() > 8                 ? 1
                : format == format_of(used)       ? scale
                : amax > 0 && std::isfinite(amax) ? format.max() / amax
                                                  : 1;
  }
  return scales;
}

// The energy of a reference and of the error of its approximation.
struct Noise {
  double signal = 0, noise = 0;
  double harm = 0;  // mean over columns of noise / signal, each at most 1
};

// `reference` and `rounded` are [rows, columns].
Noise noise_of(const Tensor& reference_matrix, const Tensor& rounded_matrix) {
  const std::vector<double> reference = to_vector(reference_matrix),
                            rounded = to_vector(rounded_matrix);
  const auto columns = static_cast<size_t>(reference_matrix.size(1));
  std::vector<double> signal(columns), noise(columns);
  for (size_t i = 0; i < reference.size(); ++i) {
    signal[i % columns] += reference[i] * reference[i];
    noise[i % columns] += (rounded[i] - reference[i]) * (rounded[i] - reference[i]);
  }
  Noise result;
  int64_t counted = 0;
  for (size_t j = 0; j < columns; ++j) {
    if (!(signal[j] > 0) || !std::isfinite(signal[j])) continue;
    ++counted;
    result.signal += signal[j];
    result.noise += noise[j];
    result.harm += std::isfinite(noise[j]) ? std::min(1.0, noise[j] / signal[j]) : 1;
  }
  if (counted > 0) result.harm /= static_cast<double>(counted);
  return result;
}

// Compares a b^T with the matmul of the rounded operands. Harm weighs all outputs, and all channels
// of the operands, equally: one giant channel carries most of the signal and would hide the loss of
// the rest.
MatmulStats compare_matmuls(const Tensor& a, const Tensor& b, const Tensor& rounded_a,
                            const Tensor& rounded_b) {
  const Noise outputs = noise_of(linear(a, b), linear(rounded_a, rounded_b));
  return {outputs.noise > 0
              ? std::min(max_decibels, 10 * std::log10(outputs.signal / outputs.noise))
              : max_decibels,
          std::max({outputs.harm, noise_of(a, rounded_a).harm, noise_of(b, rounded_b).harm})};
}

}  // namespace

double LayerStats::harm() const { return std::max({forward.harm, dgrad.harm, wgrad.harm}); }

LayerStatistics::LayerStatistics(amp::Fp8Recipe recipe,
                                 const std::vector<std::pair<std::string, Tensor>>& buffers)
    : recipe_(std::move(recipe)), buffers_(buffers.begin(), buffers.end()) {}

double LayerStatistics::scale_of(const std::string& module, const char* stream, Fp8Role role,
                                 double amax) const {
  const auto found = buffers_.find(fmt::format("{}.fp8.{}.scale", module, stream));
  if (recipe_.scaling == amp::Fp8Scaling::delayed && found != buffers_.end())
    return found->second.item();
  if (!(amax > 0) || !std::isfinite(amax)) return 1;
  return format_of(amp::fp8_type(recipe_, role)).max() / amax;
}

// x [rows, summed axis] after a round trip through FP8.
Tensor LayerStatistics::rounded(const Tensor& x, Fp8Role role, double scale) const {
  const DType type = amp::fp8_type(recipe_, role);
  switch (recipe_.scaling) {
    case amp::Fp8Scaling::delayed:
    case amp::Fp8Scaling::current:
      return dequantize(quantize(x, scale, type));
    case amp::Fp8Scaling::mx:
      return dequantize(quantize(x, {.dtype = type, .mx = true}));
    case amp::Fp8Scaling::row:
      return dequantize(quantize(x, {.dtype = type,
                                     .group = {1, 0},
                                     .power_of_two = recipe_.power_of_two,
                                     .eps = recipe_.eps}));
    case amp::Fp8Scaling::block:
      return dequantize(quantize(x, {.dtype = type, .group = {1, 128}, .power_of_two = true}));
  }
  return x;
}

void LayerStatistics::forward(Op op, std::span<const Tensor> inputs, std::span<const Tensor>,
                              std::span<const Tensor>) {
  const std::string& module = autograd::module_path();
  if (op != Op::linear || samples_.contains(module) || inputs[0].numel() == 0) return;
  const MeasurementScope measurement;
  const Tensor x = matrix(inputs[0]), w = matrix(inputs[1]);
  const double x_amax = amax_of(x), w_amax = amax_of(w);
  Sample kept{.input = sample(x, 1), .weight = sample(w, 1)};
  kept.input_scale = scale_of(module, "input", Fp8Role::activation, x_amax);
  kept.weight_scale = scale_of(module, "weight", Fp8Role::weight, w_amax);
  const Tensor x_rows = sample(x, 0), w_rows = sample(w, 0);
  LayerStats stats{.module = module};
  stats.input = statistics(x_rows, x_amax, scales_for(x_amax, DType::e4m3, kept.input_scale));
  stats.weight = statistics(w_rows, w_amax, scales_for(w_amax, DType::e4m3, kept.weight_scale));
  stats.forward =
      compare_matmuls(x_rows, w_rows, rounded(x_rows, Fp8Role::activation, kept.input_scale),
                      rounded(w_rows, Fp8Role::weight, kept.weight_scale));
  layers_.push_back(std::move(stats));
  samples_[module] = std::move(kept);
}

// Uses the gradient the op receives. An op with an activation first multiplies it by a derivative
// of order 1, which is ignored.
void LayerStatistics::after_backward(const autograd::Node& node, std::span<const Tensor> dy) {
  const auto found = samples_.find(node.module);
  if (node.op != Op::linear || found == samples_.end() || !found->second.input.defined()) return;
  const MeasurementScope measurement;
  const Sample kept = std::exchange(found->second, {});
  const auto stats = std::find_if(layers_.begin(), layers_.end(), [&node](const LayerStats& one) {
    return one.module == node.module;
  });
  const Tensor gradient = matrix(dy[0]);
  const double amax = amax_of(gradient);
  const double scale = scale_of(node.module, "gradient", Fp8Role::gradient, amax);
  const Tensor rows = sample(gradient, 0), columns = sample(gradient, 1);
  stats->gradient =
      statistics(rows, amax, scales_for(amax, amp::fp8_type(recipe_, Fp8Role::gradient), scale));
  stats->dgrad = compare_matmuls(rows, kept.weight, rounded(rows, Fp8Role::gradient, scale),
                                 rounded(kept.weight, Fp8Role::weight, kept.weight_scale));
  stats->wgrad = compare_matmuls(columns, kept.input, rounded(columns, Fp8Role::gradient, scale),
                                 rounded(kept.input, Fp8Role::activation, kept.input_scale));
}

std::vector<LayerStats> LayerStatistics::ranking() const {
  std::vector<LayerStats> result = layers_;
  std::stable_sort(result.begin(), result.end(),
                   [](const LayerStats& a, const LayerStats& b) { return a.harm() > b.harm(); });
  return result;
}

std::string ranking_text(const std::vector<LayerStats>& layers, size_t max_layers) {
  std::string text = fmt::format("{:<28}{:>7}{:>10}{:>8}{:>8}{:>10}{:>10}{:>10}\n", "layer", "harm",
                                 "sqnr fwd", "dgrad", "wgrad", "amax x", "amax w", "amax dy");
  for (size_t i = 0; i < std::min(max_layers, layers.size()); ++i) {
    const LayerStats& one = layers[i];
    text += fmt::format("{:<28}{:>7.4f}{:>7.1f} dB{:>8.1f}{:>8.1f}{:>10.3g}{:>10.3g}{:>10.3g}\n",
                        one.module, one.harm(), one.forward.sqnr, one.dgrad.sqnr, one.wgrad.sqnr,
                        one.input.amax, one.weight.amax, one.gradient.amax);
  }
  return text;
}

std::string ranking_json(const std::vector<LayerStats>& layers, int64_t step) {
  json::Writer out;
  const auto number = [&out](double value) {
    std::isfinite(value) ? out.value(value) : out.value(nullptr);
  };
  out.begin_object().key("step").value(step).key("layers").begin_array();
  for (const LayerStats& one : layers) {
    out.begin_object().key("module").value(one.module).key("harm").value(one.harm());
    const std::pair<const char*, const TensorStats*> tensors[] = {
        {"input", &one.input}, {"weight", &one.weight}, {"gradient", &one.gradient}};
    for (const auto& [name, stats] : tensors) {
      out.key(name).begin_object().key("amax");
      number(stats->amax);
      for (size_t f = 0; f < candidate_count; ++f) {
        out.key(candidates[f]->name).begin_object();
        out.key("underflow").value(stats->out_of_range[f].underflow);
        out.key("saturate").value(stats->out_of_range[f].saturate).end_object();
      }
      out.end_object();
    }
    const std::pair<const char*, const MatmulStats*> matmuls[] = {
        {"forward", &one.forward}, {"dgrad", &one.dgrad}, {"wgrad", &one.wgrad}};
    for (const auto& [name, stats] : matmuls) {
      out.key(name).begin_object().key("sqnr");
      number(stats->sqnr);
      out.key("harm").value(stats->harm).end_object();
    }
    out.end_object();
  }
  return out.end_array().end_object().text();
}

}  // namespace binade::lab
