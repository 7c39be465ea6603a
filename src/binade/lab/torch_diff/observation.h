#pragma once

#include <map>
#include <string>
#include <vector>

#include "binade/autograd/op.h"
#include "binade/nn/language_model.h"
#include "binade/train/model_precision.h"

// What a model computes from a batch, twice: as it is, and with every weight moved by a rounding
// error, which tells how far rounding alone may move each result.
namespace binade::lab {

// A tensor, and the same one computed from the moved weights. Both are on the host.
struct Observed {
  Tensor value, moved;

  bool is_defined() const { return value.defined(); }
};

struct ObservedResult {
  std::string place;  // "blocks.0.attention/rope", as Capture names it
  size_t op = 0;
  Observed value, gradient;  // no gradient: undefined
};

struct ObservedOp {
  Op op = Op::linear;
  std::string module;
  bool from_tokens = false;       // computed from the batch, not from parameters alone
  std::vector<size_t> inputs;     // ops whose results it reads
  std::vector<size_t> consumers;  // ops that read its results
  std::vector<size_t> results;
  int64_t backward = -1;  // position in the order of the backward; -1: it did not run
};

// Whether an op computes nothing: a difference in its result comes from elsewhere.
bool moves_only(Op op);

struct Observation {
  std::vector<ObservedOp> ops;  // in the order of the forward
  std::vector<ObservedResult> results;
  std::map<std::string, Observed> parameters;  // gradients, by the parameter
};

struct ObservedBatch {
  Tensor tokens, targets;  // i64 [batch, tokens]; no targets: no loss
  bool backward = false;   // needs targets
};

// The forward of training, with whole logits and the mean cross entropy, and its backward. Changes
// the model: afterwards its weights are the moved ones, by `roundoff` of their magnitude, up or
// down at random. Frequencies of rotary positions move by a few roundings of f32.
Observation observe(nn::LanguageModel& model, const ObservedBatch& batch,
                    const train::InferencePrecision& precision, double roundoff);

}  // namespace binade::lab
