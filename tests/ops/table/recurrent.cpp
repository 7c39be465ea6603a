#include "binade/ops/matmul/recurrent.h"

#include "ops/table/description.h"

namespace binade::optable {
namespace {

// x weight^T + bias.
Array projected(const Array& x, const Array& weight, const Array* bias) {
  const int64_t rows = x.size(0), in = x.size(1), out = weight.size(0);
  Array y({rows, out});
  for (int64_t i = 0; i < y.numel(); ++i) {
    const std::span<const Real> left(x.values.data() + i / out * in, static_cast<size_t>(in));
    const std::span<const Real> right(weight.values.data() + i % out * in, static_cast<size_t>(in));
    y[i] = dot(left, right);
    if (bias != nullptr) y[i] = y[i] + (*bias)[i % out];
  }
  return y;
}

Real hyperbolic(const Real& x) {
  return function_of_output(x, std::tanh, [](double y) { return (1 - y) * (1 + y); });
}

// Everything a cell sees, in the order of the inputs of a case: x, state, two weights, two biases
// (or none), cell.
struct Cell {
  int64_t batch, in, hidden, gates;
  bool biases, has_cell;

  std::vector<Input> inputs() const {
    const Draw small{.low = -1, .high = 1};
    std::vector<Input> list = {{{batch, in}, small},
                               {{batch, hidden}, small},
                               {{gates * hidden, in}, small},
                               {{gates * hidden, hidden}, small}};
    if (biases) list.insert(list.end(), {{{gates * hidden}, small}, {{gates * hidden}, small}});
    if (has_cell) list.push_back({{batch, hidden}, small});
    return list;
  }
  CellWeights weights(std::span<const Tensor> t) const {
    return {t[2], t[3], biases ? t[4] : Tensor(), biases ? t[5] : Tensor()};
  }
  Array given(Arrays a) const { return projected(a[0], a[2], biases ? &a[4] : nullptr); }
  Array held(Arrays a) const { return projected(a[1], a[3], biases ? &a[5] : nullptr); }
  // Gate g of row r, channel c.
  int64_t at(int64_t r, int64_t g, int64_t c) const { return (r * gates + g) * hidden + c; }
};

Description plain_cells(Op op, Tensor (*f)(const Tensor&, const Tensor&, const CellWeights&),
                        Real (*activation)(const Real&)) {
  const auto make = [=](const std::string& name, const Cell& cell) {
    return Case{name, cell.inputs(),
                [=](std::span<const Tensor> t) {
                  return std::vector<Tensor>{f(t[0], t[1], cell.weights(t))};
                },
                [=](Arrays a) {
                  return std::vector<Array>{
                      zip(cell.given(a), cell.held(a),
                          [=](const Real& l, const Real& r) { return activation(l + r); })};
                }};
  };
  return {.op = op,
          .cases = {make("empty", {0, 3, 2, 1, true, false}),
                    make("one", {1, 1, 1, 1, true, false}), make("odd", {3, 5, 3, 1, true, false}),
                    make("no_biases", {2, 3, 5, 1, false, false})},
          .large = make("large", {131, 61, 67, 1, true, false}),
          .rounds = Rounds::each};
}

Description lstms() {
  const auto make = [](const std::string& name, const Cell& cell) {
    return Case{name, cell.inputs(),
                [=](std::span<const Tensor> t) {
                  const auto [state, next] = lstm_cell(t[0], t[1], t.back(), cell.weights(t));
                  return std::vector<Tensor>{state, next};
                },
                [=](Arrays a) {
                  const Array sums = zip(cell.given(a), cell.held(a),
                                         [](const Real& l, const Real& r) { return l + r; });
                  Array state({cell.batch, cell.hidden}), next(state.shape);
                  for (int64_t r = 0; r < cell.batch; ++r) {
                    for (int64_t c = 0; c < cell.hidden; ++c) {
                      const auto gate = [&](int64_t g) { return sums[cell.at(r, g, c)]; };
                      const int64_t i = r * cell.hidden + c;
                      next[i] =
                          sigmoid(gate(1)) * a.back()[i] + sigmoid(gate(0)) * hyperbolic(gate(2));
                      state[i] = sigmoid(gate(3)) * hyperbolic(next[i]);
                    }
                  }
                  return std::vector<Array>{state, next};
                }};
  };
  return {.op = Op::lstm_cell,
          .cases = {make("empty", {0, 3, 2, 4, true, true}), make("one", {1, 1, 1, 4, true, true}),
                    make("odd", {3, 5, 3, 4, true, true}),
                    make("no_biases", {2, 3, 2, 4, false, true})},
          .large = make("large", {131, 31, 37, 4, true, true}),
          .rounds = Rounds::each,
          .no_single = "it has four gates"};
}

Description grus() {
  const auto make = [](const std::string& name, const Cell& cell) {
    return Case{name, cell.inputs(),
                [=](std::span<const Tensor> t) {
                  return std::vector<Tensor>{gru_cell(t[0], t[1], cell.weights(t))};
                },
                [=](Arrays a) {
                  const Array given = cell.given(a), held = cell.held(a);
                  Array state({cell.batch, cell.hidden});
                  for (int64_t r = 0; r < cell.batch; ++r) {
                    for (int64_t c = 0; c < cell.hidden; ++c) {
                      const Real reset = sigmoid(given[cell.at(r, 0, c)] + held[cell.at(r, 0, c)]);
                      const Real update = sigmoid(given[cell.at(r, 1, c)] + held[cell.at(r, 1, c)]);
                      const Real fresh =
                          hyperbolic(given[cell.at(r, 2, c)] + reset * held[cell.at(r, 2, c)]);
                      const int64_t i = r * cell.hidden + c;
                      state[i] = fresh + update * (a[1][i] - fresh);
                    }
                  }
                  return std::vector<Array>{state};
                }};
  };
  return {.op = Op::gru_cell,
          .cases = {make("empty", {0, 3, 2, 3, true, false}),
                    make("one", {1, 1, 1, 3, true, false}), make("odd", {3, 5, 3, 3, true, false}),
                    make("no_biases", {2, 3, 2, 3, false, false})},
          .large = make("large", {131, 31, 37, 3, true, false}),
          .rounds = Rounds::each,
          .no_single = "it has three gates"};
}

}  // namespace

std::vector<Description> recurrent_ops() {
  return {
      plain_cells(Op::rnn_tanh_cell, rnn_tanh_cell, hyperbolic),
      plain_cells(Op::rnn_relu_cell, rnn_relu_cell,
                  [](const Real& x) { return times_sign(x, x.value > 0 ? 1 : 0); }),
      lstms(),
      grus(),
  };
}

}  // namespace binade::optable
