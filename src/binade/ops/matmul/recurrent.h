#pragma once

#include <utility>

#include "binade/tensor/tensor.h"

namespace binade {

// The weights of a recurrent cell: input [gates * hidden, in], hidden [gates * hidden, hidden],
// biases [gates * hidden] or undefined. Gates are stacked in PyTorch's order.
struct CellWeights {
  Tensor input, hidden, input_bias, hidden_bias;
};

// One step of a recurrent layer: x [batch, in], state [batch, hidden].
Tensor rnn_tanh_cell(const Tensor& x, const Tensor& state, const CellWeights& weights);
Tensor rnn_relu_cell(const Tensor& x, const Tensor& state, const CellWeights& weights);
// Gates: input, forget, cell, output. Returns the new state and the new cell.
std::pair<Tensor, Tensor> lstm_cell(const Tensor& x, const Tensor& state, const Tensor& cell,
                                    const CellWeights& weights);
// Gates: reset, update, new.
Tensor gru_cell(const Tensor& x, const Tensor& state, const CellWeights& weights);

}  // namespace binade
