#include "binade/ops/common.h"

#include <fmt/format.h>

#include <cmath>

#include "binade/autograd/anomaly.h"
#include "binade/autograd/engine.h"
#include "binade/autograd/op_observer.h"
#include "binade/backend/capabilities.h"
#include "binade/ops/elementwise/unary.h"

namespace binade::ops {
namespace {

std::vector<Tensor> cast_recorded(Op op, std::span<const Tensor> inputs, bool named) {
  const std::optional<DType> target = amp::input_type(op, inputs, named);
  std::vector<Tensor> result;
  for (const Tensor& input : inputs) {
    const bool casts =
        target && input.defined() && is_compute(input.dtype()) && input.dtype() != DType::f64;
    result.push_back(casts ? cast(input, *target) : input);
  }
  return result;
}

// Whether the one op that uses a result computes the gradient that the result's own op sees. A hook
// may replace it.
bool gets_whole_gradient(const autograd::AutogradMeta& meta) {
  return meta.node != nullptr && meta.uses == 1 && meta.hooks.empty();
}

}  // namespace

Composite::Composite(Op op, std::initializer_list<Tensor> inputs, bool named)
    : op_(op),
      inputs_(inputs),
      compute_(cast_recorded(op, inputs_, named)),
      scope_(op),
      plain_(amp::disabled_autocast()) {
  amp::require_one_device(op, inputs_);
}

Tensor Composite::result(const Tensor& y) {
  pause_.resume();
  amp::trace_op(op_, inputs_, compute_, {&y, 1});
  return y;
}

void require_defined(std::string_view op, std::string_view argument, const Tensor& x) {
  if (!x.defined())
    fail(op, {.argument = std::string(argument), .expected = "a tensor", .found = "none"});
}

void require_compute(std::string_view op, std::string_view argument, const Tensor& x) {
  require_defined(op, argument, x);
  if (is_compute(x.dtype())) return;
  fail(op, {.argument = std::string(argument),
            .expected = "f64, f32, f16 or bf16",
            .found = describe(x),
            .hint = "cast() it"});
}

void require_integers(std::string_view op, std::string_view argument, const Tensor& x) {
  require_defined(op, argument, x);
  if (!is_floating(x.dtype())) return;
  fail(op, {.argument = std::string(argument),
            .expected = "integers or bools",
            .found = describe(x),
            .hint = "cast() it"});
}

void require_index(std::string_view op, std::string_view argument, const Tensor& x) {
  require_defined(op, argument, x);
  if (x.dtype() == DType::i64 || x.dtype() == DType::i32) return;
  fail(op, {.argument = std::string(argument), .expected = "i64 or i32", .found = describe(x)});
}

void require_rank(std::string_view op, std::string_view argument, const Tensor& x, int rank) {
  require_defined(op, argument, x);
  if (x.rank() == rank) return;
  fail(op, {.argument = std::string(argument),
            .expected = std::to_string(rank) + " dimensions",
            .found = describe(x)});
}

void require_shape(std::string_view op, std::string_view argument, const Tensor& x,
                   const Shape& shape) {
  require_defined(op, argument, x);
  if (x.shape() == shape) return;
  fail(op, {.argument = std::string(argument), .expected = to_string(shape), .found = describe(x)});
}

void require_same_dtype(std::string_view op, const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined() || a.dtype() == b.dtype()) return;
  // Autocast leaves f64 as it is.
  const bool autocast_helps = !amp::autocast_state().enabled && a.dtype() != DType::f64 &&
                              b.dtype() != DType::f64 && is_compute(a.dtype()) &&
                              is_compute(b.dtype());
  fail(op, {.argument = "inputs",
            .expected = "one dtype",
            .found = std::string(name(a.dtype())) + " and " + std::string(name(b.dtype())),
            .hint = autocast_helps ? "cast() one of them or run under amp::Autocast"
                                   : "cast() one of them"});
}

