#include "binade/torch/names.h"

#include <algorithm>
#include <cmath>

#include "binade/torch/functional.h"

namespace binade::torch {
namespace {

Tensor number_like(const Tensor& x, double value) {
  return binade::full({}, value, x.dtype(), x.device());
}

Tensor rounded(const Tensor& quotient, const std::string& rounding) {
  if (rounding == "floor") return floor(quotient);
  if (rounding == "trunc") return trunc(quotient);
  fail("div", {.argument = "rounding_mode", .expected = "floor or trunc", .found = rounding});
}

bool of_integers(const Tensor& x) { return !is_floating(x.dtype()); }

// Integers divide exactly: towards zero is a floor, but of quotients below zero with a rest.
Tensor truncated(const Tensor& a, const Tensor& b) {
  const Tensor low = floor_divide(a, b);
  const Tensor rest = a - low * b;
  return low + ((rest != 0) & ((a < 0) != (b < 0))).to(low.dtype());
}

double correction_of(bool unbiased) { return unbiased ? 1 : 0; }

Tensor triangle(const Tensor& kept) { return transpose(nonzero(kept), 0, 1).contiguous(); }

}  // namespace

Tensor div(const Tensor& a, const Tensor& b, const std::string& rounding) {
  if (!of_integers(a) || !of_integers(b)) {
    return rounding == "floor" ? floor_divide(a, b) : rounded(a / b, rounding);
  }
  return rounding == "trunc"   ? truncated(a, b)
         : rounding == "floor" ? floor_divide(a, b)
                               : rounded(a, rounding);
}
Tensor div(const Tensor& a, Scalar b, const std::string& rounding) {
  const bool exact = of_integers(a) && b.is_integer();
  const DType dtype = is_floating(a.dtype()) || exact ? a.dtype() : DType::f32;
  return torch::div(a, binade::full({}, b.value(), dtype, a.device()), rounding);
}

Tensor asinh(const Tensor& x) {
  const Tensor size = binade::where(x < 0, -x, x);
  const Tensor result = log1p(size + square(size) / (1 + sqrt(square(size) + 1)));
  return binade::where(x < 0, -result, result);
}

Tensor hypot(const Tensor& a, const Tensor& b) {
  const Tensor large = maximum(abs(a), abs(b)), small = minimum(abs(a), abs(b));
  const Tensor ratio = binade::where(large == 0, zeros_like(large), small / large);
  return large * sqrt(square(ratio) + 1);
}

Tensor logaddexp(const Tensor& a, const Tensor& b) {
  const Tensor larger = maximum(a, b);
  const Tensor sum = larger + log1p(exp(-abs(a - b)));
  return binade::where((a == b) & is_inf(a), larger, sum);
}

Tensor xlogy(const Tensor& a, const Tensor& b) {
  const Tensor product = a * log(b);
  return binade::where((a == 0) & logical_not(is_nan(b)), zeros_like(product), product);
}

Tensor fmax(const Tensor& a, const Tensor& b) {
  return binade::where(is_nan(a), b, binade::where(is_nan(b), a, maximum(a, b)));
}
Tensor fmin(const Tensor& a, const Tensor& b) {
  return binade::where(is_nan(a), b, binade::where(is_nan(b), a, minimum(a, b)));
}

Tensor round(const Tensor& x, int64_t decimals) {
  const double factor = std::pow(10.0, static_cast<double>(decimals));
  return binade::round(x * factor) / factor;
}

Tensor bitwise_and(const Tensor& a, int64_t b) { return a & b; }
Tensor bitwise_or(const Tensor& a, int64_t b) { return a | b; }
Tensor bitwise_xor(const Tensor& a, int64_t b) { return a ^ b; }

Tensor isin(const Tensor& x, const Tensor& values) {
  return binade::any(unsqueeze(x, -1) == reshape(values, {-1}), {-1});
}

Tensor diff(const Tensor& x, int64_t n, int64_t dim) {
  Tensor y = x;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t size = y.size(dim);
    y = slice(y, dim, std::min<int64_t>(1, size), size) -
        slice(y, dim, 0, std::max<int64_t>(size - 1, 0));
  }
  return y;
}

Tensor softplus(const Tensor& x, double beta, double threshold) {
  const Tensor scaled = x * beta;
  return binade::where(scaled > threshold, x, binade::softplus(scaled) / beta);
}

Tensor celu(const Tensor& x, double alpha) {
  return relu(x) + alpha * expm1(clamp_max(x, 0) / alpha);
}

