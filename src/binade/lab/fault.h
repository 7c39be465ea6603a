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

// Where the first value that is not finite came from.
namespace binade::lab {

// The first element of a tensor that is infinite or NaN, in row-major order.
struct BadValue {
  Shape index;
  double value = 0;
  int64_t count = 0;  // of such elements in all
};
// Nothing where all are finite, and for types without infinities of interest (integers, FP8).
std::optional<BadValue> first_bad(const Tensor& x);

enum class Direction : uint8_t { forward, backward, optimizer };
std::string_view name(Direction direction);

// Who made the value.
enum class Origin : uint8_t {
  data,       // it was in an input that no op made
  parameter,  // it was in a parameter
  cast,       // an input overflowed where the op brought it to its type
  op,         // the op itself, forward or backward
  seed,       // it was in the gradient the backward started from, or a hook put it there
  update,     // the optimizer
};

struct Finding {
  std::string op;      // "linear", "AdamW"
  std::string module;  // "blocks.0.mlp.up"; empty outside of modules
  Direction direction = Direction::forward;
  Origin origin = Origin::op;
  std::string tensor;  // "result [2, 3] f16", "gradient of blocks.0.mlp.up.weight [8, 4] f32"
  DType dtype = DType::f32;
  BadValue bad;
  double largest_input = 0;  // largest finite magnitude the op was given
  double scale = 1;          // of the loss at that moment
};

// Two or three lines for people.
std::string to_text(const Finding& finding);

// "2^16", or the number itself where it is small or no power of two.
std::string scale_text(double scale);

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// Follows values that are not finite from where they appear to where they end up. A value that an
// op swallows (a mask of -inf in a softmax) is nobody's fault: only what reaches a tensor asked
// about counts.
class FaultFinder : public autograd::OpObserver {
 public:
  explicit FaultFinder(NamedTensors parameters = {}, double scale = 1);

  void forward(Op op, std::span<const Tensor> inputs, std::span<const Tensor> compute,
               std::span<const Tensor> outputs) override;
  void before_backward(const autograd::Node& node) override;
  void after_backward(const autograd::Node& node, std::span<const Tensor> dy) override;

  // The origin of what is not finite in a result; null where nothing is.
  const Finding* origin(const Tensor& x) const;
  // The earliest origin of what is not finite in any leaf's gradient.
  const Finding* gradient_origin() const;

 private:
  static constexpr int none = -1;
  using ResultKey = std::pair<uint64_t, int>;  // sequence of a node, which of its results

  int note(Finding finding);
  int touch(int event);
  int of_input(Op op, size_t i, const Tensor& input);
  int of_slot(const autograd::Node& node, size_t i, int from, std::span<const Tensor> dy);
  std::string parameter_name(const Tensor& tensor) const;
  std::string parameter_name(const autograd::Meta* meta) const;

  NamedTensors parameters_;
  double scale_;
  std::vector<Finding> events_;
  std::unordered_map<const Storage*, int> of_storage_;
  std::vector<std::shared_ptr<Storage>> held_;    // so that no address is used twice
  std::unordered_map<uint64_t, int> of_forward_;  // nodes that saw such a value in their forward
  std::map<ResultKey, int> of_result_gradient_;
  std::unordered_map<const autograd::Meta*, int> of_leaf_gradient_;
  std::vector<int> touched_;  // earliest event met in each backward that is running
};

// The first of an optimizer's gradients, moments, masters and parameters that is not finite.
std::optional<Finding> examine_update(optim::Optimizer& optimizer, const NamedTensors& parameters,
                                      double scale = 1);

}  // namespace binade::lab
