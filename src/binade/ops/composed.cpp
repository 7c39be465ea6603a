#include "binade/ops/composed.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "binade/autograd/grad_mode.h"
#include "binade/backend/capabilities.h"
#include "binade/ops/common.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/in_place.h"
#include "binade/ops/index/index.h"
#include "binade/ops/shape/rearrange.h"
#include "binade/ops/shape/shape.h"

namespace binade {
namespace {

using namespace ops;

double largest_of(DType dtype) {
  if (dtype == DType::f16) return 65504;
  if (dtype == DType::bf16) return 0x1.fep127;
  return dtype == DType::f64 ? std::numeric_limits<double>::max()
                             : static_cast<double>(std::numeric_limits<float>::max());
}

Tensor scalar_like(double value, const Tensor& x) { return full({}, value, x.dtype(), x.device()); }

// A line of indices, i64 and counted from the front, in the shape of x with `axis` of the line's
// length and all else repeated.
Tensor along(const Tensor& index, const Tensor& x, int axis) {
  Shape ones = Shape::filled(x.rank(), 1), shape = x.shape();
  ones[axis] = shape[axis] = index.numel();
  const Tensor wide = cast(index, DType::i64);
  const Tensor front = where(wide < 0, wide + x.shape()[axis], wide);
  return expand(reshape(front, ones), shape);
}

std::vector<Tensor> with_rows(std::span<const Tensor> tensors) {
  std::vector<Tensor> rows;
  for (const Tensor& x : tensors) rows.push_back(x.rank() < 2 ? reshape(x, {1, -1}) : x);
  return rows;
}

std::span<const Tensor> as_span(std::initializer_list<Tensor> list) {
  return {list.begin(), list.size()};
}

}  // namespace

Tensor lerp(const Tensor& a, const Tensor& b, double weight) {
  require_defined("lerp", "a", a);
  require_defined("lerp", "b", b);
  return weight < 0.5 ? a + (b - a) * weight : b - (b - a) * (1 - weight);
}

Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) {
  require_defined("lerp", "weight", weight);
  const Tensor step = b - a;
  return where(abs(weight) < 0.5, a + step * weight, b - step * (1 - weight));
}

Tensor fmod(const Tensor& a, const Tensor& b) {
  require_defined("fmod", "a", a);
  require_defined("fmod", "b", b);
  // The remainder has b's sign: of absolute values it is that of truncation.
  const Tensor part = remainder(abs(a), abs(b));
  return where(a < 0, -part, part);
}

Tensor fmod(const Tensor& a, Scalar b) {
  require_defined("fmod", "a", a);
  const Tensor part =
      remainder(abs(a), b.is_integer() ? Scalar(static_cast<int64_t>(std::fabs(b.value())))
                                       : Scalar(std::fabs(b.value())));
  return where(a < 0, -part, part);
}

Tensor frac(const Tensor& x) { return x - trunc(x); }

Tensor logical_xor(const Tensor& a, const Tensor& b) {
  return bitwise_xor(not_equal(a, 0), not_equal(b, 0));
}

Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> high,
                  std::optional<double> low) {
  require_defined("nan_to_num", "x", x);
  if (!is_floating(x.dtype())) return x;
  const double most = largest_of(x.dtype());
  const double infinity = std::numeric_limits<double>::infinity();
  Tensor y = where(is_nan(x), scalar_like(nan, x), x);
  y = where(eq(x, infinity), scalar_like(high.value_or(most), x), y);
  return where(eq(x, -infinity), scalar_like(low.value_or(-most), x), y);
}

Tensor isclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  require_defined("isclose", "a", a);
  require_defined("isclose", "b", b);
  const NoGrad no_grad;
  const Tensor x = cast(a, DType::f64), y = cast(b, DType::f64);
  const Tensor near = less_equal(abs(x - y), abs(y) * rtol + atol) & is_finite(y);
  const Tensor close = near | eq(x, y);
  return equal_nan ? close | (is_nan(x) & is_nan(y)) : close;
}

Tensor selu(const Tensor& x) {
  constexpr double alpha = 1.6732632423543772848170429916717;
  constexpr double scale = 1.0507009873554804934193349852946;
  return elu(x, alpha) * scale;
}

Tensor hardtanh(const Tensor& x, double low, double high) { return clamp(x, low, high); }
Tensor relu6(const Tensor& x) { return clamp(x, 0, 6); }
Tensor logsigmoid(const Tensor& x) { return -softplus(-x); }
Tensor softsign(const Tensor& x) { return x / (abs(x) + 1); }

