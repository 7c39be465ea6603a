#include "binade/ops/loss/distance.h"

#include <limits>

#include "binade/ops/common.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"

namespace binade {

using namespace ops;

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t axis, double eps) {
  require_compute("cosine_similarity", "a", a);
  require_compute("cosine_similarity", "b", b);
  normalize_axis("cosine_similarity", axis, std::min(a.rank(), b.rank()));
  broadcast("cosine_similarity", a.shape(), b.shape());
  require_between("cosine_similarity", "eps", eps, 0, std::numeric_limits<double>::max());
  Composite call(Op::cosine_similarity, {a, b});
  const Tensor floor = full({}, eps, call[0].dtype(), a.device());
  const Tensor a_norm = maximum(norm(call[0], 2, {axis}, true), floor),
               b_norm = maximum(norm(call[1], 2, {axis}, true), floor);
  return call.result(sum((call[0] / a_norm) * (call[1] / b_norm), {axis}));
}

Tensor cdist(const Tensor& a, const Tensor& b) {
  require_compute("cdist", "a", a);
  require_compute("cdist", "b", b);
  if (a.rank() < 2 || b.rank() < 2 || a.size(-1) != b.size(-1)) {
    fail("cdist", {.argument = "operands",
                   .expected = "[..., m, d] and [..., n, d]",
                   .found = describe(a) + " and " + describe(b)});
  }
  broadcast("cdist", batch_of(a), batch_of(b));
  Composite call(Op::cdist, {a, b});
  return call.result(norm(unsqueeze(call[0], -2) - unsqueeze(call[1], -3), 2, {-1}));
}

Tensor cross(const Tensor& a, const Tensor& b, int64_t axis) {
  require_compute("cross", "a", a);
  require_compute("cross", "b", b);
  require_shape("cross", "b", b, a.shape());
  const int at = normalize_axis("cross", axis, a.rank());
  if (a.size(at) != 3)
    fail("cross", {.argument = "axis", .expected = "a size of 3", .found = describe(a)});
  Composite call(Op::cross, {a, b});
  // Component i is a[i + 1] b[i + 2] - a[i + 2] b[i + 1], indices modulo 3.
  const auto rolled = [at](const Tensor& x, int64_t by) {
    return cat({slice(x, at, by, 3), slice(x, at, 0, by)}, at);
  };
  return call.result(rolled(call[0], 1) * rolled(call[1], 2) -
                     rolled(call[0], 2) * rolled(call[1], 1));
}

}  // namespace binade
