#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "binade/autograd/op.h"
#include "binade/autograd/op_observer.h"
#include "binade/tensor/tensor.h"

// The record of what ran in which precision: every op and every cast, while someone listens.
namespace binade::amp {

struct TracedCast {
  DType from, to;
  int64_t bytes;  // read and written
};

struct TracedOp {
  Op op;
  std::string module;          // empty outside of any
  std::vector<DType> inputs;   // as the caller gave them; of a backward, the gradients that came
  std::vector<DType> compute;  // as the op took them
  std::vector<DType> outputs;  // of a backward, the gradients it made
  std::vector<TracedCast> casts;
  bool backward = false;
};

// Runs `program` and returns every op it ran on this thread, forwards and backwards, in order.
std::vector<TracedOp> explain(const std::function<void()>& program);

// A trace as an aligned table with the cost of its casts below.
std::string trace_text(const std::vector<TracedOp>& trace);

// Nothing is traced or watched on this thread while it lives, or until resume().
class TracePause {
 public:
  TracePause();
  ~TracePause() { resume(); }
  TracePause(const TracePause&) = delete;
  TracePause& operator=(const TracePause&) = delete;
  void resume();

 private:
  void* paused_;
  std::optional<autograd::OpObserverScope> unwatched_;
};

// Called by ops as they have run and recorded; free unless explain() is running or the thread has a
// watch.
bool tracing();
void trace_cast(const Tensor& from, const Tensor& to);
void trace_op(Op op, std::span<const Tensor> inputs, std::span<const Tensor> compute,
              std::span<const Tensor> outputs);

}  // namespace binade::amp
