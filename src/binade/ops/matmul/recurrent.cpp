#include "binade/ops/matmul/recurrent.h"

#include "binade/ops/common.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/shape/shape.h"

namespace binade {
namespace {

using namespace ops;

void check(Op op, const Tensor& x, const Tensor& state, const CellWeights& weights, int64_t gates) {
  for (const auto& [argument, tensor] :
       {std::pair("x", &x), std::pair("state", &state), std::pair("weights.input", &weights.input),
        std::pair("weights.hidden", &weights.hidden)}) {
    require_compute(name(op), argument, *tensor);
    require_rank(name(op), argument, *tensor, 2);
  }
  const int64_t hidden = state.size(1);
  if (hidden == 0)
    fail(name(op),
         {.argument = "state", .expected = "at least 1 channel", .found = describe(state)});
  require_shape(name(op), "weights.input", weights.input, {gates * hidden, x.size(1)});
  require_shape(name(op), "weights.hidden", weights.hidden, {gates * hidden, hidden});
  require_shape(name(op), "state", state, {x.size(0), hidden});
  if (weights.input_bias.defined())
    require_shape(name(op), "weights.input_bias", weights.input_bias, {gates * hidden});
  if (weights.hidden_bias.defined())
    require_shape(name(op), "weights.hidden_bias", weights.hidden_bias, {gates * hidden});
}

// Both projections of a cell.
struct Projections {
  Tensor input, hidden;
};

Projections project(Op op, const Composite& call) {
  require_same_dtype(name(op), call[0], call[2]);
  require_same_dtype(name(op), call[1], call[3]);
  return {linear(call[0], call[2], call[4]), linear(call[1], call[3], call[5])};
}

Tensor plain_cell(Op op, const Tensor& x, const Tensor& state, const CellWeights& weights,
                  Tensor (*activation)(const Tensor&)) {
  check(op, x, state, weights, 1);
  Composite call(
      op, {x, state, weights.input, weights.hidden, weights.input_bias, weights.hidden_bias});
  const Projections sums = project(op, call);
  return call.result(activation(sums.input + sums.hidden));
}

}  // namespace

Tensor rnn_tanh_cell(const Tensor& x, const Tensor& state, const CellWeights& weights) {
  return plain_cell(Op::rnn_tanh_cell, x, state, weights, tanh);
}

Tensor rnn_relu_cell(const Tensor& x, const Tensor& state, const CellWeights& weights) {
  return plain_cell(Op::rnn_relu_cell, x, state, weights, relu);
}

std::pair<Tensor, Tensor> lstm_cell(const Tensor& x, const Tensor& state, const Tensor& cell,
                                    const CellWeights& weights) {
  check(Op::lstm_cell, x, state, weights, 4);
  require_shape("lstm_cell", "cell", cell, state.shape());
  Composite call(Op::lstm_cell, {x, state, weights.input, weights.hidden, weights.input_bias,
                                 weights.hidden_bias, cell});
  const Projections sums = project(Op::lstm_cell, call);
  const auto gates = split(sums.input + sums.hidden, state.size(1), 1);
  const Tensor next = sigmoid(gates[1]) * call[6] + sigmoid(gates[0]) * tanh(gates[2]);
  return {call.result(sigmoid(gates[3]) * tanh(next)), next};
}

Tensor gru_cell(const Tensor& x, const Tensor& state, const CellWeights& weights) {
  check(Op::gru_cell, x, state, weights, 3);
  Composite call(Op::gru_cell, {x, state, weights.input, weights.hidden, weights.input_bias,
                                weights.hidden_bias});
  const Projections sums = project(Op::gru_cell, call);
  const auto input = split(sums.input, state.size(1), 1),
             hidden = split(sums.hidden, state.size(1), 1);
  const Tensor reset = sigmoid(input[0] + hidden[0]), update = sigmoid(input[1] + hidden[1]);
  const Tensor candidate = tanh(input[2] + reset * hidden[2]);
  return call.result(candidate + update * (call[1] - candidate));
}

}  // namespace binade