Tensor threshold(const Tensor& x, double threshold, double value) {
  return binade::where(x > threshold, x, number_like(x, value));
}

Tensor gelu(const Tensor& x, const std::string& approximate) {
  return nn::functional::gelu(x, nn::GELUOptions().approximate(approximate));
}

Tensor var(const Tensor& x) { return binade::var(x); }
Tensor var(const Tensor& x, const Axes& dim, bool unbiased, bool keepdim) {
  return binade::var(x, dim, keepdim, correction_of(unbiased));
}
Tensor std(const Tensor& x) { return binade::std(x); }
Tensor std(const Tensor& x, const Axes& dim, bool unbiased, bool keepdim) {
  return binade::std(x, dim, keepdim, correction_of(unbiased));
}
TwoTensors var_mean(const Tensor& x, const Axes& dim, bool unbiased, bool keepdim) {
  return binade::var_mean(x, dim, keepdim, correction_of(unbiased));
}
TwoTensors std_mean(const Tensor& x, const Axes& dim, bool unbiased, bool keepdim) {
  return binade::std_mean(x, dim, keepdim, correction_of(unbiased));
}

Tensor logsumexp(const Tensor& x, const std::vector<int64_t>& dims, bool keepdim) {
  if (dims.size() == 1) return binade::logsumexp(x, dims[0], keepdim);
  const Axes axes(dims);
  const Tensor largest = binade::max(x, axes, true).detach();
  const Tensor shift = binade::where(is_finite(largest), largest, zeros_like(largest));
  const Tensor sums = log(sum(exp(x - shift), axes, true)) + shift;
  return keepdim ? sums : reshape(sums, sum(x.detach(), axes).shape());
}

TwoTensors kthvalue(const Tensor& x, int64_t k, int64_t dim, bool keepdim) {
  const Sorted sorted = binade::sort(x, dim);
  if (k < 1 || k > x.size(dim)) {
    fail("kthvalue", {.argument = "k",
                      .expected = "1 to " + std::to_string(x.size(dim)),
                      .found = std::to_string(k)});
  }
  const auto at = [&](const Tensor& all) {
    return keepdim ? slice(all, dim, k - 1, k) : select(all, dim, k - 1);
  };
  return {at(sorted.values), at(sorted.index)};
}

TwoTensors aminmax(const Tensor& x) { return {binade::min(x), binade::max(x)}; }

Tensor nansum(const Tensor& x) { return sum(binade::where(is_nan(x), zeros_like(x), x)); }

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool out_int32, bool right) {
  const Tensor found = binade::searchsorted(sorted, values, right);
  return out_int32 ? cast(found, DType::i32) : found;
}

Tensor histc(const Tensor& x, int64_t bins, double low, double high) {
  const Tensor flat = reshape(x, {-1}).detach();
  if (low == high) low = binade::min(flat).item(), high = binade::max(flat).item();
  if (low == high) low -= 1, high += 1;
  const Tensor inside = masked_select(flat, (flat >= low) & (flat <= high));
  const Tensor at = floor((inside - low) * (static_cast<double>(bins) / (high - low)));
  return cast(bincount(cast(clamp_max(at, static_cast<double>(bins - 1)), DType::i64), {}, bins),
              x.dtype());
}

Tensor addmv(const Tensor& c, const Tensor& a, const Tensor& b, double beta, double alpha) {
  return c * beta + mv(a, b) * alpha;
}

Tensor chain_matmul(const std::vector<Tensor>& matrices) {
  if (matrices.empty())
    fail("chain_matmul", {.argument = "matrices", .expected = "at least one", .found = "none"});
  Tensor product = matrices[0];
  for (size_t i = 1; i < matrices.size(); ++i) product = mm(product, matrices[i]);
  return product;
}

Tensor matrix_power(const Tensor& x, int64_t n) {
  if (n < 0)
    fail("matrix_power", {.argument = "n", .expected = "at least 0", .found = std::to_string(n)});
  Tensor power = expand(binade::eye(x.size(-1), {}, x.dtype(), x.device()), x.shape());
  for (int64_t i = 0; i < n; ++i) power = i == 0 ? x : matmul(power, x);
  return power;
}

