#include "binade/optim/newton_schulz.h"

#include <algorithm>
#include <cmath>

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/backend/backend.h"
#include "binade/backend/capabilities.h"
#include "binade/base/error.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"

namespace binade::optim {
namespace {

Tensor matrix_of(const Tensor& batch, int64_t index) {
  return batch.strided({batch.size(1), batch.size(2)}, {batch.strides()[1], batch.strides()[2]},
                       batch.offset() + index * batch.strides()[0]);
}

// Divides each matrix by its norm, so that no singular value is larger than 1.
Tensor normalized(const Tensor& x, double eps) {
  if (x.rank() == 2) return x / clamp(norm(x), eps, INFINITY);
  const Tensor norms = Tensor::empty({x.size(0), 1, 1}, x.dtype(), x.device());
  for (int64_t i = 0; i < x.size(0); ++i)
    backend::of(x).elementwise.copy(clamp(norm(matrix_of(x, i)), eps, INFINITY),
                                    norms.strided({}, {}, i));
  return x / norms;
}

// alpha a b + beta c, rounded once.
Tensor multiplied(const Tensor& a, const Tensor& b, double alpha, const Tensor& c, double beta) {
  const Tensor y = Tensor::empty({a.size(0), a.size(1), b.size(2)}, a.dtype(), a.device());
  const auto& kernels = backend::of(y);
  if (c.defined()) kernels.elementwise.copy(c, y);
  kernels.matmul.matmul(a, b, y,
                        {.alpha = static_cast<float>(alpha), .beta = static_cast<float>(beta)});
  return y;
}

Tensor iterated(Tensor y, const NewtonSchulz& options) {
  const auto [a, b, c] = options.coefficients;
  const auto added = y.rank() == 3 ? baddbmm : addmm;
  for (int i = 0; i < options.steps; ++i) {
    const Tensor gram = matmul(y, transpose(y, -2, -1));
    y = added(y, added(gram, gram, gram, b, c), y, a, 1);
  }
  return y;
}

Tensor iterated_on_gpu(const Tensor& x, const NewtonSchulz& options) {
  const auto [a, b, c] = options.coefficients;
  Tensor y = x.rank() == 2 ? reshape(x, {1, x.size(0), x.size(1)}) : x;
  for (int i = 0; i < options.steps; ++i) {
    const Tensor gram = multiplied(y, transpose(y, 1, 2), 1, {}, 0);
    y = multiplied(multiplied(gram, gram, c, gram, b), y, 1, y, a);
  }
  return reshape(y, x.shape());
}

}  // namespace

Tensor orthogonalized(const Tensor& x, const NewtonSchulz& options) {
  if (x.rank() != 2 && x.rank() != 3)
    fail("Muon", {.argument = "parameters", .expected = "matrices", .found = describe(x)});
  const NoGrad no_grad;
  const amp::Autocast plain(amp::disabled_autocast());
  // The smaller side first, which makes the matmuls smaller.
  const bool is_tall = x.size(-2) > x.size(-1);
  const Tensor start = normalized(is_tall ? contiguous(transpose(x, -2, -1)) : x, options.eps);
  const Tensor y = backend::capabilities(x.device()).is_massively_parallel
                       ? iterated_on_gpu(start, options)
                       : iterated(start, options);
  return is_tall ? transpose(y, -2, -1) : y;
}

double newton_schulz_cost(int64_t rows, int64_t columns) {
  const auto small = static_cast<double>(std::min(rows, columns)),
             large = static_cast<double>(std::max(rows, columns));
  return small * small * (2 * large + small);
}

}  // namespace binade::optim
