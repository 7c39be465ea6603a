#include <algorithm>
#include <array>
#include <mutex>

#include "binade/autograd/grad_mode.h"
#include "binade/autograd/node.h"
#include "binade/backend/backend.h"

// Views and recorded writes. A tensor and the views that ops make of it share a History: the graph
// of the tensor that owns the memory, the base. A recorded write into a view makes the base the
// result of a new op, which puts the values in place of the old ones; every other view finds the
// history newer than its own graph when it is asked for it, and becomes a view of that result.
namespace binade {
namespace autograd {

struct History {
  // Where the base's elements are in the storage.
  Shape shape;
  Strides strides;
  int64_t offset = 0;

  std::shared_ptr<AutogradMeta> meta;  // the base's
  uint64_t writes = 0;                 // that were recorded
};

namespace {

std::mutex history_mutex;  // views of one tensor may be made on several threads

// The elements of a view, counted from the first of its base in memory.
struct Region {
  Shape shape;
  Strides strides;
  int64_t offset = 0;

  Tensor in(const Tensor& memory) const { return memory.strided(shape, strides, offset); }
};

// A base with memory of its own, in the order of the storage, for gradients.
struct Layout {
  Region base;
  Region view;
  int64_t elements = 1;  // from the first to the last of the base in memory

  Layout(const History& history, const Tensor& x) {
    int64_t first = history.offset;
    for (int axis = 0; axis < history.shape.rank(); ++axis) {
      const int64_t reach = (history.shape[axis] - 1) * history.strides[axis];
      (reach < 0 ? first : elements) += reach;
      if (reach < 0) elements -= reach;
    }
    elements = std::max<int64_t>(elements, 0);
    base = {history.shape, history.strides, history.offset - first};
    view = {x.shape(), x.strides(), x.offset() - first};
  }