void require_finite(std::string_view op, std::string_view argument, double value) {
  if (std::isfinite(value)) return;
  fail(op, {.argument = std::string(argument),
            .expected = "a finite number",
            .found = fmt::format("{}", value)});
}

void require_between(std::string_view op, std::string_view argument, double value, double low,
                     double high) {
  if (value >= low && value <= high) return;
  fail(op, {.argument = std::string(argument),
            .expected = fmt::format("{} to {}", low, high),
            .found = fmt::format("{}", value)});
}

void require_classes(std::string_view op, const Tensor& target, int64_t classes,
                     int64_t ignore_index) {
  if (!backend::capabilities(target.device()).is_host_readable) return;
  for (int64_t i = 0; i < target.numel(); ++i) {
    const int64_t value =
        target.dtype() == DType::i64 ? target.data<int64_t>()[i] : target.data<int32_t>()[i];
    if (value == ignore_index || (value >= 0 && value < classes)) continue;
    fail(op, {.argument = "target",
              .expected = fmt::format("classes from 0 to {} or {}", classes - 1, ignore_index),
              .found = fmt::format("{} at element {}", value, i)});
  }
}

void require_device(std::string_view op, std::string_view argument, const Tensor& x,
                    const Tensor& like) {
  require_defined(op, argument, x);
  if (x.device() == like.device()) return;
  fail(op, {.argument = std::string(argument),
            .expected = "a tensor on " + to_string(like.device()),
            .found = describe(x),
            .hint = "move it with to(x, device)"});
}

SavedInput::SavedInput(const Tensor& input, const Tensor& matrix)
    : shape_(matrix.shape()), strides_(matrix.strides()) {
  // The input's op would not compute a copy in another order again.
  const bool is_view = matrix.storage() == input.storage();
  if (is_view && input.autograd_meta() != nullptr)
    recompute_ = input.autograd_meta()->recompute.lock();
  if (recompute_ == nullptr || recompute_->keeps_result) kept_ = Saved(matrix);
}

Tensor SavedInput::get(const GradSlot& slot) const {
  if (recompute_ == nullptr || recompute_->keeps_result) return kept_;
  const autograd::AutogradMeta* meta = slot.meta().get();
  const bool complete = meta != nullptr && gets_whole_gradient(*meta);
  const Tensor result = recompute_->compute(
      complete ? meta->node->gradients[static_cast<size_t>(meta->output)] : Tensor());
  return matrix_of(result);
}

Tensor SavedInput::get_from_matmul(const GradSlot& slot, const Tensor& a, const Tensor& b) const {
  const autograd::AutogradMeta* meta = slot.meta().get();
  if (recompute_ == nullptr || meta == nullptr || !gets_whole_gradient(*meta) ||
      meta->retains_grad || meta->dtype != a.dtype())
    return {};
  // A walk towards given tensors, which keeps the graph, may return this gradient.
  if (!autograd::releases_graph() || autograd::op_observer() != nullptr ||
      autograd::detects_anomalies() ||
      meta->node->gradients[static_cast<size_t>(meta->output)].defined())
    return {};
  const Tensor gradient = Tensor::empty(meta->shape, meta->dtype, meta->device);
  const Tensor kept = recompute_->keeps_result ? kept_.get() : Tensor();
  const Tensor result = recompute_->compute_from_matmul(a, b, gradient, kept);
  if (!result.defined()) return {};
  slot.add(gradient);
  return matrix_of(result);
}

Tensor overwritten_or_new(const Tensor& saved) {
  if (!autograd::releases_graph() || !saved.is_sole_owner()) return Tensor::empty_like(saved);
  saved.bump_version();  // reading it as a saved tensor is an error from now on
  return saved;
}

void offer_recompute(const Tensor& result,
                     const std::shared_ptr<autograd::ResultRecompute>& recompute) {
  if (result.autograd_meta() != nullptr) result.autograd_meta()->recompute = recompute;
}

