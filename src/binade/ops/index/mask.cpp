#include "binade/ops/index/mask.h"

#include "binade/ops/common.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/index/index.h"
#include "binade/ops/shape/shape.h"

namespace binade {
namespace {

using namespace ops;

void require_mask(const char* op, const Tensor& mask, const Tensor& x) {
  require_defined(op, "x", x);
  require_device(op, "mask", mask, x);
  if (mask.dtype() != DType::boolean)
    fail(op, {.argument = "mask", .expected = "bool", .found = describe(mask)});
}

// Flat positions of the elements that are not zero.
std::vector<int64_t> positions_of(const char* op, const Tensor& x) {
  if (x.device().is_meta()) {
    fail(op, {.argument = "x",
              .expected = "a tensor with data",
              .found = describe(x),
              .hint = "the result's shape depends on the values"});
  }
  const Tensor host = dense(to(x.detach(), Device::cpu()));
  const Tensor is_set = Tensor::empty(host.shape(), DType::boolean);
  backend::of(host).elementwise.binary(backend::Binary::not_equal, host,
                                       TensorView(zeros({}, host.dtype())).expanded(host.shape()),
                                       is_set);
  std::vector<int64_t> positions;
  const bool* const set = is_set.data<bool>();
  for (int64_t i = 0; i < is_set.numel(); ++i) {
    if (set[i]) positions.push_back(i);
  }
  return positions;
}

}  // namespace

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  require_mask("masked_fill", mask, x);
  if (broadcast("masked_fill", x.shape(), mask.shape()) != x.shape()) {
    fail("masked_fill", {.argument = "mask",
                         .expected = "one that broadcasts to " + to_string(x.shape()),
                         .found = describe(mask)});
  }
  Composite call(Op::masked_fill, {x});
  return call.result(where(mask, full({}, value, x.dtype(), x.device()), call[0]));
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  require_mask("masked_select", mask, x);
  const Shape shape = broadcast("masked_select", x.shape(), mask.shape());
  const std::vector<int64_t> positions = positions_of("masked_select", expand(mask, shape));
  const Tensor index = tensor(positions, {static_cast<int64_t>(positions.size())}, x.device());
  return index_select(reshape(expand(x, shape), {-1}), 0, index);
}

Tensor nonzero(const Tensor& x) {
  require_defined("nonzero", "x", x);
  const std::vector<int64_t> positions = positions_of("nonzero", x);
  const auto count = static_cast<int64_t>(positions.size());
  std::vector<int64_t> indices(positions.size() * static_cast<size_t>(x.rank()));
  for (size_t i = 0; i < positions.size(); ++i) {
    int64_t rest = positions[i];
    for (int axis = x.rank() - 1; axis >= 0; --axis) {
      indices[i * static_cast<size_t>(x.rank()) + static_cast<size_t>(axis)] =
          rest % x.shape()[axis];
      rest /= x.shape()[axis];
    }
  }
  return tensor(indices, {count, x.rank()}, x.device());
}

}  // namespace binade
