#include "ops/walk.h"

#include <fmt/format.h>

#include "binade/autograd/engine.h"
#include "binade/backend/transfer.h"
#include "support/values.h"

namespace binade::optable {
namespace {

// The input as the reference takes it: rounded to its type, on the tape if it gets a gradient.
Array array_of(const Tensor& x, Tape& tape) {
  Array array(x.shape());
  const std::vector<double> values = test::read(x);
  for (int64_t i = 0; i < array.numel(); ++i) {
    const double value = values[static_cast<size_t>(i)];
    array[i] = x.requires_grad() ? tape.variable(value) : Real(value);
  }
  return array;
}

}  // namespace

Walked forward(const Description& description, const Case& test, DType dtype, Layout layout,
               Device device) {
  Walked run;
  run.inputs = make_all(test, draw_inputs(description.op, test), dtype, layout, device);
  run.outputs = test.call(run.inputs);
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    const Tensor& y = run.outputs[i];
    run.seeds.emplace_back();
    if (!y.requires_grad()) continue;
    const Tensor seed = Tensor::empty(y.shape(), y.dtype());
    test::write(seed, draw_gradient(description.op, test, i, y.numel()));
    run.seeds.back() = backend::transfer(seed, device);
  }
  return run;
}

void backward(Walked& run, bool retain) {
  autograd::run_backward(run.outputs, run.seeds, retain ? RetainGraph::yes : RetainGraph::no);
}

Expected expect(const Description& description, const Case& test, DType dtype, const Walked& run) {
  const PrecisionScope scope(precision_of(dtype, description.rounds == Rounds::each));
  Tape tape;
  std::vector<Array> inputs;
  for (const Tensor& x : run.inputs) inputs.push_back(array_of(x, tape));
  Expected expected;
  expected.outputs = test.reference(inputs);
  std::vector<Real> outputs;
  std::vector<double> seeds;
  for (size_t i = 0; i < run.seeds.size(); ++i) {
    if (!run.seeds[i].defined()) continue;
    outputs.insert(outputs.end(), expected.outputs[i].values.begin(),
                   expected.outputs[i].values.end());
    const std::vector<double> values = test::read(run.seeds[i]);
    seeds.insert(seeds.end(), values.begin(), values.end());
  }
  const std::vector<Real> gradients = tape.gradients(outputs, seeds);
  size_t at = 0;
  for (const Tensor& x : run.inputs) {
    Array gradient;
    if (x.requires_grad()) {
      gradient = Array(x.shape());
      for (Real& value : gradient.values) value = gradients[at++];
    }
    expected.gradients.push_back(std::move(gradient));
  }
  return expected;
}

std::string difference(const Tensor& found, const Array& expected, double unit) {
  const std::vector<double> values = test::read(found);
  for (size_t i = 0; i < values.size(); ++i) {
    const Real& wanted = expected.values[i];
    const double tolerance =
        wanted.error + unit * std::abs(wanted.value) + (unit > 0 ? precision().least : 0);
    const bool same =
        values[i] == wanted.value || (std::isnan(values[i]) && std::isnan(wanted.value));
    if (!same && !(std::abs(values[i] - wanted.value) <= tolerance)) {
      return fmt::format("element {}: expected {:.9g}, found {:.9g}: off by {:.3g}, allowed {:.3g}",
                         i, wanted.value, values[i], std::abs(values[i] - wanted.value), tolerance);
    }
  }
  return "";
}

double result_unit(const Description& description) {
  return description.rounds == Rounds::once ? precision().store : 0;
}

double gradient_unit(const Description& description) {
  if (description.rounds == Rounds::each) return 0;
  // Leaves keep their gradients in f32 at least.
  return description.narrow_gradients ? precision().store : precision().compute;
}

std::string title(const Description& description, const Case& test, DType dtype, Layout layout) {
  return fmt::format("{}/{} {} {}", name(description.op), test.name, name(dtype), name(layout));
}

}  // namespace binade::optable
