#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "binade/amp/recipe/state.h"
#include "binade/autograd/node.h"
#include "binade/autograd/op_observer.h"
#include "binade/backend/async_copy.h"
#include "binade/formats/format.h"

namespace binade::io {
class EventWriter;  // io/tensorboard.h
}

// Statistics of linear layers: their value ranges and the error that a recipe causes.
namespace binade::lab {

inline constexpr const formats::Format* candidates[] = {&formats::spec::f16, &formats::spec::bf16,
                                                        &formats::spec::e4m3, &formats::spec::e5m2};
inline constexpr size_t candidate_count = std::size(candidates);

// Fractions of a tensor's elements that are outside a format's range: non-zero values that round to
// zero, and values beyond the largest number. 16-bit formats are unscaled; 8-bit ones use the
// tensor's scale.
struct OutOfRange {
  double underflow = 0;
  double saturate = 0;
};

struct TensorStats {
  double amax = 0;
  double zeros = 0;                                           // fraction of elements that are zero
  std::array<OutOfRange, candidate_count> out_of_range = {};  // by candidate format
  // Signal-to-quantization-noise ratio of the tensor in each candidate format, dB; NaN without a
  // signal or with non-finite elements. 8-bit formats have one scale per tensor.
  std::array<double, candidate_count> sqnr = {};
  // Channels (columns) of the sample, and those whose largest magnitude exceeds outlier_factor
  // times the median of all.
  int64_t channels = 0, outlier_channels = 0;
  // Fractions of the elements by exponent, from first_exponent on.
  int first_exponent = 0;
  std::vector<double> exponents = {};
};
// Far beyond the spread of normally distributed channels, and below the outliers of trained models,
// which are tens to thousands of times larger than other channels.
inline constexpr double outlier_factor = 20;

// A matmul by the recipe compared with f32, on a sample.
struct MatmulStats {
  // Signal-to-quantization-noise ratio, dB; NaN without a signal or with non-finite elements.
  double sqnr = 0;
  // Noise / signal, at most 1: the larger of the means over outputs and over operands' channels.
  double harm = 0;
  std::optional<double> finer_harm = {};  // the same with finer scales, if these were asked for
};

struct LayerStats {
  std::string module;
  TensorStats input, weight, gradient;
  double result_amax = 0;  // of the layer's result
  MatmulStats forward, dgrad, wgrad;

  // The largest harm of the three matmuls: 0 is none; at 1 no signal is left.
  double harm() const;
};

// Whether a pattern with * and ? names the module or one that it is in.
bool matches_module(const std::string& pattern, const std::string& module);

// Observes one step and samples the operands of each linear layer's first call on their device,
// without waiting for it. Delayed scales in use come from `scales` (train::delayed_scales); others
// are computed from the tensors. Does not affect results.
class LayerStatistics : public autograd::OpObserver {
 public:
  struct Options {
    std::optional<amp::Recipe> finer = {};  // a recipe that harm is measured with, too
    std::vector<std::string> modules = {};  // patterns (matches_module); empty: all
  };
  using Scales = std::map<std::string, amp::RoleMap<Tensor>>;  // by module
  LayerStatistics(amp::Recipe recipe, Scales scales, Options options);
  LayerStatistics(amp::Recipe recipe, Scales scales)
      : LayerStatistics(std::move(recipe), std::move(scales), Options()) {}

  void forward(Op op, std::span<const Tensor> inputs, std::span<const Tensor> compute,
               std::span<const Tensor> outputs) override;
  void after_backward(const autograd::Node& node, std::span<const Tensor> dy) override;

  // Layers by harm, largest first. Waits for the samples. May run on another thread once the step
  // has been launched.
  std::vector<LayerStats> ranking() const;

 private:
  // Rows and columns of a matrix on their way to the host: one f32 buffer with the rows, the
  // columns, the largest magnitude of the matrix and its scale.
  struct Sample {
    backend::AsyncCopy buffer;
    Shape rows, columns;
    bool has_scale = false;

    bool defined() const { return buffer.defined(); }
  };
  // A Sample that has arrived on the host.
  struct HostSample {
    Tensor rows, columns;
    double amax = 0;
    std::optional<double> given_scale;

    explicit HostSample(const Sample& sample);
    // The given scale, or the largest finite number of the type over amax.
    double scale(const formats::Format& format) const;
  };
  struct Layer {
    std::string module;
    Sample input, weight, gradient;
    backend::AsyncCopy result_amax;
  };

  Sample sample(const Tensor& x, const std::string& module, amp::Role role) const;
  // One operand of a matmul, [rows, summed axis].
  struct Operand {
    const Tensor& x;
    amp::Role role;
    double scale;
  };
  // After a round trip through the recipe's format.
  static Tensor rounded(const Operand& operand, const amp::Recipe& recipe);
  MatmulStats compared(const Operand& a, const Operand& b) const;
  TensorStats tensor_stats(const HostSample& sample, amp::Role role) const;
  LayerStats stats_of(const Layer& layer) const;

  amp::Recipe recipe_;
  Scales scales_;
  Options options_;
  std::vector<Layer> layers_;
};

// A table of the first `max_layers` layers.
std::string ranking_text(const std::vector<LayerStats>& layers, size_t max_layers = 10);
// The numbers of all layers as scalars for TensorBoard, grouped by tensor and kind:
// "input_sqnr_e4m3/blocks.0.mlp.up". Those without a value are left out.
void add_events(io::EventWriter& events, const std::vector<LayerStats>& layers, int64_t step);
// All layers as one line of JSON.
std::string ranking_json(const std::vector<LayerStats>& layers, int64_t step);

}  // namespace binade::lab
