#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "binade/autograd/op.h"
#include "binade/tensor/tensor.h"
#include "ops/table/array.h"

// What the op table's test must know of an op, said once. The walk (ops/table_test.cpp) makes from
// it: results against the reference in every type and layout, gradients, shapes and memory on the
// meta device, and equal bits for any number of threads.
namespace binade::optable {

// Where the elements of an input come from.
struct Draw {
  double low = -2;
  double high = 2;
  double gap = 0;                  // least magnitude: keeps away from a kink at zero
  bool distinct = false;           // no two alike, also after rounding: for maxima
  std::vector<double> among = {};  // where given: one of these, and nothing else
};

struct Input {
  enum class Kind { variable, constant, index, boolean };

  Shape shape;
  Draw draw = {};
  Kind kind = Kind::variable;
  // The element type of this input where it is not the one under test.
  std::optional<DType> dtype = {};
};

// An input that gets no gradient; one of i64 (or i32) in [0, below); one of bool.
inline Input constant(const Shape& shape, Draw draw = {}) {
  return {shape, draw, Input::Kind::constant, {}};
}
inline Input index(const Shape& shape, int64_t below, DType dtype = DType::i64) {
  return {shape, {.low = 0, .high = static_cast<double>(below)}, Input::Kind::index, dtype};
}
inline Input boolean(const Shape& shape) {
  return {shape, {.low = 0, .high = 2}, Input::Kind::boolean, DType::boolean};
}

using Call = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;
using Reference = std::function<std::vector<Array>(Arrays inputs)>;

struct Case {
  std::string name;
  std::vector<Input> inputs;
  Call call;
  Reference reference;
};

// once: a kernel rounds its result once. each: made of other ops, every step rounds.
enum class Rounds { once, each };

struct Description {
  Op op;
  std::vector<Case> cases;
  // Large enough for several threads; compared with itself only.
  Case large;
  Rounds rounds = Rounds::once;
  // Whether kernels give gradients in the inputs' type. Without it 16-bit inputs must get gradients
  // as good as f32's.
  bool narrow_gradients = false;
  // The type of the results, where it is not the inputs' type.
  DType (*result)(DType) = [](DType dtype) { return dtype; };
  // Why no case has an empty input, or none a single element.
  std::string no_empty = {};
  std::string no_single = {};
};

// Every description; each op of tensor/ops.def has one.
const std::vector<Description>& descriptions();

// The composites that fused ops have beside them, judged by the same references.
const std::vector<Description>& composites();

// The families, one file each; and their composites.
std::vector<Description> arithmetic_ops();
std::vector<Description> unary_ops();
std::vector<Description> reduction_ops();
std::vector<Description> shape_ops();
std::vector<Description> rearranging_ops();
std::vector<Description> index_ops();
std::vector<Description> matmul_ops();
std::vector<Description> matmul_composites();
std::vector<Description> convolution_ops();
std::vector<Description> window_ops();
std::vector<Description> norm_ops();
std::vector<Description> norm_composites();
std::vector<Description> softmax_ops();
std::vector<Description> transformer_ops();
std::vector<Description> transformer_composites();
std::vector<Description> loss_ops();
std::vector<Description> loss_composites();
std::vector<Description> ctc_loss_ops();
std::vector<Description> margin_loss_ops();
std::vector<Description> distance_ops();
std::vector<Description> recurrent_ops();
std::vector<Description> sampling_ops();
std::vector<Description> control_ops();

// Makes a Call of a function of one, two or three tensors.
inline Call call1(std::function<Tensor(const Tensor&)> f) {
  return [f = std::move(f)](std::span<const Tensor> x) { return std::vector<Tensor>{f(x[0])}; };
}
inline Call call2(std::function<Tensor(const Tensor&, const Tensor&)> f) {
  return
      [f = std::move(f)](std::span<const Tensor> x) { return std::vector<Tensor>{f(x[0], x[1])}; };
}
inline Call call3(std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)> f) {
  return [f = std::move(f)](std::span<const Tensor> x) {
    return std::vector<Tensor>{f(x[0], x[1], x[2])};
  };
}
inline Reference reference1(std::function<Array(const Array&)> f) {
  return [f = std::move(f)](Arrays x) { return std::vector<Array>{f(x[0])}; };
}
inline Reference reference2(std::function<Array(const Array&, const Array&)> f) {
  return [f = std::move(f)](Arrays x) { return std::vector<Array>{f(x[0], x[1])}; };
}
inline Reference reference3(std::function<Array(const Array&, const Array&, const Array&)> f) {
  return [f = std::move(f)](Arrays x) { return std::vector<Array>{f(x[0], x[1], x[2])}; };
}

}  // namespace binade::optable
