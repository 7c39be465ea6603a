#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "binade/ops/attention/attention.h"
#include "binade/ops/composed.h"
#include "binade/ops/create/categorical.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/index/count.h"
#include "binade/ops/index/index.h"
#include "binade/ops/index/mask.h"
#include "binade/ops/index/sort.h"
#include "binade/ops/libtorch_names.h"
#include "binade/ops/loss/distance.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/norm/norm.h"
#include "binade/ops/norm/softmax.h"
#include "binade/ops/shape/rearrange.h"

// LibTorch's functions of numbers, reductions and shapes that Binade has under another name, with
// other arguments, or as a combination of others.
namespace binade::torch {

using namespace binade;  // NOLINT: torch::zeros is binade::zeros

// ---- elementwise ----

inline Tensor subtract(const Tensor& a, const Tensor& b) { return a - b; }
inline Tensor multiply(const Tensor& a, const Tensor& b) { return a * b; }
inline Tensor divide(const Tensor& a, const Tensor& b) { return a / b; }
inline Tensor true_divide(const Tensor& a, const Tensor& b) { return a / b; }
inline Tensor true_divide(const Tensor& a, Scalar b) { return a / b; }
inline Tensor negative(const Tensor& x) { return -x; }
inline Tensor absolute(const Tensor& x) { return abs(x); }
inline Tensor rsub(const Tensor& a, const Tensor& b) { return b - a; }
inline Tensor rsub(const Tensor& a, Scalar b) { return b - a; }
using binade::div;
// Rounded "floor" or "trunc".
Tensor div(const Tensor& a, const Tensor& b, const std::string& rounding);
Tensor div(const Tensor& a, Scalar b, const std::string& rounding);
inline Tensor exp2(const Tensor& x) { return exp(x * 0.69314718055994530942); }
Tensor asinh(const Tensor& x);
inline Tensor acosh(const Tensor& x) { return log(x + sqrt(square(x) - 1)); }
inline Tensor atanh(const Tensor& x) { return 0.5 * (log1p(x) - log1p(-x)); }
inline Tensor sgn(const Tensor& x) { return sign(x); }
inline Tensor erfc(const Tensor& x) { return 1 - erf(x); }
inline Tensor logit(const Tensor& x) { return log(x) - log1p(-x); }
Tensor hypot(const Tensor& a, const Tensor& b);
// log(exp(a) + exp(b)).
Tensor logaddexp(const Tensor& a, const Tensor& b);
// a * log(b), 0 where a is 0.
Tensor xlogy(const Tensor& a, const Tensor& b);
// The larger and the smaller one; the other one if one is NaN.
Tensor fmax(const Tensor& a, const Tensor& b);
Tensor fmin(const Tensor& a, const Tensor& b);
using binade::round;
Tensor round(const Tensor& x, int64_t decimals);
using binade::bitwise_and;
using binade::bitwise_or;
using binade::bitwise_xor;
Tensor bitwise_and(const Tensor& a, int64_t b);
Tensor bitwise_or(const Tensor& a, int64_t b);
Tensor bitwise_xor(const Tensor& a, int64_t b);
using binade::clamp;
inline Tensor clamp(const Tensor& x, double low) { return clamp_min(x, low); }
inline Tensor clamp(const Tensor& x, std::nullopt_t, double high) { return clamp_max(x, high); }
inline Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high) {
  return minimum(maximum(x, low), high);
}
// Whether each element is one of the values.
Tensor isin(const Tensor& x, const Tensor& values);
// Differences of neighbours along an axis.
Tensor diff(const Tensor& x, int64_t n = 1, int64_t dim = -1);
using binade::softplus;
Tensor softplus(const Tensor& x, double beta, double threshold = 20);
Tensor celu(const Tensor& x, double alpha = 1);
inline Tensor log_sigmoid(const Tensor& x) { return logsigmoid(x); }
// x above the threshold, else the value.
Tensor threshold(const Tensor& x, double threshold, double value);
using binade::gelu;
Tensor gelu(const Tensor& x, const std::string& approximate);

// ---- reductions ----

// The argument after the axes is `unbiased`, and the last keeps them. A flag alone is `unbiased`.
Tensor var(const Tensor& x);
Tensor var(const Tensor& x, const Axes& dim, bool unbiased = true, bool keepdim = false);
template <std::same_as<bool> Flag>
Tensor var(const Tensor& x, Flag unbiased) {
  return torch::var(x, Axes(), unbiased);
}
Tensor std(const Tensor& x);
Tensor std(const Tensor& x, const Axes& dim, bool unbiased = true, bool keepdim = false);
template <std::same_as<bool> Flag>
Tensor std(const Tensor& x, Flag unbiased) {
  return torch::std(x, Axes(), unbiased);
}
using TwoTensors = std::tuple<Tensor, Tensor>;
TwoTensors var_mean(const Tensor& x, const Axes& dim = {}, bool unbiased = true,
                    bool keepdim = false);