void overwrite_(const Tensor& x, const Tensor& values) {
  require_defined("overwrite_", "x", x);
  require_shape("overwrite_", "values", values, x.shape());
  require_writable("overwrite_", x, write_records(x, values));
  write(x, values, true);
}

Tensor logspace(double first, double last, int64_t count, double base) {
  const Tensor exponents = linspace(first, last, count, DType::f64);
  return cast(pow(full({}, base, DType::f64), exponents), DType::f32);
}

Tensor rand_like(const Tensor& x) { return rand(x.shape(), x.dtype(), x.device()); }
Tensor randn_like(const Tensor& x) { return randn(x.shape(), x.dtype(), x.device()); }

Tensor normal(double mean, double deviation, const Shape& shape) {
  return randn(shape) * deviation + mean;
}

Tensor bernoulli(const Tensor& x) {
  require_compute("bernoulli", "x", x);
  const NoGrad no_grad;
  const Tensor draws = rand(x.shape(), DType::f32, x.device());
  return cast(less(draws, x), x.dtype());
}

Tensor diag(const Tensor& x, int64_t offset) {
  require_defined("diag", "x", x);
  if (x.rank() == 2) return diagonal(x, offset);
  require_rank("diag", "x", x, 1);
  const int64_t count = x.numel(), size = count + std::abs(offset);
  const int64_t row = std::max<int64_t>(-offset, 0), column = std::max<int64_t>(offset, 0);
  // The matrix is square, so that its line has the diagonal at steps of size + 1.
  const Tensor at = arange(count, DType::i64, x.device()) * (size + 1) + (row * size + column);
  const Tensor line = zeros({size * size}, x.dtype(), x.device());
  if (is_compute(x.dtype())) return reshape(index_put(line, at, x), {size, size});
  index_put_(line, {at}, x);
  return reshape(line, {size, size});
}

Tensor diagonal(const Tensor& x, int64_t offset, int64_t first, int64_t second) {
  require_defined("diagonal", "x", x);
  const int a = normalize_axis("diagonal", first, x.rank());
  const int b = normalize_axis("diagonal", second, x.rank());
  if (a == b) {
    fail("diagonal", {.argument = "first, second",
                      .expected = "two axes",
                      .found = std::to_string(first) + ", " + std::to_string(second)});
  }
  std::vector<int64_t> order;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (axis != a && axis != b) order.push_back(axis);
  }
  order.insert(order.end(), {a, b});
  const Tensor last = permute(x, order);
  const int64_t rows = last.size(-2), columns = last.size(-1);
  const int64_t row = std::max<int64_t>(-offset, 0), column = std::max<int64_t>(offset, 0);
  const int64_t count = std::max<int64_t>(std::min(rows - row, columns - column), 0);
  Shape shape = last.shape();
  shape.erase(x.rank() - 1);
  shape[x.rank() - 2] = count;
  Strides strides = last.strides();
  const int64_t step = strides[x.rank() - 2] + strides[x.rank() - 1];
  const int64_t start =
      count > 0 ? row * strides[x.rank() - 2] + column * strides[x.rank() - 1] : 0;
  strides.erase(x.rank() - 1);
  strides[x.rank() - 2] = step;
  const Tensor view = last.strided(shape, strides, last.offset() + start);
  const Call call(Op::slice, {last});
  const Tensor y = call.result(view, [=, whole = last.shape()](const Tensor& dy, GradSlots dx) {
    const Tensor gradient = zeros(whole, dy.dtype(), dy.device());
    copy_(diagonal(gradient, offset, -2, -1), dy);
    dx[0].add(gradient);
  });
  y.set_view_of(last);
  return y;
}

Tensor trace(const Tensor& x) {
  require_rank("trace", "x", x, 2);
  return sum(diagonal(x));
}

Tensor outer(const Tensor& a, const Tensor& b) {
  require_rank("outer", "a", a, 1);
  require_rank("outer", "b", b, 1);
  return unsqueeze(a, 1) * unsqueeze(b, 0);
}

std::vector<Tensor> meshgrid(std::span<const Tensor> lines, std::string_view indexing) {
  if (lines.empty() || (indexing != "ij" && indexing != "xy")) {
    fail("meshgrid", {.argument = lines.empty() ? "lines" : "indexing",
                      .expected = lines.empty() ? "at least one" : "ij or xy",
                      .found = lines.empty() ? "none" : std::string(indexing)});
  }
  const bool swaps = indexing == "xy" && lines.size() > 1;
  const auto axis_of = [swaps](size_t i) { return static_cast<int>(swaps && i < 2 ? 1 - i : i); };
  const int rank = static_cast<int>(lines.size());
  Shape shape = Shape::filled(rank, 1);
  for (size_t i = 0; i < lines.size(); ++i) {
    require_defined("meshgrid", "lines", lines[i]);
    if (lines[i].rank() > 1) require_rank("meshgrid", "lines", lines[i], 1);
    shape[axis_of(i)] = lines[i].numel();
  }
  std::vector<Tensor> grid;
  for (size_t i = 0; i < lines.size(); ++i) {
    Shape line = Shape::filled(rank, 1);
    line[axis_of(i)] = lines[i].numel();
    grid.push_back(expand(reshape(lines[i], line), shape));
  }
  return grid;
}
std::vector<Tensor> meshgrid(std::initializer_list<Tensor> lines, std::string_view indexing) {
  return meshgrid(as_span(lines), indexing);
}