void offer_gradient_sums(const Tensor& result,
                         const std::shared_ptr<autograd::GradientSums>& sums) {
  if (result.autograd_meta() != nullptr) result.autograd_meta()->gradient_sums = sums;
}

std::shared_ptr<autograd::GradientSums> gradient_sums(const GradSlot& slot, DType dtype) {
  if (!slot.needs_grad() || slot.dtype() != dtype || !gets_whole_gradient(*slot.meta()))
    return nullptr;
  return slot.meta()->gradient_sums.lock();
}

void mark_kept(const Tensor& result) {
  if (result.autograd_meta() != nullptr) result.autograd_meta()->is_kept = true;
}

bool is_kept(const Tensor& x) { return x.autograd_meta() != nullptr && x.autograd_meta()->is_kept; }

Tensor dense(const Tensor& x) {
  if (!x.defined() || x.is_dense()) return x;
  Tensor copy = Tensor::empty(x.shape(), x.dtype(), x.device());
  backend::of(x).elementwise.copy(x, copy);
  return copy;
}

MemoryFormat native_format(const Tensor& x) {
  const bool is_image = x.rank() >= 4;
  return is_image && is_channels_last(x) && backend::of(x).channels_last
             ? MemoryFormat::channels_last
             : MemoryFormat::row_major;
}

Tensor in_format(const Tensor& x, MemoryFormat format) {
  if (!x.defined() || is_in(format, x)) return x;
  Tensor copy = empty(x.shape(), x.dtype(), x.device(), format);
  backend::of(x).elementwise.copy(x, copy);
  return copy;
}

Tensor viewed(const Tensor& x, const Shape& shape, MemoryFormat format) {
  return x.strided(shape, strides_in(format, shape), x.offset());
}

Tensor converted(const Tensor& x, DType dtype) {
  if (!x.defined() || x.dtype() == dtype) return x;
  Tensor copy = empty(x.shape(), dtype, x.device(), memory_format(x));
  backend::of(x).elementwise.copy(x, copy);
  amp::trace_cast(x, copy);
  return copy;
}

Tensor viewed(const Tensor& x, const Shape& shape) {
  return x.strided(shape, dense_strides(shape), x.offset());
}

backend::Target target_of(const GradSlot& slot) {
  if (!slot.needs_grad()) return {};
  const auto [buffer, accumulate] = slot.target();
  return {.view = buffer, .accumulate = accumulate};
}

backend::Target target_of(const GradSlot& slot, const Shape& shape) {
  if (!slot.needs_grad()) return {};
  const auto [buffer, accumulate] = slot.target();
  return {.view = viewed(buffer, shape), .accumulate = accumulate};
}

void add_reduced(const GradSlot& slot, const Tensor& gradient) {
  if (!slot.needs_grad()) return;
  if (gradient.shape() == slot.shape()) {
    slot.add(gradient);
    return;
  }
  Shape kept = slot.shape();  // with leading ones, so that ranks agree
  while (kept.rank() < gradient.rank()) kept.insert(0, 1);
  backend::of(gradient).reduce.reduce(backend::Reduction::sum, gradient, target_of(slot, kept));
}

Tensor activation_gradient(Activation activation, const Tensor& dy, const Tensor& pre,
                           const GradSlot& bias) {
  const Tensor dpre = Tensor::empty_like(dy);
  backend::of(dy).activation.activation_backward({.activation = activation,
                                                  .dy = dy,
                                                  .pre_activation = pre,
                                                  .dx = dpre,
                                                  .dbias = target_of(bias)});
  return dpre;
}

Shape batch_of(const Tensor& x) {
  Shape batch = x.shape();
  batch.erase(batch.rank() - 1);
  batch.erase(batch.rank() - 1);
  return batch;
}

Rows rows_of(const Shape& shape, int axes) {
  Rows result{1, 1};
  for (int axis = 0; axis < shape.rank(); ++axis) {
    (axis < shape.rank() - axes ? result.rows : result.width) *= shape[axis];
  }
  return result;
}

}  // namespace binade::ops
