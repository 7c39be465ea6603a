#pragma once

#include <optional>
#include <vector>

#include "binade/lab/torch_diff/forward.h"
#include "binade/lab/torch_diff/weights.h"

namespace binade::lab {

// Gradients of a model whose forward agrees with the recorded one.
class BackwardComparison {
 public:
  BackwardComparison(const ForwardInput& input, const ForwardComparison& forward,
                     const std::vector<PairedWeight>& weights, const TorchRecording& recording);

  // The first gradient, in the order of the backward, that differs and without which that of a
  // parameter would not differ.
  std::optional<TorchDifference> first_difference();

  int64_t results() const { return results_; }        // whose gradients agree
  int64_t parameters() const { return parameters_; }  // that agree
  // That agree, but rounding may be half of them.
  int64_t noise() const { return noise_; }
  double farthest() const { return farthest_; }
  double share() const { return share_; }

 private:
  enum class State : uint8_t { unknown, noise, agrees, differs };

  // Of a gradient at a distance from torch's.
  State judge(const Values& x, const Distance& distance, const Distance& limit);
  State compare_result(size_t result);
  State compare_part(const ResultPart& part, const Values& x, const Values& moved);
  State state_of(size_t op) const;
  std::optional<TorchDifference> compare_weight(const PairedWeight& weight);
  std::vector<size_t> readers_of(size_t op) const;
  void name_op(TorchDifference& difference, size_t op);
  std::optional<size_t> op_of(const PairedWeight& weight) const;
  std::optional<size_t> first_suspect(size_t op) const;
  void describe_result(TorchDifference& difference, size_t op);

  ForwardInput input_;
  const ForwardComparison& forward_;
  const std::vector<PairedWeight>& weights_;
  const TorchRecording& recording_;
  std::vector<State> states_;  // of results
  int64_t results_ = 0, parameters_ = 0, noise_ = 0;
  double farthest_ = 0, share_ = 0;
};

}  // namespace binade::lab
