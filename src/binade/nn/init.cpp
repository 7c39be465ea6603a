#include "binade/nn/init.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "binade/autograd/grad_mode.h"
#include "binade/backend/backend.h"
#include "binade/base/execution.h"
#include "binade/base/random.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/shape/shape.h"

namespace binade {

void manual_seed(uint64_t seed) {
  random::begin_step(seed, 0);
  nn::init::restart(seed);
}

}  // namespace binade

namespace binade::nn::init {
namespace {

// The streams that initial values are drawn from, one per tensor.
struct InitStreams {
  uint64_t seed = 0;
  uint64_t next = random::stream_id(random::Domain::parameters, 0);
};
// A module made in a forward gets the same values when that is repeated.
constinit execution::Slot<InitStreams> init_streams(execution::Belongs::to_stream);
// What makes a model may hand parts of it to other threads.
constinit execution::Slot<bool> skip_init(execution::Belongs::to_work);

random::Key next_init_key() { return {init_streams->seed, init_streams->next++}; }

Tensor parameter(const Shape& shape, Placement placement) {
  const memory::CategoryGuard category(memory::Category::parameters);
  return Tensor::empty(shape, placement.dtype, placement.device);
}

}  // namespace

SkipInit::SkipInit() : skip_(*skip_init, true) {}

void restart(uint64_t seed) { *init_streams = {.seed = seed}; }

Tensor normal(const Shape& shape, double deviation, Placement placement) {
  Tensor x = parameter(shape, placement);
  if (!*skip_init) backend::of(x).activation.fill_normal(0, deviation, next_init_key(), x);
  return x;
}

Tensor uniform(const Shape& shape, double bound, Placement placement) {
  Tensor x = parameter(shape, placement);
  if (!*skip_init) backend::of(x).activation.fill_uniform(-bound, bound, next_init_key(), x);
  return x;
}

Tensor constant(const Shape& shape, double value, Placement placement) {
  Tensor x = parameter(shape, placement);
  if (!*skip_init) backend::of(x).elementwise.fill(x, value);
  return x;
}

namespace {

// Fails unless x is floating and has `rank` axes or more.
void require(const char* function, const Tensor& x, int rank = 0) {
  if (x.defined() && is_compute(x.dtype()) && x.rank() >= rank) return;
  fail(function, {.argument = "x",
                  .expected = "a floating tensor" +
                              (rank == 0 ? std::string()
                                         : " with at least " + std::to_string(rank) + " axes"),
                  .found = describe(x)});
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

double kaiming_deviation(const char* function, const Tensor& x, const Kaiming& options) {
  require(function, x, 2);
  const auto [in, out] = fans(x);
  const auto fan = static_cast<double>(options.fan == Kaiming::Fan::in ? in : out);
  return gain(options.nonlinearity, options.slope) / std::sqrt(std::max(fan, 1.0));
}

double xavier_deviation(const char* function, const Tensor& x, double gain) {
  require(function, x, 2);
  const auto [in, out] = fans(x);
  return gain * std::sqrt(2.0 / static_cast<double>(std::max<int64_t>(in + out, 1)));
}

// Makes `count` rows of `size` numbers orthonormal, one after another. Twice, because the first
// time rounding leaves components of earlier rows.
void orthonormalize(std::vector<double>& rows, int64_t count, int64_t size) {
  for (int64_t i = 0; i < count; ++i) {
    double* row = rows.data() + i * size;
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t j = 0; j < i; ++j) {
        const double* other = rows.data() + j * size;
        double dot = 0;
        for (int64_t k = 0; k < size; ++k) dot += row[k] * other[k];
        for (int64_t k = 0; k < size; ++k) row[k] -= dot * other[k];
      }
    }
    double square = 0;
    for (int64_t k = 0; k < size; ++k) square += row[k] * row[k];
    for (int64_t k = 0; k < size; ++k) row[k] /= std::sqrt(square);
  }
}

// Whether `text` matches a pattern with *.
bool matches(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] != '*')
    return !text.empty() && pattern[0] == text[0] && matches(pattern.substr(1), text.substr(1));
  for (size_t i = 0; i <= text.size(); ++i) {
    if (matches(pattern.substr(1), text.substr(i))) return true;
  }
  return false;
}

}  // namespace

void constant_(const Tensor& x, double value) {
  require("constant_", x);
  const NoGrad no_grad;
  fill_(x, value);
}

