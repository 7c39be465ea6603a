#include "ops/table/real.h"

#include <initializer_list>
#include <numbers>
#include <utility>

#include "binade/formats/format.h"

namespace binade::optable {
namespace {

// d(result)/d(node `to`), with the error of that derivative.
struct Edge {
  int to;
  double slope;
  double error;
};

struct Record {
  std::vector<Edge> edges;
  std::vector<size_t> first_edge;  // of each node
  std::vector<int> variables;
};

thread_local Record* record = nullptr;
thread_local Precision current;

constexpr double function_cost = 8;

int new_node(std::span<const Edge> edges) {
  if (record == nullptr) return -1;
  record->first_edge.push_back(record->edges.size());
  for (const Edge& edge : edges) {
    if (edge.to >= 0) record->edges.push_back(edge);
  }
  return static_cast<int>(record->first_edge.size()) - 1;
}

// The value as it leaves an operation, `error` holding all but what storing it costs.
Real result(double value, double error, std::span<const Edge> edges) {
  if (current.each) error += current.store * std::abs(value) + current.least;
  return {value, error, new_node(edges)};
}

Real result(double value, double error, std::initializer_list<Edge> edges) {
  return result(value, error, std::span(edges.begin(), edges.size()));
}

// How much f changes when its argument is off by `error`.
double spread(double (*f)(double), double x, double error) {
  if (error == 0) return 0;
  const double middle = f(x);
  return std::fmax(std::abs(f(x + error) - middle), std::abs(f(x - error) - middle));
}

double rounding(double value) { return current.compute * std::abs(value); }

}  // namespace

Precision precision_of(DType dtype, bool each) {
  // In f64 the reference rounds as much as what it judges.
  if (dtype == DType::f64) return {0x1p-52, 0x1p-52, 0x1p-1022, each};
  const double store = epsilon(dtype) / 2;
  // Kernels may flush f32 subnormals.
  const double least = dtype == DType::f16 ? formats::spec::f16.min_subnormal() / 2
                                           : formats::spec::f32.min_normal();
  return {epsilon(DType::f32) / 2, store, least, each};
}

PrecisionScope::PrecisionScope(const Precision& precision)
    : previous_(std::exchange(current, precision)) {}
PrecisionScope::~PrecisionScope() { current = previous_; }
const Precision& precision() { return current; }

Real operator+(const Real& a, const Real& b) {
  const double value = a.value + b.value;
  return result(value, a.error + b.error + rounding(value), {{a.at, 1, 0}, {b.at, 1, 0}});
}

Real operator-(const Real& a, const Real& b) {
  const double value = a.value - b.value;
  return result(value, a.error + b.error + rounding(value), {{a.at, 1, 0}, {b.at, -1, 0}});
}

Real operator*(const Real& a, const Real& b) {
  const double value = a.value * b.value;
  const double carried =
      std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error;
  return result(value, carried + rounding(value),
                {{a.at, b.value, b.error}, {b.at, a.value, a.error}});
}

Real operator/(const Real& a, const Real& b) {
  const double value = a.value / b.value;
  const double carried = (a.error + std::abs(value) * b.error) / std::abs(b.value);
  const double reciprocal = 1 / b.value, slope = -value / b.value;
  const double off = b.error / std::abs(b.value);
  // The divisor's slope is made of two quotients.
  const double quotients = current.each ? 2 * current.store * std::abs(slope) : 0;
  return result(
      value, carried + rounding(value),
      {{a.at, reciprocal, std::abs(reciprocal) * off + rounding(reciprocal)},
       {b.at, slope,
        carried / std::abs(b.value) + std::abs(slope) * off + 2 * rounding(slope) + quotients}});
}

Real operator-(const Real& x) { return times_sign(x, -1); }

Real times_sign(const Real& x, double sign) {
  return {sign * x.value, std::abs(sign) * x.error, new_node({{Edge{x.at, sign, 0}}})};
}

Real sum(std::span<const Real> terms) {
  double value = 0, size = 0, error = 0;
  std::vector<Edge> edges;
  for (const Real& term : terms) {
    value += term.value;
    size += std::abs(term.value);
    error += term.error;
    edges.push_back({term.at, 1, 0});
  }
  const double additions = terms.empty() ? 0 : static_cast<double>(terms.size() - 1);
  return result(value, error + additions * rounding(size), edges);
}

Real mean(std::span<const Real> terms) { return sum(terms) / static_cast<double>(terms.size()); }

Real product(std::span<const Real> terms) {
  Real y = 1;
  for (const Real& term : terms) y = y * term;
  return y;
}

Real dot(std::span<const Real> a, std::span<const Real> b) {
  double value = 0, size = 0, error = 0;
  std::vector<Edge> edges;
  for (size_t i = 0; i < a.size(); ++i) {
    const double term = a[i].value * b[i].value;
    value += term;
    size += std::abs(term);
    error += std::abs(a[i].value) * b[i].error + std::abs(b[i].value) * a[i].error +
             a[i].error * b[i].error;
    edges.push_back({a[i].at, b[i].value, b[i].error});
    edges.push_back({b[i].at, a[i].value, a[i].error});
  }
  return result(value, error + static_cast<double>(a.size()) * rounding(size), edges);
}

Real function(const Real& x, double (*f)(double), double (*slope)(double)) {
  const double off = x.error + rounding(x.value);
  const double value = f(x.value), derivative = slope(x.value);
  const double slope_error = spread(slope, x.value, off) + function_cost * rounding(derivative);
  return result(value, spread(f, x.value, off) + function_cost * rounding(value),
                {{x.at, derivative, slope_error}});
}

Real function_of_output(const Real& x, double (*f)(double), double (*slope_of_y)(double)) {
  const double value = f(x.value);
  const double error =
      spread(f, x.value, x.error + rounding(x.value)) + function_cost * rounding(value);
  const double kept = error + current.store * std::abs(value) + current.least;
  const double derivative = slope_of_y(value);
  return result(
      value, error,
      {{x.at, derivative, spread(slope_of_y, value, kept) + function_cost * rounding(derivative)}});
}

Real stored(const Real& x) {
  const double error = x.error + current.store * std::abs(x.value) + current.least;
  return {x.value, error, new_node({{Edge{x.at, 1, current.store}}})};
}

Real exp(const Real& x) {
  return function_of_output(x, std::exp, [](double y) { return y; });
}

Real log(const Real& x) {
  return function(x, std::log, [](double v) { return 1 / v; });
}

Real sqrt(const Real& x) {
  return function_of_output(x, std::sqrt, [](double y) { return 0.5 / y; });
}

Real square(const Real& x) { return x * x; }

Real abs(const Real& x) { return times_sign(x, x.value > 0 ? 1 : x.value < 0 ? -1 : 0); }

Real sigmoid(const Real& x) {
  return function_of_output(
      x, [](double v) { return 1 / (1 + std::exp(-v)); }, [](double y) { return y * (1 - y); });
}

Real softplus(const Real& x) {
  return function(
      x, [](double v) { return v > 0 ? v + std::log1p(std::exp(-v)) : std::log1p(std::exp(v)); },
      [](double v) { return 1 / (1 + std::exp(-v)); });
}

Real normal_cdf(const Real& x) {
  return function(
      x, [](double v) { return 0.5 * std::erfc(-v / std::numbers::sqrt2); },
      [](double v) {
        return std::exp(-0.5 * v * v) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
      });
}

Tape::Tape() { record = new Record; }

Tape::~Tape() {
  delete record;
  record = nullptr;
}

Real Tape::variable(double value) {
  record->variables.push_back(new_node({}));
  return {value, 0, record->variables.back()};
}

std::vector<Real> Tape::gradients(std::span<const Real> outputs, std::span<const double> seeds) {
  struct Gradient {
    double value = 0, size = 0, error = 0;
    int terms = 0;
  };
  std::vector<Gradient> gradients(record->first_edge.size());
  const auto add = [&](int to, double value, double error) {
    Gradient& gradient = gradients[static_cast<size_t>(to)];
    gradient.value += value;
    gradient.size += std::abs(value);
    gradient.error += error;
    ++gradient.terms;
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].at >= 0) add(outputs[i].at, seeds[i], 0);
  }
  const double unit = current.compute + (current.each ? current.store : 0);
  for (size_t node = gradients.size(); node-- > 0;) {
    Gradient& gradient = gradients[node];
    gradient.error += std::max(0, gradient.terms - 1) * rounding(gradient.size);
    // A tensor of a composite is used three times at most: two additions in its own type.
    if (current.each && gradient.terms > 1) gradient.error += 2 * current.store * gradient.size;
    const size_t end =
        node + 1 < gradients.size() ? record->first_edge[node + 1] : record->edges.size();
    for (size_t i = record->first_edge[node]; i < end; ++i) {
      const Edge& edge = record->edges[i];
      const double value = gradient.value * edge.slope;
      const bool exact =
          edge.error == 0 && (edge.slope == 1 || edge.slope == -1 || edge.slope == 0);
      const double carried = std::abs(gradient.value) * edge.error +
                             std::abs(edge.slope) * gradient.error + gradient.error * edge.error;
      add(edge.to, value,
          carried + (exact ? 0 : unit * std::abs(value) + (current.each ? current.least : 0)));
    }
  }
  std::vector<Real> results;
  for (const int at : record->variables) {
    const Gradient& gradient = gradients[static_cast<size_t>(at)];
    results.emplace_back(gradient.value, gradient.error, at);
  }
  return results;
}

}  // namespace binade::optable
