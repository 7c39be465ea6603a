#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string_view>

#include "binade/base/restore.h"
#include "binade/nn/module.h"

namespace binade {

// Restarts what this thread draws: initial values of parameters, randn and its relatives, dropout.
void manual_seed(uint64_t seed);

}  // namespace binade

// Initial values of parameters. Each tensor draws from its own random stream, counted per thread in
// the order of construction, so that a model is a function of its seed.
namespace binade::nn::init {

// Restarts this thread's stream count under `seed`. Models call it before their first parameter.
void restart(uint64_t seed);

// For its lifetime, parameters made on this thread stay uninitialized: for models whose weights are
// loaded next.
class SkipInit {
 public:
  SkipInit();

 private:
  Restore<bool> skip_;
};

Tensor normal(const Shape& shape, double deviation, Placement placement);
// Uniform in [-bound, bound).
Tensor uniform(const Shape& shape, double bound, Placement placement);
Tensor constant(const Shape& shape, double value, Placement placement);

// ---- new values for existing parameters, as torch.nn.init's functions of the same names ----

void constant_(const Tensor& x, double value);
void uniform_(const Tensor& x, double low = 0, double high = 1);
void normal_(const Tensor& x, double mean = 0, double deviation = 1);
// A normal distribution limited to [low, high].
struct TruncatedNormal {
  double mean = 0;
  double deviation = 1;
  double low = -2;
  double high = 2;
};
void trunc_normal_(const Tensor& x, const TruncatedNormal& distribution = {});
// Ones on the diagonal of a matrix, zeros elsewhere.
void eye_(const Tensor& x);

// The inputs of an output and the outputs of an input, of a weight [out, in, kernel...].
struct Fans {
  int64_t in, out;
};
Fans fans(const Tensor& weight);

// Functions after a layer, by the gain that keeps the variance: 1, 5/3 (tanh), sqrt(2) (relu),
// sqrt(2 / (1 + slope^2)) (leaky_relu), 3/4 (selu).
enum class Nonlinearity : uint8_t { linear, sigmoid, tanh, relu, leaky_relu, selu };
double gain(Nonlinearity nonlinearity, double slope = 0.01);

// Variance gain^2 * 2 / (fan in + fan out).
void xavier_uniform_(const Tensor& x, double gain = 1);
void xavier_normal_(const Tensor& x, double gain = 1);
// Variance gain^2 / fan.
struct Kaiming {
  enum class Fan : uint8_t { in, out };

  double slope = 0;  // of leaky_relu
  Fan fan = Fan::in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
};
void kaiming_uniform_(const Tensor& x, const Kaiming& options = {});
void kaiming_normal_(const Tensor& x, const Kaiming& options = {});
// A (semi-)orthogonal matrix times `gain`; axes after the first are joined.
void orthogonal_(const Tensor& x, double gain = 1);

// Calls `initialize` on the parameters of `module` whose names match the pattern, in which * stands
// for any characters: "blocks.*.weight". Fails if there is none.
using Initializer = std::function<void(const Tensor& parameter)>;
void apply(const Module& module, std::string_view pattern, const Initializer& initialize);

}  // namespace binade::nn::init
