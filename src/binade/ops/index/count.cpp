#include "binade/ops/index/count.h"

#include <algorithm>
#include <cmath>

#include "binade/autograd/grad_mode.h"
#include "binade/ops/common.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/index/index.h"
#include "binade/ops/index/mask.h"
#include "binade/ops/index/sort.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"

// The kernels of the CPU; results of other devices move there and back.
namespace binade {
namespace {

using namespace ops;

void require_data(const char* op, const char* argument, const Tensor& x) {
  require_defined(op, argument, x);
  if (!x.device().is_meta()) return;
  fail(op, {.argument = argument,
            .expected = "a tensor with data",
            .found = describe(x),
            .hint = "the result's shape depends on the values"});
}

// Runs of equal elements of a line: the values, the run of each element and the length of each.
Unique runs_of(const Tensor& line, UniqueOptions options) {
  const int64_t count = line.numel();
  Unique result;
  if (count == 0) {
    result.values = line;
    if (options.inverse) result.inverse = zeros({0}, DType::i64, line.device());
    if (options.counts) result.counts = zeros({0}, DType::i64, line.device());
    return result;
  }
  const Tensor before = slice(line, 0, 0, count - 1), after = slice(line, 0, 1, count);
  const Tensor starts =
      cat({ones({1}, DType::boolean, line.device()), not_equal(before, after)}, 0);
  result.values = masked_select(line, starts);
  const Tensor run = cumsum(starts, 0) - 1;
  if (options.inverse) result.inverse = run;
  if (options.counts) result.counts = bincount(run);
  return result;
}

int64_t largest(const Tensor& x) {
  const int64_t* const values = x.data<int64_t>();
  int64_t most = -1;
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (values[i] < 0) {
      fail("bincount", {.argument = "x",
                        .expected = "integers of at least 0",
                        .found = std::to_string(values[i])});
    }
    most = std::max(most, values[i]);
  }
  return most;
}

Tensor summed_weights(const Tensor& x, const Tensor& weights, int64_t length) {
  require_shape("bincount", "weights", weights, x.shape());
  const DType dtype = weights.dtype() == DType::f32 ? DType::f32 : DType::f64;
  const Tensor wide = dense(cast(to(weights.detach(), Device::cpu()), DType::f64));
  const Tensor sums = zeros({length}, DType::f64);
  for (int64_t i = 0; i < x.numel(); ++i)
    sums.mutable_data<double>()[x.data<int64_t>()[i]] += wide.data<double>()[i];
  return cast(sums, dtype);
}

template <class T>
bool is_before(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return !std::isnan(a) && (a < b || std::isnan(b));
  return a < b;
}

template <class T>
void search_rows(const Tensor& sorted, const Tensor& values, bool right, const Tensor& found) {
  const int64_t width = sorted.shape().back(), per_row = values.shape().back();
  const bool is_shared = sorted.rank() == 1;
  const T* const lines = sorted.data<T>();
  const T* const wanted = values.data<T>();
  auto* const at = found.mutable_data<int64_t>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    const T* const line = lines + (is_shared ? 0 : i / per_row * width);
    const T* const place = right ? std::upper_bound(line, line + width, wanted[i], is_before<T>)
                                 : std::lower_bound(line, line + width, wanted[i], is_before<T>);
    at[i] = place - line;
  }
}

}  // namespace

Unique unique(const Tensor& x, UniqueOptions options) {
  require_data("unique", "x", x);
  const NoGrad no_grad;
  const Tensor line = reshape(x, {-1});
  const Sorted sorted = sort(line);
  Unique result = runs_of(sorted.values, options);
  if (options.inverse) {
    const Tensor back = argsort(sorted.index);
    result.inverse = reshape(index_select(result.inverse, 0, back), x.shape());
  }
  return result;
}

Unique unique_consecutive(const Tensor& x, UniqueOptions options) {
  require_data("unique_consecutive", "x", x);
  const NoGrad no_grad;
  Unique result = runs_of(reshape(x, {-1}), options);
  if (options.inverse) result.inverse = reshape(result.inverse, x.shape());
  return result;
}

Tensor bincount(const Tensor& x, const Tensor& weights, int64_t minimum) {
  require_data("bincount", "x", x);
  require_rank("bincount", "x", x, 1);
  require_integers("bincount", "x", x);
  if (minimum < 0)
    fail("bincount",
         {.argument = "minimum", .expected = "at least 0", .found = std::to_string(minimum)});
  const Tensor host = dense(cast(to(x, Device::cpu()), DType::i64));
  const int64_t length = std::max(largest(host) + 1, minimum);
  if (weights.defined()) return to(summed_weights(host, weights, length), x.device());
  const Tensor counts = zeros({length}, DType::i64);
  auto* const count = counts.mutable_data<int64_t>();
  for (int64_t i = 0; i < host.numel(); ++i) ++count[host.data<int64_t>()[i]];
  return to(counts, x.device());
}

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right) {
  require_data("searchsorted", "sorted", sorted);
  require_data("searchsorted", "values", values);
  const auto outer = [](const Tensor& x) {
    return Shape(std::span(x.shape().begin(), x.shape().end() - 1));
  };
  if (sorted.rank() == 0 ||
      (sorted.rank() > 1 && (values.rank() != sorted.rank() || outer(values) != outer(sorted)))) {
    fail("searchsorted", {.argument = "sorted",
                          .expected = "a line, or one for each line of " + describe(values),
                          .found = describe(sorted)});
  }
  const bool is_exact = !is_floating(sorted.dtype()) && !is_floating(values.dtype());
  const DType wide = is_exact ? DType::i64 : DType::f64;
  const Device home = Device::cpu();
  const NoGrad no_grad;
  const Tensor lines = dense(cast(to(sorted, home), wide));
  const Tensor wanted = dense(cast(to(values, home), wide));
  const Tensor rows = values.rank() == 0 ? reshape(wanted, {1}) : wanted;
  const Tensor found = Tensor::empty(rows.shape(), DType::i64);
  if (is_exact)
    search_rows<int64_t>(lines, rows, right, found);
  else
    search_rows<double>(lines, rows, right, found);
  return to(reshape(found, values.shape()), values.device());
}

}  // namespace binade
