#include "binade/ops/in_place.h"

#include <array>

#include "binade/ops/elementwise/unary.h"
#include "binade/ops/shape/shape.h"
#include "binade/tensor/overlap.h"

namespace binade::ops {

void require_writable(const char* op, const Tensor& x, bool records) {
  require_defined(op, "x", x);
  x.require_writable_graph(op, records);
  if (!overlaps_itself(x)) return;
  fail(op, {.argument = "x",
            .expected = "elements with memory of their own",
            .found = describe(x) + " with strides " + to_string(x.strides()),
            .hint = "an expanded tensor has one element in several places: clone() it first"});
}

bool write_records(const Tensor& x, const Tensor& source) {
  return is_compute(x.dtype()) && autograd::recording(std::array{x, source});
}

Tensor unaffected_by_write(const Tensor& x, const Tensor& source) {
  if (!write_changes(x, source)) return source;
  Tensor copy = Tensor::empty(source.shape(), source.dtype(), source.device());
  backend::of(source).elementwise.copy(source, copy);
  return copy;
}

void write(const Tensor& x, const Tensor& values, bool from_self) {
  const Tensor source = unaffected_by_write(x, values);
  backend::of(x).elementwise.copy(TensorView(source).expanded(x.shape()), x);
  x.bump_version();
  if (!write_records(x, values)) return;
  x.record_write(expand(cast(values, x.dtype()), x.shape()), from_self);
}

}  // namespace binade::ops