Tensor hstack(std::span<const Tensor> tensors) {
  std::vector<Tensor> parts;
  for (const Tensor& x : tensors) parts.push_back(x.rank() == 0 ? reshape(x, {1}) : x);
  return cat(parts, !parts.empty() && parts[0].rank() == 1 ? 0 : 1);
}
Tensor hstack(std::initializer_list<Tensor> tensors) { return hstack(as_span(tensors)); }

Tensor vstack(std::span<const Tensor> tensors) { return cat(with_rows(tensors), 0); }
Tensor vstack(std::initializer_list<Tensor> tensors) { return vstack(as_span(tensors)); }

Tensor tile(const Tensor& x, const std::vector<int64_t>& counts) {
  require_defined("tile", "x", x);
  std::vector<int64_t> all = counts;
  while (static_cast<int>(all.size()) < x.rank()) all.insert(all.begin(), 1);
  return repeat(x, all);
}

Tensor repeat_interleave(const Tensor& x, int64_t count, std::optional<int64_t> axis) {
  require_defined("repeat_interleave", "x", x);
  if (count < 0) {
    fail("repeat_interleave",
         {.argument = "count", .expected = "at least 0", .found = std::to_string(count)});
  }
  const Tensor whole = axis ? x : reshape(x, {-1});
  const int at = normalize_axis("repeat_interleave", axis.value_or(0), whole.rank());
  Shape wide = whole.shape(), shape = whole.shape();
  wide.insert(at + 1, count);
  shape[at] *= count;
  return reshape(expand(unsqueeze(whole, at + 1), wide), shape);
}

Tensor repeat_interleave(const Tensor& x, const Tensor& counts, std::optional<int64_t> axis) {
  require_defined("repeat_interleave", "x", x);
  require_index("repeat_interleave", "counts", counts);
  if (counts.rank() > 1) require_rank("repeat_interleave", "counts", counts, 1);
  const Tensor whole = axis ? x : reshape(x, {-1});
  const int at = normalize_axis("repeat_interleave", axis.value_or(0), whole.rank());
  const int64_t size = whole.shape()[at];
  if (counts.numel() == 1 && size != 1)
    return repeat_interleave(whole, static_cast<int64_t>(counts.item()), at);
  require_shape("repeat_interleave", "counts", reshape(counts, {-1}), {size});
  const std::vector<double> times = to_vector(counts);
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < size; ++row) {
    const auto count = static_cast<int64_t>(times[static_cast<size_t>(row)]);
    if (count < 0) {
      fail("repeat_interleave",
           {.argument = "counts", .expected = "at least 0", .found = std::to_string(count)});
    }
    rows.insert(rows.end(), static_cast<size_t>(count), row);
  }
  return index_select(whole, at,
                      tensor(rows, Shape{static_cast<int64_t>(rows.size())}, x.device()));
}

Tensor movedim(const Tensor& x, int64_t from, int64_t to) {
  require_defined("movedim", "x", x);
  const int a = normalize_axis("movedim", from, x.rank());
  const int b = normalize_axis("movedim", to, x.rank());
  std::vector<int64_t> order(static_cast<size_t>(x.rank()));
  std::iota(order.begin(), order.end(), int64_t{0});
  order.erase(order.begin() + a);
  order.insert(order.begin() + b, a);
  return permute(x, order);
}

Tensor pixel_shuffle(const Tensor& x, int64_t factor) {
  require_defined("pixel_shuffle", "x", x);
  if (x.rank() < 3 || factor < 1 || x.size(-3) % (factor * factor) != 0) {
    fail("pixel_shuffle", {.argument = "x",
                           .expected = "[..., channels, h, w] with channels a multiple of " +
                                       std::to_string(factor * factor),
                           .found = describe(x)});
  }
  const int64_t channels = x.size(-3) / (factor * factor), h = x.size(-2), w = x.size(-1);
  const Tensor parts = reshape(x, {-1, channels, factor, factor, h, w});
  Shape shape = x.shape();
  const int rank = x.rank();
  shape[rank - 3] = channels, shape[rank - 2] = h * factor, shape[rank - 1] = w * factor;
  return reshape(permute(parts, {0, 1, 4, 2, 5, 3}), shape);
}

