#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "binade/autograd/node.h"
#include "binade/autograd/op_observer.h"
#include "binade/optim/optimizer.h"

// Finds the origin of the first non-finite value.
namespace binade::lab {

// The first infinite or NaN element of a tensor, in row-major order.
struct NonFinite {
  Shape index;
  double value = 0;
  int64_t count = 0;  // of all such elements
};
// Nothing if all elements are finite, or if the type is not a compute type (integers, FP8).
std::optional<NonFinite> first_non_finite(const Tensor& x);

enum class Direction : uint8_t { forward, backward, optimizer };
std::string_view name(Direction direction);

// The source of a non-finite value.
enum class Origin : uint8_t {
  data,       // an input that no op computed
  parameter,  // a parameter
  cast,       // an input that overflowed when autocast converted it
  op,         // the op itself, forward or backward
  seed,       // the gradient that backward started from, or a hook
  update,     // the optimizer
};

struct Finding {
  std::string op;      // "linear", "AdamW"
  std::string module;  // "blocks.0.mlp.up"; empty outside of modules
  Direction direction = Direction::forward;
  Origin origin = Origin::op;
  std::string tensor;  // "result [2, 3] f16", "gradient of blocks.0.mlp.up.weight [8, 4] f32"
  DType dtype = DType::f32;
  NonFinite first;
  double largest_input = 0;  // largest finite magnitude among the op's inputs
  double scale = 1;          // the loss scale
};

// The finding as two or three lines of text.
std::string to_text(const Finding& finding);

// "2^16", or the number itself if it is small or not a power of two.
std::string scale_text(double scale);

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// Follows non-finite values from tensor to tensor. A value that does not propagate, such as a mask
// of -inf in a softmax, is not a fault: only tensors asked about count.
class FaultFinder : public autograd::OpObserver {
 public:
  explicit FaultFinder(NamedTensors parameters = {}, double scale = 1);

  void forward(Op op, std::span<const Tensor> inputs, std::span<const Tensor> compute,
               std::span<const Tensor> outputs) override;
  void before_backward(const autograd::Node& node) override;
  void after_backward(const autograd::Node& node, std::span<const Tensor> dy) override;

  // The origin of the non-finite values of a result, or null if all are finite.
  const Finding* origin(const Tensor& x) const;
  // The earliest origin of non-finite values in the gradient of any leaf, or null.
  const Finding* gradient_origin() const;

 private:
  // Events are indices into events_, in order of time.
  static constexpr int none = -1;
  using ResultKey = std::pair<uint64_t, int>;  // sequence number of a node, index of its result

  // The earlier of two events, either of which may be none.
  static int earlier(int a, int b);

  int add_event(Finding finding);
  // Attributes an event to the backward that is running, if there is one.
  void attribute_to_backward(int event);
  int trace_input(Op op, size_t i, const Tensor& input);
  int trace_result_gradient(const autograd::Node& node, size_t i, std::span<const Tensor> dy);
  int trace_input_gradient(const autograd::Node& node, size_t i, int cause,
                           std::span<const Tensor> dy);
  std::string parameter_name(const Tensor& tensor) const;
  std::string parameter_name(const autograd::AutogradMeta* meta) const;

  NamedTensors parameters_;
  double scale_;
  std::vector<Finding> events_;
  std::unordered_map<const Storage*, int> by_storage_;
  std::vector<std::shared_ptr<Storage>> held_;    // keeps addresses in by_storage_ unique
  std::unordered_map<uint64_t, int> by_forward_;  // by sequence number of the node
  std::map<ResultKey, int> by_result_gradient_;
  std::unordered_map<const autograd::AutogradMeta*, int> by_leaf_gradient_;
  std::vector<int> running_backwards_;  // the earliest event in each backward that is running
};

// The first non-finite value of an optimizer: in gradients, moments, master weights or parameters.
std::optional<Finding> examine_update(optim::Optimizer& optimizer, const NamedTensors& parameters,
                                      double scale = 1);

}  // namespace binade::lab