void uniform_(const Tensor& x, double low, double high) {
  require("uniform_", x);
  backend::of(x).activation.fill_uniform(low, high, next_init_key(), x);
  x.bump_version();
}

void normal_(const Tensor& x, double mean, double deviation) {
  require("normal_", x);
  backend::of(x).activation.fill_normal(mean, deviation, next_init_key(), x);
  x.bump_version();
}

void trunc_normal_(const Tensor& x, const TruncatedNormal& distribution) {
  require("trunc_normal_", x);
  const auto& [mean, deviation, low, high] = distribution;
  if (!(low < high && deviation > 0)) {
    fail("trunc_normal_", {.argument = "distribution",
                           .expected = "low < high and a positive deviation",
                           .found = fmt::format("{}", low) + " to " + fmt::format("{}", high)});
  }
  // The inverse of the distribution function at uniform numbers.
  const double first = 2 * normal_cdf((low - mean) / deviation) - 1,
               last = 2 * normal_cdf((high - mean) / deviation) - 1;
  const NoGrad no_grad;
  const Tensor uniform = Tensor::empty(x.shape(), accumulation_type(x.dtype()), x.device());
  uniform_(uniform, first, last);
  copy_(x, clamp(erfinv(uniform) * (deviation * std::numbers::sqrt2) + mean, low, high));
}

void eye_(const Tensor& x) {
  require("eye_", x, 2);
  if (x.rank() != 2) fail("eye_", {.argument = "x", .expected = "a matrix", .found = describe(x)});
  const NoGrad no_grad;
  fill_(x, 0);
  const int64_t size = std::min(x.size(0), x.size(1));
  for (int64_t i = 0; i < size; ++i) fill_(x[i][i], 1);
}

Fans fans(const Tensor& weight) {
  require("fans", weight, 2);
  const int64_t field =
      weight.shape().numel() / std::max<int64_t>(weight.size(0) * weight.size(1), 1);
  return {weight.size(1) * field, weight.size(0) * field};
}

double gain(Nonlinearity nonlinearity, double slope) {
  switch (nonlinearity) {
    case Nonlinearity::linear:
    case Nonlinearity::sigmoid:
      return 1;
    case Nonlinearity::tanh:
      return 5.0 / 3;
    case Nonlinearity::relu:
      return std::numbers::sqrt2;
    case Nonlinearity::leaky_relu:
      return std::sqrt(2 / (1 + slope * slope));
    case Nonlinearity::selu:
      return 0.75;
  }
  return 1;
}

void xavier_uniform_(const Tensor& x, double gain) {
  const double bound = std::sqrt(3.0) * xavier_deviation("xavier_uniform_", x, gain);
  uniform_(x, -bound, bound);
}

void xavier_normal_(const Tensor& x, double gain) {
  normal_(x, 0, xavier_deviation("xavier_normal_", x, gain));
}

void kaiming_uniform_(const Tensor& x, const Kaiming& options) {
  const double bound = std::sqrt(3.0) * kaiming_deviation("kaiming_uniform_", x, options);
  uniform_(x, -bound, bound);
}

void kaiming_normal_(const Tensor& x, const Kaiming& options) {
  normal_(x, 0, kaiming_deviation("kaiming_normal_", x, options));
}

void orthogonal_(const Tensor& x, double gain) {
  require("orthogonal_", x, 2);
  if (x.numel() == 0) return;
  const int64_t rows = x.size(0), columns = x.numel() / rows;
  const int64_t count = std::min(rows, columns), size = std::max(rows, columns);
  std::vector<double> vectors = to_vector(randn({count, size}, next_init_key(), DType::f64));
  orthonormalize(vectors, count, size);
  for (double& value : vectors) value *= gain;
  const NoGrad no_grad;
  const Tensor made = tensor(vectors, {count, size}, DType::f64);
  copy_(x, reshape(rows > columns ? transpose(made, 0, 1) : made, x.shape()));
}

void apply(const Module& module, std::string_view pattern, const Initializer& initialize) {
  bool found = false;
  for (const auto& [name, parameter] : module.named_parameters()) {
    if (!matches(pattern, name)) continue;
    found = true;
    initialize(parameter);
  }
  if (!found) {
    fail("init::apply", {.argument = "pattern",
                         .expected = "the name of a parameter",
                         .found = "'" + std::string(pattern) + "', which matches none"});
  }
}

}  // namespace binade::nn::init