template <std::same_as<bool> Flag>
TwoTensors var_mean(const Tensor& x, Flag unbiased) {
  return torch::var_mean(x, Axes(), unbiased);
}
TwoTensors std_mean(const Tensor& x, const Axes& dim = {}, bool unbiased = true,
                    bool keepdim = false);
template <std::same_as<bool> Flag>
TwoTensors std_mean(const Tensor& x, Flag unbiased) {
  return torch::std_mean(x, Axes(), unbiased);
}
using binade::logsumexp;
Tensor logsumexp(const Tensor& x, const std::vector<int64_t>& dims, bool keepdim = false);
using binade::cumprod;
using binade::cumsum;
inline Tensor cumsum(const Tensor& x, int64_t dim, DType dtype) { return x.cumsum(dim, dtype); }
inline Tensor cumprod(const Tensor& x, int64_t dim, DType dtype) {
  return binade::cumprod(cast(x, dtype), dim);
}
// (the k-th smallest, its index) along an axis; k counts from 1.
TwoTensors kthvalue(const Tensor& x, int64_t k, int64_t dim = -1, bool keepdim = false);
TwoTensors aminmax(const Tensor& x);
Tensor nansum(const Tensor& x);
inline Tensor dist(const Tensor& a, const Tensor& b, double p = 2) { return norm(a - b, p); }
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool out_int32 = false,
                    bool right = false);
Tensor histc(const Tensor& x, int64_t bins = 100, double low = 0, double high = 0);

// ---- products and distances ----

inline Tensor inner(const Tensor& a, const Tensor& b) { return a.matmul(b.dim() < 2 ? b : b.mT()); }
inline Tensor ger(const Tensor& a, const Tensor& b) { return outer(a, b); }
Tensor addmv(const Tensor& c, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);
Tensor chain_matmul(const std::vector<Tensor>& matrices);
Tensor matrix_power(const Tensor& x, int64_t n);
Tensor kron(const Tensor& a, const Tensor& b);
// Along axis 1, where Binade takes the last one.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim = 1, double eps = 1e-8);
// Along the given axis, or the first one of size 3.
Tensor cross(const Tensor& a, const Tensor& b, std::optional<int64_t> dim = {});
using binade::cdist;
Tensor cdist(const Tensor& a, const Tensor& b, double p);
using binade::scaled_dot_product_attention;
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& mask, double dropout = 0, bool is_causal = false,
                                    std::optional<double> scale = {});

// ---- choices ----

using binade::multinomial;
inline Tensor multinomial(const Tensor& weights, int64_t samples, bool replacement) {
  return binade::multinomial(weights, samples, {.replacement = replacement});
}
inline Tensor take_along_dim(const Tensor& x, const Tensor& index, int64_t dim) {
  return gather(x, dim, index);
}
inline Tensor argwhere(const Tensor& x) { return nonzero(x); }
using binade::normal;
Tensor normal(const Tensor& mean, const Tensor& deviation);

// ---- shapes ----

inline int64_t numel(const Tensor& x) { return x.numel(); }
inline Tensor concat(const std::vector<Tensor>& tensors, int64_t dim = 0) {
  return cat(tensors, dim);
}
// An axis as several, of which one size may be -1.
Tensor unflatten(const Tensor& x, int64_t dim, const std::vector<int64_t>& sizes);
inline Tensor ravel(const Tensor& x) { return reshape(x, {-1}); }
inline Tensor swapdims(const Tensor& x, int64_t a, int64_t b) { return transpose(x, a, b); }
inline Tensor fliplr(const Tensor& x) { return flip(x, {1}); }
inline Tensor flipud(const Tensor& x) { return flip(x, {0}); }
Tensor atleast_1d(const Tensor& x);
Tensor atleast_2d(const Tensor& x);
Tensor column_stack(const std::vector<Tensor>& tensors);
Tensor diag_embed(const Tensor& x);
Tensor block_diag(const std::vector<Tensor>& tensors);
std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors);
// [2, n]: the rows and the columns of a triangle.
Tensor tril_indices(int64_t rows, int64_t columns, int64_t offset = 0);
Tensor triu_indices(int64_t rows, int64_t columns, int64_t offset = 0);

// ---- types ----

inline DType promote_types(DType a, DType b) { return promote(a, b); }

}  // namespace binade::torch
