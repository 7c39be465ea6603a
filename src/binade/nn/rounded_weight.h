#pragma once

#include <memory>
#include <span>
#include <vector>

#include "binade/base/function_ref.h"
#include "binade/ops/quantized/round_weight.h"

namespace binade::nn {

// A layer's weight as a file's format holds it, for quantization-aware training: rounded again when
// what it is made of has changed, so once per step, not per micro-batch. Recompute and evaluation
// see the same values.
class RoundedWeight {
 public:
  RoundedWeight(const formats::WeightFormat& format, std::vector<WeightPart> parts)
      : format_(format), parts_(std::move(parts)) {}

  const formats::WeightFormat& format() const { return format_; }
  const std::vector<WeightPart>& parts() const { return parts_; }

  // The rounded values of what `weight` returns, which is a function of the data of `sources`.
  const Tensor& values(std::span<const Tensor> sources, FunctionRef<Tensor()> weight);
  // Those of one parameter, which gets the gradient.
  Tensor operator()(const Tensor& parameter);

 private:
  // Data that the values were made of. Held, so that no other storage gets the address.
  struct Seen {
    std::shared_ptr<Storage> storage;
    uint64_t version;
    bool operator==(const Seen&) const = default;
  };

  formats::WeightFormat format_;
  std::vector<WeightPart> parts_;
  std::vector<Seen> seen_;
  Tensor values_;
};

}  // namespace binade::nn
