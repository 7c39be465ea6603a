#include "binade/ops/create/categorical.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/backend/capabilities.h"
#include "binade/ops/common.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"

namespace binade {
namespace {

using namespace ops;

void require_host_data(const char* op, const char* argument, const Tensor& x) {
  if (x.device().is_meta())
    fail(op, {.argument = argument, .expected = "a tensor with data", .found = describe(x)});
}

// Uniform in [0, 1) with 53 bits: rows of many categories need more than f32's 24.
double uniform53(random::Key key, uint64_t draw) {
  const uint64_t high = random::bits(key.seed, key.stream, 2 * draw),
                 low = random::bits(key.seed, key.stream, 2 * draw + 1);
  return static_cast<double>((high << 32 | low) >> 11) * 0x1p-53;
}

double checked_total(const std::vector<double>& weights) {
  double total = 0;
  for (const double weight : weights) {
    if (!(weight >= 0) || std::isinf(weight))
      fail("multinomial", {.argument = "weights",
                           .expected = "finite weights of at least 0",
                           .found = fmt::format("{}", weight)});
    total += weight;
  }
  if (!(total > 0))
    fail("multinomial",
         {.argument = "weights", .expected = "a sum above 0 in each row", .found = "0"});
  return total;
}

// The category in whose part of [0, total) `at` lies; never one of weight 0.
size_t category_at(const std::vector<double>& weights, double at) {
  size_t last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    last = i;
    if (at < weights[i]) break;
    at -= weights[i];
  }
  return last;
}

}  // namespace

Tensor one_hot(const Tensor& index, std::optional<int64_t> classes) {
  require_index("one_hot", "index", index);
  if (!classes) {
    require_host_data("one_hot", "index", index);
    if (index.numel() == 0)
      fail("one_hot", {.argument = "classes", .expected = "a number", .found = "none"});
    classes = static_cast<int64_t>(max(index).item()) + 1;
  }
  if (*classes < 1)
    fail("one_hot",
         {.argument = "classes", .expected = "at least 1", .found = std::to_string(*classes)});
  // Where reading the indices would wait, one out of range gives zeros.
  if (backend::capabilities(index.device()).is_host_readable && index.numel() > 0) {
    const double low = min(index).item(), high = max(index).item();
    if (low < 0 || high >= static_cast<double>(*classes))
      fail("one_hot", {.argument = "index",
                       .expected = "indices from 0 to " + std::to_string(*classes - 1),
                       .found = std::to_string(static_cast<int64_t>(low < 0 ? low : high))});
  }
  return cast(eq(unsqueeze(index, -1), arange(*classes, index.dtype(), index.device())),
              DType::i64);
}

Tensor multinomial(const Tensor& weights, int64_t samples, MultinomialOptions options) {
  require_compute("multinomial", "weights", weights);
  require_host_data("multinomial", "weights", weights);
  if (weights.rank() != 1 && weights.rank() != 2)
    fail("multinomial", {.argument = "weights",
                         .expected = "[categories] or [rows, categories]",
                         .found = describe(weights)});
  const int64_t categories = weights.size(-1), rows = weights.rank() == 2 ? weights.size(0) : 1;
  if (samples < 1 || (!options.replacement && samples > categories))
    fail("multinomial", {.argument = "samples",
                         .expected = options.replacement ? "at least 1"
                                                         : "1 to " + std::to_string(categories) +
                                                               ", as none is drawn twice",
                         .found = std::to_string(samples)});
  const random::Key key = options.key ? *options.key : random::next_key();
  const std::vector<double> all = to_vector(weights);
  std::vector<int64_t> drawn;
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<double> left(all.begin() + row * categories, all.begin() + (row + 1) * categories);
    for (int64_t i = 0; i < samples; ++i) {
      const double total = checked_total(left);
      const size_t category =
          category_at(left, total * uniform53(key, static_cast<uint64_t>(row * samples + i)));
      drawn.push_back(static_cast<int64_t>(category));
      if (!options.replacement) left[category] = 0;
    }
  }
  return tensor(drawn, weights.rank() == 2 ? Shape{rows, samples} : Shape{samples},
                weights.device());
}

}  // namespace binade
