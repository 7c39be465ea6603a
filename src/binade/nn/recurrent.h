#pragma once

#include <vector>

#include "binade/nn/module.h"

namespace binade::nn {

struct RecurrentConfig {
  int64_t in = 0;
  int64_t hidden = 0;
  int64_t layers = 1;
  bool bias = true;
  bool batch_first = false;    // x [batch, time, in] instead of [time, batch, in]
  double dropout = 0;          // on the output of each layer but the last, while training
  bool bidirectional = false;  // a second set of weights reads the sequence backward
};

// States of all layers, [layers * directions, batch, hidden]; undefined: zeros.
struct RecurrentState {
  Tensor hidden;
  Tensor cell;  // of LSTM only
};

struct RecurrentResult {
  Tensor output;  // [time, batch, directions * hidden], or batch first
  RecurrentState state;
};

// A recurrent network over sequences. Parameters have PyTorch's names and order of gates:
// weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_ih_l0_reverse, ...; initial values as
// in PyTorch.
class Recurrent : public Module {
 public:
  RecurrentResult operator()(const Tensor& x, const RecurrentState& initial = {});

  RecurrentConfig config() const { return config_; }
  std::string description() const override;

 protected:
  enum class Kind : uint8_t { rnn_tanh, rnn_relu, lstm, gru };
  Recurrent(Kind kind, const RecurrentConfig& config, Placement placement);

 private:
  // The weights of one layer in one direction.
  struct Weights {
    Tensor input, hidden, input_bias, hidden_bias;
  };
  struct State {
    Tensor hidden, cell;
  };
  int64_t directions() const { return config_.bidirectional ? 2 : 1; }
  void check(const Tensor& x, const RecurrentState& initial) const;
  // One time step from the input's projection and the state before it.
  State step(const Tensor& projected, const State& before, const Weights& weights) const;
  // All time steps of x [time, batch, in]; changes `state` to the last one.
  Tensor run(const Tensor& x, State& state, const Weights& weights, bool reversed) const;

  Kind kind_;
  RecurrentConfig config_;
  std::vector<Weights> weights_;  // layer by layer, both directions together
};

// Long short-term memory; gates: input, forget, cell, output.
class LSTM : public Recurrent {
 public:
  explicit LSTM(const RecurrentConfig& config, Placement placement = {})
      : Recurrent(Kind::lstm, config, placement) {}
};

// Gated recurrent unit; gates: reset, update, new.
class GRU : public Recurrent {
 public:
  explicit GRU(const RecurrentConfig& config, Placement placement = {})
      : Recurrent(Kind::gru, config, placement) {}
};

// The plain recurrent network: nonlinearity(W x + U h + b).
enum class RnnNonlinearity : uint8_t { tanh, relu };
class RNN : public Recurrent {
 public:
  explicit RNN(const RecurrentConfig& config, RnnNonlinearity nonlinearity = RnnNonlinearity::tanh,
               Placement placement = {})
      : Recurrent(nonlinearity == RnnNonlinearity::tanh ? Kind::rnn_tanh : Kind::rnn_relu, config,
                  placement) {}
};

}  // namespace binade::nn
