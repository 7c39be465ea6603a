#include "binade/nn/recurrent.h"

#include <fmt/format.h>

#include <cmath>

#include "binade/nn/init.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/shape/shape.h"

namespace binade::nn {
namespace {

constexpr const char* names[] = {"RNN", "RNN", "LSTM", "GRU"};
constexpr int64_t gates[] = {1, 1, 4, 3};

}  // namespace

Recurrent::Recurrent(Kind kind, const RecurrentConfig& config, Placement placement)
    : kind_(kind), config_(config) {
  const char* name = names[static_cast<size_t>(kind)];
  if (config.in < 1 || config.hidden < 1 || config.layers < 1) {
    fail(name, {.argument = "in, hidden, layers",
                .expected = "at least 1",
                .found = fmt::format("{}, {}, {}", config.in, config.hidden, config.layers)});
  }
  if (!(config.dropout >= 0 && config.dropout <= 1)) {
    fail(name,
         {.argument = "dropout", .expected = "0 to 1", .found = fmt::format("{}", config.dropout)});
  }
  const double bound = 1 / std::sqrt(static_cast<double>(config.hidden));
  const int64_t rows = gates[static_cast<size_t>(kind)] * config.hidden;
  const auto sets = static_cast<size_t>(config.layers * directions());
  weights_.resize(sets);  // addresses stay: parameters point to them
  for (size_t i = 0; i < sets; ++i) {
    const int64_t layer = static_cast<int64_t>(i) / directions();
    const int64_t in = layer == 0 ? config.in : config.hidden * directions();
    const std::string suffix = "_l" + std::to_string(layer) +
                               (static_cast<int64_t>(i) % directions() == 1 ? "_reverse" : "");
    Weights& w = weights_[i];
    w.input = init::uniform({rows, in}, bound, placement);
    w.hidden = init::uniform({rows, config.hidden}, bound, placement);
    if (config.bias) {
      w.input_bias = init::uniform({rows}, bound, placement);
      w.hidden_bias = init::uniform({rows}, bound, placement);
    }
    add_parameter("weight_ih" + suffix, w.input);
    add_parameter("weight_hh" + suffix, w.hidden);
    add_parameter("bias_ih" + suffix, w.input_bias);
    add_parameter("bias_hh" + suffix, w.hidden_bias);
  }
}

std::string Recurrent::description() const {
  return fmt::format("{}({}, {}, layers {}{})", names[static_cast<size_t>(kind_)], config_.in,
                     config_.hidden, config_.layers,
                     config_.bidirectional ? ", bidirectional" : "");
}

void Recurrent::check(const Tensor& x, const RecurrentState& initial) const {
  const char* name = names[static_cast<size_t>(kind_)];
  if (!x.defined() || x.rank() != 3 || x.size(2) != config_.in) {
    fail(name, {.argument = "x",
                .expected = fmt::format(
                    "[{}, {}]", config_.batch_first ? "batch, time" : "time, batch", config_.in),
                .found = describe(x)});
  }
  const int64_t batch = x.size(config_.batch_first ? 0 : 1),
                time = x.size(config_.batch_first ? 1 : 0);
  if (time < 1)
    fail(name, {.argument = "x", .expected = "at least one time step", .found = describe(x)});
  const Shape expected{config_.layers * directions(), batch, config_.hidden};
  const std::pair<const char*, const Tensor*> states[] = {{"initial.hidden", &initial.hidden},
                                                          {"initial.cell", &initial.cell}};
  for (const auto& [argument, state] : states) {
    if (state->defined() && state->shape() != expected)
      fail(name,
           {.argument = argument, .expected = to_string(expected), .found = describe(*state)});
  }
  if (kind_ == Kind::lstm && initial.hidden.defined() != initial.cell.defined()) {
    fail(name, {.argument = "initial",
                .expected = "both hidden and cell, or neither",
                .found = initial.hidden.defined() ? "hidden" : "cell"});
  }
}

Recurrent::State Recurrent::step(const Tensor& projected, const State& before,
                                 const Weights& weights) const {
  const Tensor hidden = linear(before.hidden, weights.hidden, weights.hidden_bias);
  switch (kind_) {
    case Kind::rnn_tanh:
      return {tanh(projected + hidden), {}};
    case Kind::rnn_relu:
      return {relu(projected + hidden), {}};
    case Kind::lstm: {
      const auto gate = split(projected + hidden, config_.hidden, 1);
      const Tensor cell = sigmoid(gate[1]) * before.cell + sigmoid(gate[0]) * tanh(gate[2]);
      return {sigmoid(gate[3]) * tanh(cell), cell};
    }
    case Kind::gru:
      break;
  }
  const auto x = split(projected, config_.hidden, 1), h = split(hidden, config_.hidden, 1);
  const Tensor update = sigmoid(x[1] + h[1]);
  const Tensor candidate = tanh(x[2] + sigmoid(x[0] + h[0]) * h[2]);
  return {candidate + update * (before.hidden - candidate), {}};
}

Tensor Recurrent::run(const Tensor& x, State& state, const Weights& weights, bool reversed) const {
  // One matmul for all time steps.
  const Tensor projected = linear(x, weights.input, weights.input_bias);
  // Under autocast the states have the matmuls' type, as in PyTorch.
  state.hidden = cast(state.hidden, projected.dtype());
  if (state.cell.defined()) state.cell = cast(state.cell, projected.dtype());
  const int64_t time = x.size(0);
  std::vector<Tensor> outputs(static_cast<size_t>(time));
  for (int64_t i = 0; i < time; ++i) {
    const int64_t at = reversed ? time - 1 - i : i;
    state = step(select(projected, 0, at), state, weights);
    outputs[static_cast<size_t>(at)] = state.hidden;
  }
  return stack(outputs, 0);
}

RecurrentResult Recurrent::operator()(const Tensor& x, const RecurrentState& initial) {
  const auto scope = enter();
  check(x, initial);
  Tensor y = config_.batch_first ? transpose(x, 0, 1) : x;
  const bool has_cell = kind_ == Kind::lstm;
  const Tensor zero = zeros({y.size(1), config_.hidden}, x.dtype(), x.device());
  std::vector<Tensor> hidden, cells;
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    std::vector<Tensor> outputs;
    for (int64_t direction = 0; direction < directions(); ++direction) {
      const int64_t i = layer * directions() + direction;
      const auto given = [&](const Tensor& all) {
        return all.defined() ? select(all, 0, i) : zero;
      };
      State state{given(initial.hidden), has_cell ? given(initial.cell) : Tensor()};
      outputs.push_back(run(y, state, weights_[static_cast<size_t>(i)], direction == 1));
      hidden.push_back(state.hidden);
      if (has_cell) cells.push_back(state.cell);
    }
    y = outputs.size() == 1 ? outputs[0] : cat(outputs, 2);
    if (config_.dropout > 0 && layer + 1 < config_.layers)
      y = dropout(y, config_.dropout, training());
  }
  return {config_.batch_first ? transpose(y, 0, 1) : y,
          {stack(hidden, 0), has_cell ? stack(cells, 0) : Tensor()}};
}

}  // namespace binade::nn
