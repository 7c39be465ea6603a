#pragma once

#include <map>
#include <string>
#include <vector>

#include "binade/autograd/node.h"
#include "binade/autograd/op_observer.h"

namespace binade::lab {

// A tensor of a step, as it was computed.
struct CapturedTensor {
  std::string name;
  Op op = Op::linear;
  std::string module;
  Tensor value;  // a copy, on the host
};

// Copies results of ops and their gradients while a step runs. Names:
//   activation/blocks.0.mlp.up/linear      the result of an op in a module
//   activation/blocks.0.attention/mul#2    of the module's second op of that kind
//   activation/blocks.0.attention/split.1  the second result of an op
//   gradient/blocks.0.mlp.up/linear        the loss's gradient by that result, times the loss scale
class Capture : public autograd::OpObserver {
 public:
  // Of one micro-batch of a step; of all if `micro` is negative. Only tensors that one of the
  // patterns names (matches_tensor); no patterns: all.
  Capture(int64_t micro, std::vector<std::string> patterns);

  void forward(Op op, std::span<const Tensor> inputs, std::span<const Tensor> compute,
               std::span<const Tensor> outputs) override;
  void after_backward(const autograd::Node& node, std::span<const Tensor> dy) override;

  // In the order of their computation. Of several micro-batches, names begin with "micro.2/".
  const std::vector<CapturedTensor>& tensors() const { return tensors_; }

 private:
  struct OpName {
    std::string place;  // "blocks.0.mlp.up/linear"
    int64_t micro = 0;
  };

  std::string place_of(Op op, bool again);
  void add(const std::string& kind, const OpName& name, size_t index, const Tensor& value, Op op,
           const std::string& module);

  int64_t micro_;
  std::vector<std::string> patterns_;
  std::vector<CapturedTensor> tensors_;
  std::map<uint64_t, OpName> by_node_;                  // by a node's sequence number
  std::map<std::pair<bool, std::string>, int> counts_;  // of ops by place, recomputed ones apart
  int64_t counted_micro_ = -1;
};

// Whether a pattern with * and ? names a tensor: all of its name, the part after its kind, or the
// module that it is of, or one that this is in: "blocks.0" names activation/blocks.0.mlp.up/linear.
bool matches_tensor(const std::string& pattern, const std::string& name);
bool matches_any(const std::vector<std::string>& patterns, const std::string& name);

}  // namespace binade::lab
