#include "binade/optim/master_weight.h"

#include "binade/backend/backend.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/shape/shape.h"
#include "binade/optim/slot.h"

namespace binade::optim {

MasterWeight::MasterWeight(const Tensor& parameter, const Tensor& elements,
                           const MasterOptions& options) {
  const bool is_low = parameter.dtype() == DType::f16 || parameter.dtype() == DType::bf16;
  if (!is_low || !options.masters) return;
  if (parameter.dtype() == DType::bf16 && options.split_masters) {
    rest_ = zeros({2 * elements.numel()}, DType::u8, parameter.device());
    return;
  }
  f32_ = Tensor::empty(elements.shape(), DType::f32, parameter.device());
  backend::of(parameter).elementwise.copy(elements, f32_);
  note_version(parameter);
}

void MasterWeight::follow(const Tensor& parameter, const Tensor& elements) {
  if (!is_f32() || parameter.version() == version_) return;
  // Elements that are still the rounded master weight keep its lower bits, as when a model and its
  // optimizer are loaded one after the other.
  const auto& kernels = backend::of(elements).elementwise;
  const Tensor rounded = Tensor::empty_like(elements), wide = Tensor::empty_like(f32_),
               is_same = Tensor::empty(elements.shape(), DType::boolean, elements.device());
  kernels.copy(f32_, rounded);
  kernels.copy(elements, wide);
  kernels.binary(backend::Binary::equal, elements, rounded, is_same);
  kernels.where(is_same, f32_, wide, f32_);
  f32_.bump_version();
  note_version(parameter);
}

Tensor MasterWeight::read(const Tensor& elements) const {
  if (is_f32()) return f32_;
  if (!is_split()) return elements;
  const Tensor joined = Tensor::empty(elements.shape(), DType::f32, elements.device());
  backend::of(elements).optimizer.join_master(elements, rest_, joined);
  return joined;
}

void MasterWeight::write(const Tensor& value, const Tensor& elements) const {
  if (is_split())
    return backend::of(value).optimizer.split_master(contiguous(value), elements, rest_);
  const auto& kernels = backend::of(value).elementwise;
  kernels.copy(value, is_f32() ? f32_ : elements);
  if (is_f32()) kernels.copy(f32_, elements);
}

void load_split_master(const Slot& slot, const Tensor& whole) {
  const Tensor& parameter = slot.parameter;
  const auto& kernels = backend::of(parameter).optimizer;
  const Tensor master = Tensor::empty(parameter.shape(), DType::f32, parameter.device());
  copy_(master, whole);
  kernels.split_master(master, parameter, {});
  parameter.bump_version();
  kernels.split_master(slot.part_of(master), slot.own_elements(), slot.master.rest());
}

}  // namespace binade::optim
