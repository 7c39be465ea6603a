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

Walked forward(const Description& description, const Case& test, DType dtype, Layout layout,
               Device device = Device::cpu());
void backward(Walked& run, bool retain = false);

// The reference's results and, if the op has a gradient, its gradients, with their error bounds.
struct Expected {
  std::vector<Array> outputs;
  std::vector<Array> gradients;  // one per input; empty for those without
};
Expected expect(const Description& description, const Case& test, DType dtype, const Walked& run);

// Compares a tensor with a reference. `unit` is what the last rounding may cost where the reference
// does not know of it. Says where they differ; "" where they do not.
std::string difference(const Tensor& found, const Array& expected, double unit);
// That unit for the results of an op and for its gradients, under the current precision.
double result_unit(const Description& description);
double gradient_unit(const Description& description);

// "add/row f16 strided".
std::string title(const Description& description, const Case& test, DType dtype, Layout layout);

}  // namespace binade::optable
