#pragma once

#include <memory>
#include <vector>

#include "binade/base/function_ref.h"
#include "binade/tensor/tensor.h"

namespace binade::train {

// Sums the gradients of micro-batches in their order, each as a backward of its own would leave it:
// so ranks that run some of them each (ranks/fold.h) get the same bits. A kernel that accumulated
// into the sum directly would add its terms one by one instead. Each gradient is added and released
// as soon as it is finished.
class LeafSum {
 public:
  // `wire`: f16 or bf16 rounds each gradient once, as ranks with that type on the wire do.
  LeafSum(std::vector<Tensor> parameters, DType wire);
  ~LeafSum();
  LeafSum(const LeafSum&) = delete;
  LeafSum& operator=(const LeafSum&) = delete;

  // Calls backward(micro) for `count` micro-batches. Afterwards the parameters' gradients are the
  // sums.
  void run(int64_t count, FunctionRef<void(int64_t micro)> backward);

 private:
  struct State;  // shared with the parameters' hooks
  std::vector<Tensor> parameters_;
  std::shared_ptr<State> state_;
};

}  // namespace binade::train
