#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "binade/tensor/dtype.h"

// Arithmetic for references: double values that carry a bound on how far the same computation may
// be off in the precision under test, and a tape that gives gradients with such bounds. Every
// tolerance of the op table comes from here; this is the model, in units of u = epsilon / 2:
//
//   y = a op b            error(y) = what the operands' errors make of y + u |y|
//   y = f(x)              the same, the argument off by another u |x|, and 8 u |y| for f itself
//   y = sum of n terms    error(y) = sum of errors + (n - 1) u (sum of |terms|), for any order
//   a result in memory    + u of the tensor's type, or half its smallest step near zero
//
// u is that of f32 (f64 for f64) inside a kernel. In an op made of other ops every intermediate
// result goes through memory. Gradients follow the same rules on the way back.
namespace binade::optable {

struct Precision {
  double compute = 0;  // u inside a kernel
  double store = 0;    // u of the tensor's type
  double least = 0;    // the most that rounding to the tensor's type costs near zero
  bool each = false;   // whether every intermediate result is stored
};

Precision precision_of(DType dtype, bool each);

// References compute under this precision on this thread while it lives.
class PrecisionScope {
 public:
  explicit PrecisionScope(const Precision& precision);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  Precision previous_;
};
const Precision& precision();

struct Real {
  double value = 0;
  double error = 0;
  int at = -1;  // place on the tape; -1 for constants

  Real() = default;
  Real(double value) : value(value) {}  // NOLINT: constants mix with numbers
  Real(double value, double error, int at) : value(value), error(error), at(at) {}
};

Real operator+(const Real& a, const Real& b);
Real operator-(const Real& a, const Real& b);
Real operator*(const Real& a, const Real& b);
Real operator/(const Real& a, const Real& b);
Real operator-(const Real& x);

Real sum(std::span<const Real> terms);
Real mean(std::span<const Real> terms);
Real product(std::span<const Real> terms);
// Sum of products that are not rounded one by one.
Real dot(std::span<const Real> a, std::span<const Real> b);

// f(x), its derivative given as a function of x, or of y = f(x) as it lies in memory.
Real function(const Real& x, double (*f)(double), double (*slope)(double));
Real function_of_output(const Real& x, double (*f)(double), double (*slope_of_y)(double));
// x with its value replaced, and no derivative: step functions.
inline Real step(double value) { return Real(value); }
// x rounded to the tensor's type, on the way back too: what a fused op keeps in memory.
Real stored(const Real& x);
// x multiplied by a factor of exactly -1, 0 or 1.
Real times_sign(const Real& x, double sign);

Real exp(const Real& x);
Real log(const Real& x);
Real sqrt(const Real& x);
Real square(const Real& x);
Real abs(const Real& x);
Real sigmoid(const Real& x);
Real softplus(const Real& x);
// The standard normal distribution function.
Real normal_cdf(const Real& x);

// Records what references compute on this thread while it lives.
class Tape {
 public:
  Tape();
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  Real variable(double value);
  // Gradients of sum(seed * output) for each variable in order of their making.
  std::vector<Real> gradients(std::span<const Real> outputs, std::span<const double> seeds);
};

}  // namespace binade::optable