Tensor kron(const Tensor& a, const Tensor& b) {
  const int rank = std::max(a.rank(), b.rank());
  const auto sizes = [&](const Tensor& x) {
    Shape shape = Shape::filled(rank, 1);
    for (int i = 0; i < x.rank(); ++i) shape[rank - x.rank() + i] = x.shape()[i];
    return shape;
  };
  const Shape left = sizes(a), right = sizes(b);
  Shape a_shape, b_shape, result;
  for (int i = 0; i < rank; ++i) {
    a_shape.push_back(left[i]), a_shape.push_back(1);
    b_shape.push_back(1), b_shape.push_back(right[i]);
    result.push_back(left[i] * right[i]);
  }
  return reshape(reshape(a, a_shape) * reshape(b, b_shape), result);
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim, double eps) {
  return binade::cosine_similarity(a, b, dim, eps);
}

Tensor cross(const Tensor& a, const Tensor& b, std::optional<int64_t> dim) {
  if (!dim) {
    const auto first = std::find(a.shape().begin(), a.shape().end(), 3);
    dim = first == a.shape().end() ? -1 : first - a.shape().begin();
  }
  return binade::cross(a, b, *dim);
}

Tensor cdist(const Tensor& a, const Tensor& b, double p) {
  return p == 2 ? binade::cdist(a, b) : norm(unsqueeze(a, -2) - unsqueeze(b, -3), p, -1);
}

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& mask, double dropout, bool is_causal,
                                    std::optional<double> scale) {
  AttentionOptions options;
  const int64_t queries = query.size(-2), keys = key.size(-2);
  options.causal = is_causal && queries == keys;
  options.mask = mask;
  // LibTorch aligns the first query with the first key, Binade the last ones.
  if (is_causal && queries != keys) {
    if (mask.defined())
      fail("scaled_dot_product_attention",
           {.argument = "mask", .expected = "none beside is_causal", .found = describe(mask)});
    options.mask = tril(binade::ones({queries, keys}, DType::f32, query.device())) != 0;
  }
  options.dropout = dropout;
  if (scale) options.scale = *scale;
  return binade::scaled_dot_product_attention(query, key, value, options);
}

Tensor normal(const Tensor& mean, const Tensor& deviation) {
  const Shape shape = broadcast("normal", mean.shape(), deviation.shape());
  return mean + deviation * binade::randn(shape, TensorOptions(mean.dtype()).device(mean.device()));
}

Tensor unflatten(const Tensor& x, int64_t dim, const std::vector<int64_t>& sizes) {
  const int at = normalize_axis("unflatten", dim, x.rank());
  std::vector<int64_t> shape = x.shape().vec(), parts = sizes;
  int64_t known = 1;
  for (const int64_t size : sizes) known *= size == -1 ? 1 : size;
  for (int64_t& size : parts) {
    if (size == -1 && known != 0) size = x.size(at) / known;
  }
  shape.erase(shape.begin() + at);
  shape.insert(shape.begin() + at, parts.begin(), parts.end());
  return reshape(x, shape);
}

Tensor atleast_1d(const Tensor& x) { return x.rank() == 0 ? reshape(x, {1}) : x; }
Tensor atleast_2d(const Tensor& x) { return x.rank() < 2 ? unsqueeze(atleast_1d(x), 0) : x; }

Tensor column_stack(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> columns;
  for (const Tensor& one : tensors) columns.push_back(one.rank() < 2 ? reshape(one, {-1, 1}) : one);
  return cat(columns, 1);
}

Tensor diag_embed(const Tensor& x) {
  return unsqueeze(x, -1) * binade::eye(x.size(-1), {}, x.dtype(), x.device());
}

Tensor block_diag(const std::vector<Tensor>& tensors) {
  int64_t width = 0, before = 0;
  for (const Tensor& one : tensors) width += atleast_2d(one).size(1);
  std::vector<Tensor> rows;
  for (const Tensor& one : tensors) {
    const Tensor block = atleast_2d(one);
    const auto zeros_beside = [&](int64_t count) {
      return binade::zeros({block.size(0), count}, one.dtype(), one.device());
    };
    rows.push_back(
        cat({zeros_beside(before), block, zeros_beside(width - before - block.size(1))}, 1));
    before += block.size(1);
  }
  return cat(rows, 0);
}

std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors) {
  Shape shape;
  for (const Tensor& one : tensors) shape = broadcast("broadcast_tensors", shape, one.shape());
  std::vector<Tensor> result;
  for (const Tensor& one : tensors) result.push_back(expand(one, shape));
  return result;
}

Tensor tril_indices(int64_t rows, int64_t columns, int64_t offset) {
  return triangle(tril(binade::ones({rows, columns}), offset));
}
Tensor triu_indices(int64_t rows, int64_t columns, int64_t offset) {
  return triangle(triu(binade::ones({rows, columns}), offset));
}

}  // namespace binade::torch
