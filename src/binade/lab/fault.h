#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "binade/autograd/node.h"
#include "binade/autograd/op_observer.h"
#include "binade/lab/element_labels.h"
#include "binade/lab/finding.h"

// Finds the origin of the first non-finite value.
namespace binade::lab {

// The gradient that a backward wrote into a slot; undefined if there is none.
Tensor gradient_in(const autograd::GradSlot& slot);

// Follows non-finite values from element to element. A value that does not propagate, such as a
// mask of -inf in a softmax, is not a fault: only tensors asked about count. Of several values that
// meet in one, an infinity of a mask is the last to be blamed.
class FaultFinder : public autograd::OpObserver {
 public:
  explicit FaultFinder(NamedTensors parameters = {}, double scale = 1, NamedTensors buffers = {});

  void forward(Op op, std::span<const Tensor> inputs, std::span<const Tensor> compute,
               std::span<const Tensor> outputs) override;
  void before_backward(const autograd::Node& node) override;
  void after_backward(const autograd::Node& node, std::span<const Tensor> dy) override;

  // The origin of the non-finite values of a result, or null if all are finite.
  const Finding* origin(const Tensor& x) const;
  // The earliest overflow of a 16-bit type, also if nothing non-finite has come of it, or null.
  const Finding* first_overflow() const;
  // The earliest origin of non-finite values in the gradient of any leaf, or null.
  const Finding* gradient_origin() const;

 private:
  // Events are indices into events_, in order of time.
  static constexpr int none = ElementLabels::none;
  struct Event {
    Finding finding;
    bool is_negative_infinity;  // as a mask's are
  };
  using ResultKey = std::pair<uint64_t, int>;  // sequence number of a node, index of its result

  // A tensor with its values and the events behind its non-finite elements; both are empty if all
  // elements are finite.
  struct Traced {
    const Tensor* tensor = nullptr;
    std::vector<double> values;
    std::vector<int> events;

    bool finite() const { return values.empty(); }
  };
  // What a backward needs to know of its forward.
  struct ForwardFacts {
    Shape shape;              // of the first result
    std::vector<int> events;  // by its elements, if they depend on single elements
    int event = none;         // the one behind a non-finite input or result, masks aside
    bool zero_input = false;
    std::string custom_name;
  };

  int add_event(Finding finding, bool is_negative_infinity = false);
  int earlier(int a, int b) const;   // by time
  int likelier(int a, int b) const;  // infinities of masks last, then by time
  // Attributes an event to the backward that is running, if there is one.
  void attribute_to_backward(int event);

  Traced traced(const Tensor& x) const;
  // Gives the elements without an event new ones: `finding` describes them except for `first`.
  // Infinities below zero, which masks have, get one of their own.
  void add_events(Traced& x, const Finding& finding);
  Traced trace_input(Op op, size_t i, const Tensor& input);
  Traced trace_cast(Op op, size_t i, const Traced& input, const Tensor& cast);
  void trace_output(Op op, size_t i, std::span<const Traced> operands,
                    std::span<const Tensor> outputs);
  // The event behind element `flat` of a result, among those of the operands.
  int event_behind(Op op, std::span<const Traced> operands, const Traced& output,
                   size_t flat) const;
  // An event for a row of a softmax that is masked whole.
  int masked_row(Op op, const Traced& input, const Shape& result, size_t flat);
  void keep_facts(Op op, std::span<const Traced> operands, std::span<const Tensor> outputs);

  int trace_result_gradient(const autograd::Node& node, size_t i, std::span<const Tensor> dy);
  int trace_input_gradient(const autograd::Node& node, size_t i, int cause,
                           std::span<const Tensor> dy);
  int forward_cause(const autograd::Node& node, const Tensor& gradient) const;
  std::string op_name(const autograd::Node& node) const;
  // The bad buffer of a module that its op reads beside its inputs, such as running statistics.
  const std::pair<std::string, Tensor>* bad_buffer_of(const std::string& module) const;
  std::string parameter_name(const autograd::AutogradMeta* meta) const;

  NamedTensors parameters_, buffers_;
  double scale_;
  std::vector<Event> events_;
  ElementLabels labels_;
  std::unordered_map<uint64_t, ForwardFacts> facts_;  // by sequence number of the node
  std::map<ResultKey, int> by_result_gradient_;
  std::unordered_map<const autograd::AutogradMeta*, int> by_leaf_gradient_;
  std::vector<int> running_backwards_;  // the earliest event in each backward that is running
};

}  // namespace binade::lab
