#include "binade/lab/layer_stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/module_path.h"
#include "binade/backend/backend.h"
#include "binade/base/json.h"
#include "binade/base/text.h"
#include "binade/io/tensorboard.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/quantized/quantize.h"
#include "binade/ops/shape/shape.h"

namespace binade::lab {
namespace {

using amp::Role;

// Rows and columns sampled from each operand: 32 x 32 outputs cost little beside the layer itself.
constexpr int64_t sample_size = 32;
// Elements of a sampled row or column. The ratio of noise to signal hardly depends on how many
// products a sum has, and copies to the host stay short.
constexpr int64_t sample_length = 1024;
// Elements whose rounding to each format is measured: enough for a tenth of a decibel or two.
constexpr size_t rounded_values = 1024;
constexpr double max_decibels = 200;  // reported for a matmul without noise

// For its lifetime, disables autograd, observers and autocast.
struct MeasurementScope {
  NoGrad no_grad;
  autograd::OpObserverScope no_observer{nullptr};
  amp::Autocast no_autocast{amp::disabled_autocast()};
};

Tensor matrix(const Tensor& x) { return reshape(x.detach(), {-1, x.size(-1)}); }

backend::AsyncCopy amax_of(const Tensor& x) {
  const Tensor amax = Tensor::empty({1}, DType::f32, x.device());
  backend::of(x).quantize.amax(x, amax);
  return backend::AsyncCopy(amax);
}

// Evenly spaced elements, at most `rows` x `columns` of them.
Tensor spaced(const Tensor& x, int64_t rows, int64_t columns) {
  rows = std::min(rows, x.size(0));
  columns = std::min(columns, x.size(1));
  return x.strided({rows, columns},
                   {x.size(0) / rows * x.strides()[0], x.size(1) / columns * x.strides()[1]},
                   x.offset());
}

// A value rounded to a format, saturating.
template <const formats::Format& F>
double rounded_value(double value) {
  return formats::decode<F>(formats::encode<F>(
      static_cast<float>(value), formats::Rounding::nearest_even, formats::Overflow::saturate));
}
// In the order of the candidates.
constexpr double (*round_to_candidate[candidate_count])(double) = {
    rounded_value<formats::spec::f16>, rounded_value<formats::spec::bf16>,
    rounded_value<formats::spec::e4m3>, rounded_value<formats::spec::e5m2>};

double decibels_of(double signal, double noise) {
  // Non-finite values have no ratio either.
  if (!(signal > 0) || !std::isfinite(signal) || !std::isfinite(noise))
    return std::numeric_limits<double>::quiet_NaN();
  return noise > 0 ? std::min(max_decibels, 10 * std::log10(signal / noise)) : max_decibels;
}

// The SQNR of about rounded_values elements.
double sqnr_of(std::span<const float> values, double scale, double (*round)(double)) {
  // An odd stride, so that it does not stay in some of the channels.
  const size_t stride = (values.size() / rounded_values) | 1;
  double signal = 0, noise = 0;
  for (size_t i = 0; i < values.size(); i += stride) {
    const double scaled = double{values[i]} * scale, error = round(scaled) - scaled;
    signal += scaled * scaled;
    noise += error * error;
  }
  return decibels_of(signal, noise);
}

void count_outlier_channels(const Tensor& sample, TensorStats& stats) {
  const auto columns = static_cast<size_t>(sample.size(1));
  std::vector<double> largest(columns);
  const float* value = sample.data<float>();
  for (int64_t i = 0; i < sample.size(0); ++i) {
    for (size_t j = 0; j < columns; ++j, ++value)
      largest[j] = std::max(largest[j], std::abs(double{*value}));
  }
  stats.channels = sample.size(1);
  if (columns == 0) return;
  std::vector<double> sorted = largest;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(columns / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  const double limit = outlier_factor * *middle;
  stats.outlier_channels =
      std::count_if(largest.begin(), largest.end(), [limit](double one) { return one > limit; });
}

void count_exponents(std::span<const float> values, TensorStats& stats) {
  std::map<int, int64_t> counts;
  for (const float value : values) {
    if (value != 0 && std::isfinite(value)) ++counts[std::ilogb(value)];
  }
  if (counts.empty()) return;
  stats.first_exponent = counts.begin()->first;
  stats.exponents.resize(static_cast<size_t>(counts.rbegin()->first - stats.first_exponent) + 1);
  for (const auto& [exponent, count] : counts)
    stats.exponents[static_cast<size_t>(exponent - stats.first_exponent)] =
        static_cast<double>(count) / static_cast<double>(values.size());
}

// `scales` holds the factor each candidate format multiplies values by.
TensorStats statistics(const Tensor& sample, double amax,
                       const std::array<double, candidate_count>& scales) {
  TensorStats stats{.amax = amax};
  const std::span<const float> values(sample.data<float>(), static_cast<size_t>(sample.numel()));
  const auto count = static_cast<double>(std::max<size_t>(values.size(), 1));
  stats.zeros = static_cast<double>(std::count(values.begin(), values.end(), 0.0f)) / count;
  for (size_t f = 0; f < candidate_count; ++f) {
    const double low = candidates[f]->min_subnormal() / 2;
    // A scale from the amax takes that to the largest number, give or take a rounding in f32.
    const double high = candidates[f]->max() * (1 + formats::spec::f32.epsilon());
    int64_t under = 0, over = 0;
    for (const float value : values) {
      const double scaled = std::abs(double{value}) * scales[f];
      under += scaled != 0 && scaled <= low;
      over += scaled > high;
    }
    stats.out_of_range[f] = {static_cast<double>(under) / count, static_cast<double>(over) / count};
    stats.sqnr[f] = sqnr_of(values, scales[f], round_to_candidate[f]);
  }
  count_outlier_channels(sample, stats);
  count_exponents(values, stats);
  return stats;
}

// The scale of each candidate format: `scale` for the one in use, amax-based for others of 8 bits.
std::array<double, candidate_count> scales_for(double amax, const formats::Format& used,
                                               double scale) {
  std::array<double, candidate_count> scales;
  for (size_t f = 0; f < candidate_count; ++f) {
    const formats::Format& format = *candidates[f];
    scales[f] = format.bits() > 8                 ? 1
                : format == used                  ? scale
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
  const float *reference = reference_matrix.data<float>(), *rounded = rounded_matrix.data<float>();
  const auto columns = static_cast<size_t>(reference_matrix.size(1));
  std::vector<double> signal(columns), noise(columns);
  for (int64_t i = 0; i < reference_matrix.size(0); ++i) {
    for (size_t j = 0; j < columns; ++j, ++reference, ++rounded) {
      const double value = *reference, difference = *rounded - value;
      signal[j] += value * value;
      noise[j] += difference * difference;
    }
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

// The harm of rounding a and b, given the noise it causes in a b^T. All outputs, and all channels
// of the operands, weigh equally: one giant channel carries most of the signal and would hide the
// loss of the rest.
double harm_of(const Noise& outputs, const Noise& a, const Noise& b) {
  return std::max({outputs.harm, a.harm, b.harm});
}

}  // namespace

bool matches_module(const std::string& pattern, const std::string& module) {
  return matches_glob(pattern, module) || matches_glob(pattern + ".*", module);
}

double LayerStats::harm() const { return std::max({forward.harm, dgrad.harm, wgrad.harm}); }

LayerStatistics::LayerStatistics(amp::Recipe recipe, Scales scales, Options options)
    : recipe_(std::move(recipe)), scales_(std::move(scales)), options_(std::move(options)) {
  // What a recipe leaves out is measured with a scale per tensor.
  for (const Role role : {Role::input, Role::weight, Role::gradient}) {
    if (!recipe_.tensors[role]) recipe_.tensors[role] = amp::recipes::current()[role];
  }
}

LayerStatistics::HostSample::HostSample(const Sample& sample) {
  const Tensor buffer = sample.buffer.get();
  const Shape &row_shape = sample.rows, &column_shape = sample.columns;
  rows = buffer.strided(row_shape, {row_shape[1], 1}, 0);
  columns = buffer.strided(column_shape, {column_shape[1], 1}, row_shape.numel());
  const float* const numbers = buffer.data<float>() + row_shape.numel() + column_shape.numel();
  amax = numbers[0];
  if (sample.has_scale) given_scale = numbers[1];
}

double LayerStatistics::HostSample::scale(const formats::Format& format) const {
  if (given_scale) return *given_scale;
  return amax > 0 && std::isfinite(amax) ? format.max() / amax : 1;
}

LayerStatistics::Sample LayerStatistics::sample(const Tensor& x, const std::string& module,
                                                amp::Role role) const {
  const Tensor rows = spaced(x, sample_size, sample_length);
  const Tensor columns = transpose(spaced(x, sample_length, sample_size), 0, 1);
  const int64_t end = rows.numel() + columns.numel();
  const Tensor buffer = Tensor::empty({end + 2}, DType::f32, x.device());
  const backend::Backend& kernels = backend::of(x);
  kernels.elementwise.copy(rows, buffer.strided(rows.shape(), {rows.size(1), 1}, 0));
  kernels.elementwise.copy(columns,
                           buffer.strided(columns.shape(), {columns.size(1), 1}, rows.numel()));
  kernels.quantize.amax(x, buffer.strided({1}, {1}, end));
  const auto scales = scales_.find(module);
  const Tensor scale = scales == scales_.end() ? Tensor() : scales->second[role];
  const bool has_scale = recipe_[role].is_delayed() && scale.defined();
  if (has_scale)
    kernels.elementwise.copy(scale.strided({1}, {1}, scale.offset()),
                             buffer.strided({1}, {1}, end + 1));
  return {backend::AsyncCopy(buffer), rows.shape(), columns.shape(), has_scale};
}

Tensor LayerStatistics::rounded(const Operand& operand, const amp::Recipe& recipe) {
  amp::TensorRecipe tensor = recipe[operand.role];
  const DType type = stored_type(tensor.format);
  if (tensor.is_per_tensor() && type != DType::u8)
    return dequantize(quantize(operand.x, operand.scale, type));
  tensor.group.rows = 1;  // rows of a sample are not neighbors
  return dequantize(quantize(operand.x, tensor));
}

void LayerStatistics::forward(Op op, std::span<const Tensor> inputs, std::span<const Tensor>,
                              std::span<const Tensor> outputs) {
  const std::string& module = autograd::module_path();
  if (op != Op::linear || inputs[0].numel() == 0) return;
  // Adapters, which run by no recipe, have two matmuls under one path.
  if (module.find(".lora.") != std::string::npos) return;
  const auto& patterns = options_.modules;
  const bool selected =
      patterns.empty() || std::any_of(patterns.begin(), patterns.end(), [&](const auto& pattern) {
        return matches_module(pattern, module);
      });
  if (!selected) return;
  const auto seen = [&module](const Layer& layer) { return layer.module == module; };
  if (std::any_of(layers_.begin(), layers_.end(), seen)) return;
  const MeasurementScope measurement;
  layers_.push_back({.module = module,
                     .input = sample(matrix(inputs[0]), module, Role::input),
                     .weight = sample(matrix(inputs[1]), module, Role::weight),
                     .gradient = {},
                     .result_amax = amax_of(matrix(outputs[0]))});
}

// Uses the gradient the op receives. An op with an activation first multiplies it by a derivative
// of order 1, which is ignored.
void LayerStatistics::after_backward(const autograd::Node& node, std::span<const Tensor> dy) {
  if (node.op != Op::linear) return;
  const auto layer = std::find_if(layers_.begin(), layers_.end(),
                                  [&node](const Layer& one) { return one.module == node.module; });
  if (layer == layers_.end() || layer->gradient.defined()) return;
  const MeasurementScope measurement;
  layer->gradient = sample(matrix(dy[0]), node.module, Role::gradient);
}

TensorStats LayerStatistics::tensor_stats(const HostSample& sample, Role role) const {
  const formats::Format& format = recipe_[role].format;
  return statistics(sample.rows, sample.amax,
                    scales_for(sample.amax, format, sample.scale(format)));
}

MatmulStats LayerStatistics::compared(const Operand& a, const Operand& b) const {
  const Tensor reference = linear(a.x, b.x);
  MatmulStats stats;
  const auto harm = [&](const amp::Recipe& recipe, double* sqnr) {
    const Tensor rounded_a = rounded(a, recipe), rounded_b = rounded(b, recipe);
    const Noise outputs = noise_of(reference, linear(rounded_a, rounded_b));
    if (sqnr != nullptr) *sqnr = decibels_of(outputs.signal, outputs.noise);
    return harm_of(outputs, noise_of(a.x, rounded_a), noise_of(b.x, rounded_b));
  };
  stats.harm = harm(recipe_, &stats.sqnr);
  if (options_.finer) stats.finer_harm = harm(*options_.finer, nullptr);
  return stats;
}

LayerStats LayerStatistics::stats_of(const Layer& layer) const {
  const HostSample x(layer.input), w(layer.weight);
  const auto scale = [this](const HostSample& sample, Role role) {
    return sample.scale(recipe_[role].format);
  };
  const double x_scale = scale(x, Role::input), w_scale = scale(w, Role::weight);
  LayerStats stats{.module = layer.module};
  stats.result_amax = *layer.result_amax.get().data<float>();
  stats.input = tensor_stats(x, Role::input);
  stats.weight = tensor_stats(w, Role::weight);
  stats.forward = compared({x.rows, Role::input, x_scale}, {w.rows, Role::weight, w_scale});
  if (!layer.gradient.defined()) return stats;
  const HostSample dy(layer.gradient);
  const double dy_scale = scale(dy, Role::gradient);
  stats.gradient = tensor_stats(dy, Role::gradient);
  stats.dgrad = compared({dy.rows, Role::gradient, dy_scale}, {w.columns, Role::weight, w_scale});
  stats.wgrad = compared({dy.columns, Role::gradient, dy_scale}, {x.columns, Role::input, x_scale});
  return stats;
}

std::vector<LayerStats> LayerStatistics::ranking() const {
  const MeasurementScope measurement;
  std::vector<LayerStats> result;
  for (const Layer& layer : layers_) result.push_back(stats_of(layer));
  std::stable_sort(result.begin(), result.end(),
                   [](const LayerStats& a, const LayerStats& b) { return a.harm() > b.harm(); });
  return result;
}

std::string ranking_text(const std::vector<LayerStats>& layers, size_t max_layers) {
  // SQNR in dB.
  const auto decibels = [](double sqnr) {
    return std::isnan(sqnr) ? std::string("n/a") : fmt::format("{:.1f}", sqnr);
  };
  std::string text =
      fmt::format("{:<25}{:>7}{:>7}{:>6}{:>6}{:>8}{:>8}{:>8}{:>5}\n", "layer", "harm", "fwd dB",
                  "dgrad", "wgrad", "amax x", "amax w", "amax dy", "dy=0");
  for (size_t i = 0; i < std::min(max_layers, layers.size()); ++i) {
    const LayerStats& one = layers[i];
    text += fmt::format("{:<25}{:>7.4f}{:>7}{:>6}{:>6}{:>8.2g}{:>8.2g}{:>8.2g}{:>4.0f}%\n",
                        one.module, one.harm(), decibels(one.forward.sqnr),
                        decibels(one.dgrad.sqnr), decibels(one.wgrad.sqnr), one.input.amax,
                        one.weight.amax, one.gradient.amax, 100 * one.gradient.zeros);
  }
  return text;
}

void add_events(io::EventWriter& events, const std::vector<LayerStats>& layers, int64_t step) {
  std::vector<std::pair<std::string, double>> values;
  for (const LayerStats& layer : layers) {
    const auto add = [&](const std::string& kind, double value) {
      if (std::isfinite(value)) values.emplace_back(kind + "/" + layer.module, value);
    };
    add("harm", layer.harm());
    const std::pair<const char*, const TensorStats*> tensors[] = {
        {"input", &layer.input}, {"weight", &layer.weight}, {"gradient", &layer.gradient}};
    for (const auto& [name, stats] : tensors) {
      const std::string tensor = name;
      add(tensor + "_amax", stats->amax);
      add(tensor + "_zeros", stats->zeros);
      add(tensor + "_outlier_channels", static_cast<double>(stats->outlier_channels));
      for (size_t f = 0; f < candidate_count; ++f) {
        const std::string format(candidates[f]->name);
        add(tensor + "_sqnr_" + format, stats->sqnr[f]);
        add(tensor + "_underflow_" + format, stats->out_of_range[f].underflow);
        add(tensor + "_saturate_" + format, stats->out_of_range[f].saturate);
      }
    }
  }
  std::vector<io::Scalar> scalars;
  for (const auto& [tag, value] : values) scalars.push_back({tag, value});
  events.add(step, scalars);
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
      out.key("zeros").value(stats->zeros);
      for (size_t f = 0; f < candidate_count; ++f) {
        out.key(candidates[f]->name).begin_object();
        out.key("underflow").value(stats->out_of_range[f].underflow);
        out.key("saturate").value(stats->out_of_range[f].saturate).key("sqnr");
        number(stats->sqnr[f]);
        out.end_object();
      }
      out.key("channels").value(stats->channels);
      out.key("outlier_channels").value(stats->outlier_channels);
      out.key("first_exponent").value(stats->first_exponent).key("exponents").begin_array();
      for (const double fraction : stats->exponents) out.value(fraction);
      out.end_array().end_object();
    }
    const std::pair<const char*, const MatmulStats*> matmuls[] = {
        {"forward", &one.forward}, {"dgrad", &one.dgrad}, {"wgrad", &one.wgrad}};
    for (const auto& [name, stats] : matmuls) {
      out.key(name).begin_object().key("sqnr");
      number(stats->sqnr);
      out.key("harm").value(stats->harm);
      if (stats->finer_harm) out.key("finer_harm").value(*stats->finer_harm);
      out.end_object();
    }
    out.end_object();
  }
  return out.end_array().end_object().text();
}

}  // namespace binade::lab
