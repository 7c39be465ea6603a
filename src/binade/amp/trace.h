#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "binade/autograd/op.h"
#include "binade/autograd/op_observer.h"
#include "binade/base/restore.h"
#include "binade/tensor/tensor.h"

// Tracing: every op and every cast with its types, while explain() runs.
namespace binade::amp {

struct TracedCast {
  DType from, to;
  int64_t bytes;  // read and written
};

struct TracedOp {
  Op op;
  std::string module;          // empty outside of modules
  std::vector<DType> inputs;   // as the caller gave them; of a backward, the output gradients
  std::vector<DType> compute;  // as the op took them
  std::vector<DType> outputs;  // of a backward, the input gradients
  std::vector<TracedCast> casts;
  bool backward = false;
};

// Runs `program` and returns every op it ran on this thread, forwards and backwards, in order.
std::vector<TracedOp> explain(const std::function<void()>& program);

// A trace as an aligned table with the cost of its casts below.
std::string trace_text(const std::vector<TracedOp>& trace);

struct Recording;

// For its lifetime, or until resume(), nothing on this thread is traced or observed.
class TracePause {
 public:
  TracePause();
  void resume();

 private:
  std::optional<Restore<Recording*>> untraced_;
  std::optional<autograd::OpObserverScope> unobserved_;
};

// Called by ops after they ran and recorded their backward. Does nothing unless explain() is
// running or the thread has an observer.
bool tracing();
void trace_cast(const Tensor& from, const Tensor& to);
void trace_op(Op op, std::span<const Tensor> inputs, std::span<const Tensor> compute,
              std::span<const Tensor> outputs);

}  // namespace binade::amp