  Tensor memory(const Tensor& like) const {
    return Tensor::empty({elements}, like.dtype(), like.device());
  }
};

void fill(const Tensor& x, double value) { backend::of(x).elementwise.fill(x, value); }
void copy(const Tensor& from, const Tensor& to) { backend::of(to).elementwise.copy(from, to); }

// A gradient of a view summed over the axes along which the view repeats its elements, which it
// then has once.
Tensor summed_repeats(const Tensor& dy, Region& view) {
  for (int axis = 0; axis < view.shape.rank(); ++axis) {
    if (view.strides[axis] == 0 && view.shape[axis] > 1) view.shape[axis] = 1;
  }
  if (view.shape == dy.shape()) return dy;
  const Tensor sums = Tensor::empty(view.shape, dy.dtype(), dy.device());
  backend::of(dy).reduce.reduce(backend::Reduction::sum, dy, {.view = sums, .accumulate = false});
  return sums;
}

// The history's base as a tensor with its graph.
Tensor base_of(const History& history, const Tensor& x) {
  Tensor base = x.strided(history.shape, history.strides, history.offset);
  base.set_autograd_meta(history.meta);
  return base;
}

// The graph of x as a view of the base.
std::shared_ptr<AutogradMeta> view_meta(const History& history, const Tensor& x) {
  const EnableGrad enable;
  const Tensor base = base_of(history, x), view = x.detach();
  record(Op::slice, {&base, 1}, {&view, 1},
         [layout = Layout(history, x)](std::span<const Tensor> dy, GradSlots dx) {
           Region part = layout.view;
           const Tensor sums = summed_repeats(dy[0], part);
           const Tensor memory = layout.memory(dy[0]);
           fill(memory, 0);
           copy(sums, part.in(memory));
           dx[0].add(layout.base.in(memory));
         });
  return view.autograd_meta();
}

// The graph of the base once the elements of x are `values`; null if it has none.
std::shared_ptr<AutogradMeta> written_meta(const History& history, const Tensor& x,
                                           const Tensor& values) {
  const Tensor inputs[] = {base_of(history, x), values};
  const Tensor written = x.strided(history.shape, history.strides, history.offset);
  record(Op::index_put, inputs, {&written, 1},
         [layout = Layout(history, x)](std::span<const Tensor> dy, GradSlots dx) {
           const Tensor memory = layout.memory(dy[0]);
           copy(dy[0], layout.base.in(memory));
           const Tensor part = layout.view.in(memory);
           if (dx[1].needs_grad()) {
             const Tensor values = Tensor::empty(part.shape(), part.dtype(), part.device());
             copy(part, values);
             dx[1].add(values);
           }
           if (!dx[0].needs_grad()) return;
           fill(part, 0);
           dx[0].add(layout.base.in(memory));
         });
  return written.autograd_meta();
}

[[noreturn]] void refuse_write(const char* op, const Tensor& x, const char* what,
                               const char* hint) {
  fail(op, {.argument = "x", .expected = what, .found = describe(x), .hint = hint});
}

}  // namespace
}  // namespace autograd

void Tensor::set_view_of(const Tensor& x) const {
  if (storage() != x.storage() || same_as(x) || !is_compute(dtype())) return;
  Impl& base = x.impl();
  {
    const std::scoped_lock lock(autograd::history_mutex);
    if (base.history == nullptr) {
      base.history = std::make_shared<autograd::History>(
          autograd::History{base.shape, base.strides, base.offset, base.autograd});
      base.has_history.store(true, std::memory_order_release);
    }
  }
  Impl& view = impl();
  view.history = base.history;
  view.writes_seen = base.history->writes;
  view.is_view = true;
  view.is_recorded_view = autograd::grad_enabled() && (!base.is_view || base.is_recorded_view);
  view.has_history.store(true, std::memory_order_release);
}

void Tensor::follow_history() const {
  Impl& own = impl();
  const autograd::History& history = *own.history;
  if (own.writes_seen == history.writes) return;
  own.writes_seen = history.writes;
  if (!own.is_view) own.autograd = history.meta;
  if (own.is_recorded_view) own.autograd = autograd::view_meta(history, *this);
}

// A leaf of its own from now on, if it was a view.
void Tensor::note_history() const {
  Impl& own = impl();
  if (!own.is_view) {
    own.history->meta = own.autograd;
    return;
  }
  own.has_history.store(false);
  own.history = nullptr;
  own.is_view = own.is_recorded_view = false;
}

void Tensor::set_data(const Tensor& values) const {
  if (!is_leaf())
    fail("set_data", {.argument = "x", .expected = "a leaf", .found = describe(*this)});
  const bool requires_gradient = requires_grad();
  Impl& own = impl();
  const Impl& other = values.impl();
  const bool is_alike =
      shape() == values.shape() && dtype() == values.dtype() && device() == values.device();
  const std::shared_ptr<autograd::AutogradMeta> meta = is_alike ? autograd_meta() : nullptr;
  own.storage = other.storage;
  own.offset = other.offset;
  own.shape = other.shape;
  own.strides = other.strides;
  own.dtype = other.dtype;
  own.autograd = meta;
  own.has_history.store(false);
  own.history = nullptr;
  own.writes_seen = 0;
  own.is_view = own.is_recorded_view = false;
  if (requires_gradient && !is_alike) Tensor(*this).set_requires_grad();
}

void Tensor::require_writable_graph(const char* op, bool records) const {
  if (!autograd::grad_enabled()) return;
  constexpr auto hint = "change it under NoGrad, or compute a new tensor";
  if (requires_grad() && is_leaf())
    autograd::refuse_write(op, *this, "no leaf that requires a gradient", hint);
  if (!impl().is_view) return;
  const auto& base = impl().history->meta;
  if (base != nullptr && base->node == nullptr && base->requires_grad)
    autograd::refuse_write(op, *this, "no view of a leaf that requires a gradient", hint);
  if (!impl().is_recorded_view && (records || base != nullptr)) {
    autograd::refuse_write(op, *this, "no view that was made under NoGrad",
                           "make the view outside of NoGrad, or write under NoGrad");
  }
}

void Tensor::record_write(const Tensor& values, bool from_self) const {
  if (!autograd::recording(std::array{*this, values})) return;
  if (impl().is_view) {
    autograd::History& history = *impl().history;
    history.meta = autograd::written_meta(history, *this, values);
    ++history.writes;
    return;
  }
  std::shared_ptr<autograd::AutogradMeta> meta = values.autograd_meta();
  if (!from_self && requires_grad()) {
    // What was here before gets a gradient of zero.
    const autograd::History whole{shape(), strides(), offset(), autograd_meta()};
    meta = autograd::written_meta(whole, *this, values);
  }
  impl().autograd = std::move(meta);
  if (impl().history == nullptr) return;
  impl().history->meta = impl().autograd;
  impl().writes_seen = ++impl().history->writes;
}

}  // namespace binade
