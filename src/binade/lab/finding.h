#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/tensor/tensor.h"

namespace binade::optim {
class Optimizer;
}

// A non-finite value and where it comes from. Defined in lab/fault.cpp.
namespace binade::lab {

// The first infinite or NaN element of a tensor, in row-major order.
struct NonFinite {
  Shape index;
  double value = 0;
  int64_t count = 0;  // of all such elements
};
// Nothing if all elements are finite, or if the type is not a compute type (integers, quantized
// data).
std::optional<NonFinite> first_non_finite(const Tensor& x);

enum class Direction : uint8_t { forward, backward, optimizer };
std::string_view name(Direction direction);

// The source of a non-finite value.
enum class Origin : uint8_t {
  data,       // an input that no op computed
  parameter,  // a parameter
  buffer,     // a buffer of a module, such as running statistics
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
  // Whether the op divides by, or takes a logarithm or root of, an exact zero.
  bool zero_input = false;
};

// Whether a forward computed or cast finite values to an infinity of a 16-bit type.
bool is_narrow_overflow(const Finding& finding);

// The finding as two or three lines of text.
std::string to_text(const Finding& finding);

// "2^16", or the number itself if it is small or not a power of two.
std::string scale_text(double scale);

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// The first non-finite value of an optimizer: in gradients, moments, master weights or parameters.
std::optional<Finding> examine_update(optim::Optimizer& optimizer, const NamedTensors& parameters,
                                      double scale = 1);

}  // namespace binade::lab
