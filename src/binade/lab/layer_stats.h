#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "binade/amp/fp8.h"
#include "binade/autograd/node.h"
#include "binade/autograd/op_observer.h"
#include "binade/formats/format.h"
#include "binade/nn/module.h"

// What each linear layer's numbers look like, and what FP8 would do or does to them.
namespace binade::lab {

inline constexpr const formats::Format* candidates[] = {&formats::spec::f16, &formats::spec::bf16,
                                                        &formats::spec::e4m3, &formats::spec::e5m2};
inline constexpr size_t candidate_count = std::size(candidates);

// Shares of the elements that a format turns to zero though they are not, or that lie past its
// largest number. 16-bit formats take values as they are, FP8 by the scale of their tensor.
struct Share {
  double underflow = 0;
  double saturate = 0;
};

struct TensorStats {
  double amax = 0;
  std::array<Share, candidate_count> in = {};
};

// One product in FP8 against the same in f32, on a sample.
struct ProductStats {
  double sqnr = 0;  // signal to quantization noise, dB
  // noise / signal, at most 1: the mean over outputs, or over channels of an operand where worse.
  double harm = 0;
};

struct LayerStats {
  std::string module;
  TensorStats input, weight, gradient;
  ProductStats forward, dgrad, wgrad;

  // The worst of its products: 0 none, 1 nothing of the signal is left.
  double harm() const;
};

// Watches one step and keeps the statistics of its linear layers, from their first call each. Of a
// delayed recipe the scales of `buffers` (nn::Module::named_buffers) are taken, otherwise those of
// the tensors themselves. Changes nothing.
class LayerStatistics : public autograd::OpObserver {
 public:
  LayerStatistics(amp::Fp8Recipe recipe,
                  const std::vector<std::pair<std::string, Tensor>>& buffers);

  void forward(Op op, std::span<const Tensor> inputs, std::span<const Tensor> compute,
               std::span<const Tensor> outputs) override;
  void after_backward(const autograd::Node& node, std::span<const Tensor> dy) override;

  // By harm, worst first.
  std::vector<LayerStats> ranking() const;

 private:
  // What the backward needs of the forward: columns of the operands.
  struct Sample {
    Tensor input, weight;  // f32 [columns, rows]
    double input_scale = 1, weight_scale = 1;
  };

  double scale_of(const std::string& module, const char* stream, amp::Fp8Role role,
                  double amax) const;
  Tensor rounded(const Tensor& x, amp::Fp8Role role, double scale) const;

  amp::Fp8Recipe recipe_;
  std::map<std::string, Tensor> buffers_;
  std::vector<LayerStats> layers_;
  std::map<std::string, Sample> samples_;
};

// A table for people: the worst `most` layers.
std::string ranking_text(const std::vector<LayerStats>& layers, size_t most = 10);
// One line of JSON.
std::string ranking_json(const std::vector<LayerStats>& layers, int64_t step);

}  // namespace binade::lab
