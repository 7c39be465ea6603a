#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/ops/create/create.h"
#include "binade/ops/index/sort.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/tensor/tensor.h"

// Functions made of a few other ops, which decide their types, gradients and precision.
namespace binade {

// ---- elementwise ----

// a + weight * (b - a); exact at both ends.
Tensor lerp(const Tensor& a, const Tensor& b, double weight);
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
// a - b * trunc(a / b), which has a's sign: C's %.
Tensor fmod(const Tensor& a, const Tensor& b);
Tensor fmod(const Tensor& a, Scalar b);
// x - trunc(x).
Tensor frac(const Tensor& x);
Tensor logical_xor(const Tensor& a, const Tensor& b);
// NaN and infinities replaced; by default infinities by the largest numbers of x's type.
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> high = {},
                  std::optional<double> low = {});
// |a - b| <= atol + rtol |b|; equal infinities are close, and two NaN if `equal_nan`.
Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
               bool equal_nan = false);
Tensor selu(const Tensor& x);
Tensor hardtanh(const Tensor& x, double low = -1, double high = 1);
Tensor relu6(const Tensor& x);
Tensor logsigmoid(const Tensor& x);
Tensor softsign(const Tensor& x);

// x's elements become `values`, which were computed from x, in memory and in the graph: what the
// in-place forms such as exp_() do.
void overwrite_(const Tensor& x, const Tensor& values);

// ---- new tensors ----

// 10^first to 10^last, at equal ratios.
Tensor logspace(double first, double last, int64_t count, double base = 10);
Tensor rand_like(const Tensor& x);
Tensor randn_like(const Tensor& x);
inline Tensor empty_like(const Tensor& x) { return Tensor::empty_like(x); }
Tensor normal(double mean, double deviation, const Shape& shape);
// 1 with the probability x, else 0.
Tensor bernoulli(const Tensor& x);

// ---- shapes ----

// A line as the diagonal of a matrix, or the diagonal of a matrix as a line; `offset` counts
// diagonals above the main one.
Tensor diag(const Tensor& x, int64_t offset = 0);
// The diagonals of two axes, as the last axis: a view.
Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t first = 0, int64_t second = 1);
Tensor trace(const Tensor& x);
// All products of two lines.
Tensor outer(const Tensor& a, const Tensor& b);
// Lines (or numbers) as the coordinates of a grid: result i has line i along axis i, or along axis
// 1 - i for the first two if `indexing` is "xy".
std::vector<Tensor> meshgrid(std::span<const Tensor> lines, std::string_view indexing = "ij");
std::vector<Tensor> meshgrid(std::initializer_list<Tensor> lines, std::string_view indexing = "ij");
// Side by side along axis 1 (lines: 0); below each other, lines as rows.
Tensor hstack(std::span<const Tensor> tensors);
Tensor hstack(std::initializer_list<Tensor> tensors);
Tensor vstack(std::span<const Tensor> tensors);
Tensor vstack(std::initializer_list<Tensor> tensors);
// repeat() with ones put in front of what is shorter, the counts or the shape.
Tensor tile(const Tensor& x, const std::vector<int64_t>& counts);
// Each element `count` times in a row, of flat x or along an axis.
Tensor repeat_interleave(const Tensor& x, int64_t count, std::optional<int64_t> axis = {});
// With a count for each index of the axis, or one for all; waits for a GPU, as the counts decide
// the result's shape.
Tensor repeat_interleave(const Tensor& x, const Tensor& counts, std::optional<int64_t> axis = {});
Tensor movedim(const Tensor& x, int64_t from, int64_t to);
// Blocks of channels as pixels: [..., c * factor^2, h, w] to [..., c, h * factor, w * factor].
Tensor pixel_shuffle(const Tensor& x, int64_t factor);

// ---- indexing ----

// x with the elements at the indices along `axis` replaced; repeated indices are refused.
Tensor scatter(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source);
Tensor scatter(const Tensor& x, int64_t axis, const Tensor& index, double value);
// x with alpha times source's slices added at the indices along `axis`, or with the slices there
// replaced by a number.
Tensor index_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source,
                 double alpha = 1);
Tensor index_fill(const Tensor& x, int64_t axis, const Tensor& index, double value);
// Elements of flat x.
Tensor take(const Tensor& x, const Tensor& index);

// ---- reductions ----

Tensor count_nonzero(const Tensor& x, const Axes& axes = {});
std::pair<Tensor, Tensor> var_mean(const Tensor& x, const Axes& axes = {}, bool keep = false,
                                   double correction = 1);
std::pair<Tensor, Tensor> std_mean(const Tensor& x, const Axes& axes = {}, bool keep = false,
                                   double correction = 1);
// x / max(norm, eps), norms along an axis.
Tensor normalize(const Tensor& x, double p = 2, int64_t axis = 1, double eps = 1e-12);

}  // namespace binade
