#pragma once

#include <vector>

#include "ops/table/description.h"

namespace binade::optable {

// How the elements of an input lie in memory.
enum class Layout {
  dense,
  transposed,  // the last two axes exchanged
  sliced,      // the middle of a larger block: an offset, and gaps between rows
  strided,     // every second element of the last axis
};
inline constexpr Layout layouts[] = {Layout::dense, Layout::transposed, Layout::sliced,
                                     Layout::strided};
const char* name(Layout layout);

// The values of a case's inputs before rounding: a function of the op's name, the case's and the
// input's place. Valid until the next call.
const std::vector<std::vector<double>>& draw_inputs(Op op, const Case& test);

// The element type of `input` when the type under test is `dtype`.
DType type_of(const Input& input, DType dtype);

// A tensor of the given values; on the meta device one of the same strides without them.
Tensor make(const Input& input, const std::vector<double>& values, DType dtype, Layout layout,
            Device device);
std::vector<Tensor> make_all(const Case& test, const std::vector<std::vector<double>>& values,
                             DType dtype, Layout layout, Device device = Device::cpu());

// Numbers in [-1, 1) for upstream gradients.
const std::vector<double>& draw_gradient(Op op, const Case& test, size_t output, int64_t count);

}  // namespace binade::optable
