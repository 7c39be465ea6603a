#pragma once

#include <string>
#include <vector>

#include "ops/table/inputs.h"

// One run of one case: forward, and backward from random gradients.
namespace binade::optable {

struct Walked {
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  std::vector<Tensor> seeds;  // undefined for outputs without a gradient
};

inline constexpr DType tested_types[] = {DType::f32, DType::f16, DType::bf16, DType::f64};

Walked forward(const Description& description, const Case& test, DType dtype, Layout layout, Device device = Device::cpu());
void backward(Walked& run, bool retain = false);

// The reference's results and, if the op has a gradient, its gradients, with their error bounds.
struct Expected {
  std::vector<Array> outputs;
  std::vector<Array> gradients;  // one per input; empty for those without
};
Expected expect(const Description& description, const Case& test, DType dtype, const Walked& run);

// Compares a tensor with a reference; `rounds` adds the rounding to the tensor's own type.
std::string difference(const Tensor& found, const Array& expected, bool rounds);

// "add/row f16 strided".
std::string title(const Description& description, const Case& test, DType dtype, Layout layout);

}  // namespace binade::optable