Tensor scatter(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source) {
  require_defined("scatter", "x", x);
  require_index("scatter", "index", index);
  const int at = normalize_axis("scatter", axis, x.rank());
  require_rank("scatter", "index", index, x.rank());
  require_rank("scatter", "source", source, x.rank());
  // The positions of flat x that are written.
  Tensor flat = zeros({}, DType::i64, x.device()), part = source;
  for (int i = 0; i < x.rank(); ++i) {
    Shape line = Shape::filled(x.rank(), 1);
    line[i] = index.shape()[i];
    const Tensor own = reshape(arange(index.shape()[i], DType::i64, x.device()), line);
    flat = flat * x.shape()[i] + (i == at ? cast(index, DType::i64) : own);
    if (index.shape()[i] > (i == at ? index.shape()[i] : x.shape()[i]) ||
        index.shape()[i] > source.shape()[i]) {
      fail("scatter", {.argument = "index",
                       .expected = "no larger than x and source",
                       .found = describe(index)});
    }
    part = slice(part, i, 0, index.shape()[i]);
  }
  const Tensor outside = (index < 0) | (index >= x.shape()[at]);
  if (backend::capabilities(index.device()).is_host_readable && any(outside).item() != 0) {
    fail("scatter", {.argument = "index",
                     .expected = "indices from 0 to " + std::to_string(x.shape()[at] - 1),
                     .found = "one outside"});
  }
  const Tensor y = clone(x);
  const Tensor line = reshape(y, {-1});
  index_put_(line, {reshape(flat, {-1})}, reshape(part, {-1}));
  return reshape(line, x.shape());
}

Tensor scatter(const Tensor& x, int64_t axis, const Tensor& index, double value) {
  return scatter(x, axis, index, full(index.shape(), value, x.dtype(), x.device()));
}

Tensor index_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source,
                 double alpha) {
  require_defined("index_add", "x", x);
  require_rank("index_add", "index", index, 1);
  require_rank("index_add", "source", source, x.rank());
  const int at = normalize_axis("index_add", axis, x.rank());
  Shape expected = x.shape();
  expected[at] = index.numel();
  require_shape("index_add", "source", source, expected);
  const Tensor terms = alpha == 1 ? source : source * alpha;
  if (is_compute(x.dtype())) return scatter_add(x, at, contiguous(along(index, x, at)), terms);
  // The kernels add floating numbers; index_put_ adds others exactly.
  const Tensor y = clone(x);
  std::vector<IndexEntry> entries(static_cast<size_t>(at), IndexEntry(Slice()));
  entries.emplace_back(index);
  index_put_(y, entries, terms, true);
  return y;
}

Tensor index_fill(const Tensor& x, int64_t axis, const Tensor& index, double value) {
  require_defined("index_fill", "x", x);
  require_rank("index_fill", "index", index, 1);
  require_index("index_fill", "index", index);
  const int at = normalize_axis("index_fill", axis, x.rank());
  const int64_t size = x.shape()[at];
  const Tensor wide = cast(index, DType::i64);
  const Tensor counts =
      index_put(zeros({size}, DType::f32, x.device()), where(wide < 0, wide + size, wide),
                ones({index.numel()}, DType::f32, x.device()), true);
  Shape line = Shape::filled(x.rank(), 1);
  line[at] = size;
  return where(reshape(counts > 0, line), scalar_like(value, x), x);
}

Tensor take(const Tensor& x, const Tensor& index) {
  require_defined("take", "x", x);
  require_index("take", "index", index);
  return binade::index(reshape(x, {-1}), {index});
}

Tensor count_nonzero(const Tensor& x, const Axes& axes) { return sum(not_equal(x, 0), axes); }

std::pair<Tensor, Tensor> var_mean(const Tensor& x, const Axes& axes, bool keep,
                                   double correction) {
  return {var(x, axes, keep, correction), mean(x, axes, keep)};
}

std::pair<Tensor, Tensor> std_mean(const Tensor& x, const Axes& axes, bool keep,
                                   double correction) {
  return {binade::std(x, axes, keep, correction), mean(x, axes, keep)};
}

Tensor normalize(const Tensor& x, double p, int64_t axis, double eps) {
  const double infinity = std::numeric_limits<double>::infinity();
  return x / clamp(norm(x, p, axis, true), eps, infinity);
}

}  // namespace binade
