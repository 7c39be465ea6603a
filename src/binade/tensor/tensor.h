#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "binade/tensor/arguments.h"
#include "binade/tensor/device.h"
#include "binade/tensor/dtype.h"
#include "binade/tensor/memory.h"
#include "binade/tensor/op_list.h"
#include "binade/tensor/shape.h"
#include "binade/tensor/storage.h"

namespace binade {

namespace autograd {
struct AutogradMeta;  // autograd/autograd_meta.h
struct History;       // autograd/history.cpp
}  // namespace autograd

// What methods take and return besides tensor/arguments.h: ops/elementwise/arithmetic.h,
// ops/reduce/reduce.h, ops/shape/shape.h, ops/index/sort.h.
class Scalar;
class Extremum;
struct Sorted;
class TensorOptions;  // ops/create/options.h
template <class T, size_t rank>
class TensorAccessor;  // ops/create/options.h
struct Slice;
struct NoneEntry;
struct EllipsisEntry;
class Tensor;
class IndexEntry;  // ops/shape/shape.h

// Whether a backward pass keeps the graph's saved tensors, so that it can run again.
enum class RetainGraph : bool { no, yes };

// A non-owning view of a tensor for kernels: address, type, sizes and strides (in elements). A
// default-constructed view stands for an absent optional argument.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  Strides strides;
  bool present = false;

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  int rank() const { return shape.rank(); }
  int64_t numel() const { return shape.numel(); }
  bool is_dense() const;
  // The view broadcast to `wider` with zero strides.
  TensorView expanded(const Shape& wider) const;
};

// A handle to a typed, strided view of a storage. Copies share the data. A default-constructed
// handle is undefined and stands for an absent optional tensor.
class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  ~Tensor() = default;
  // A handle refers to another tensor from then on.
  Tensor& operator=(const Tensor& other) & = default;
  Tensor& operator=(Tensor&& other) & = default;
  // A temporary, such as x[0] = y or x[1][2] = 4, writes into its elements, as in LibTorch: copy_()
  // and fill_(). Defined in ops/create/copy.cpp.
  Tensor& operator=(const Tensor& values) &&;
  Tensor& operator=(double value) &&;

  // An uninitialized dense tensor, counted under the thread's memory category.
  static Tensor empty(const Shape& shape, DType dtype, Device device = Device::cpu());
  // An uninitialized tensor with another tensor's shape, type and device.
  static Tensor empty_like(const Tensor& other) {
    return empty(other.shape(), other.dtype(), other.device());
  }

  // A view of a whole storage, such as memory of another library.
  static Tensor of_storage(std::shared_ptr<Storage> storage, const Shape& shape,
                           const Strides& strides, DType dtype);

  bool defined() const { return impl_ != nullptr; }

  // All accessors below fail if the tensor is undefined, unless they say otherwise.
  const Shape& shape() const { return impl().shape; }
  int64_t size(int64_t axis) const;
  const Strides& strides() const { return impl().strides; }
  int rank() const { return impl().shape.rank(); }
  int64_t numel() const { return impl().shape.numel(); }
  DType dtype() const { return impl().dtype; }
  Device device() const { return impl().storage->device(); }
  int64_t bytes() const { return numel() * static_cast<int64_t>(size_of(dtype())); }
  int64_t offset() const { return impl().offset; }
  const std::shared_ptr<Storage>& storage() const { return impl().storage; }

  // Whether elements are in row-major order without gaps.
  bool is_dense() const;
  // Whether both handles refer to the same tensor.
  bool same_as(const Tensor& other) const { return impl_ == other.impl_; }
  // Whether no other handle or view reaches this data, so that it may be overwritten.
  bool is_sole_owner() const {
    return impl_.use_count() == 1 && impl().storage.use_count() == 1 &&
           !impl().storage->is_foreign();
  }

  // Another view of the same storage; `offset` counts elements from the storage's start. Fails if
  // the view reaches outside of the storage. The view is not connected to the graph: differentiable
  // views are ops.
  Tensor strided(const Shape& shape, const Strides& strides, int64_t offset) const;
  // This tensor's elements without the graph; undefined if this tensor is.
  Tensor detach() const { return defined() ? strided(shape(), strides(), offset()) : Tensor(); }

  // The address of the first element, for reading. Fails unless the tensor is on the CPU and has
  // type T.
  template <class T>
  const T* data() const {
    check_access(dtype_of<T>);
    return static_cast<const T*>(raw_data());
  }
  // data() for writing. Counts as a write, so that casts and quantized data derived from the old
  // values are not used again. Call it anew before writing after an op has read the tensor.
  template <class T>
  T* mutable_data() const {
    check_access(dtype_of<T>);
    bump_version();
    return static_cast<T*>(raw_data());
  }
  // For kernels and file readers: no checks, and writes are not counted. Null if there is no data
  // (meta device, no elements).
  void* raw_data() const;

  // The view kernels take; an undefined tensor becomes an absent view.
  operator TensorView() const;  // NOLINT: implicit, so that op code reads as a plain call

  // The value of a one-element tensor; 0 on the meta device. Defined in backend/transfer.cpp.
  double item() const;

  // --- names of LibTorch ---

  const Shape& sizes() const { return shape(); }
  int64_t dim() const { return rank(); }
  bool is_contiguous() const { return is_dense(); }
  DType scalar_type() const { return dtype(); }
  bool is_floating_point() const { return is_floating(dtype()); }
  bool is_cuda() const { return device().is_cuda(); }
  int64_t ndimension() const { return rank(); }
  int64_t stride(int64_t axis) const { return strides()[normalize_axis("stride", axis, rank())]; }
  int64_t storage_offset() const { return offset(); }
  bool is_same(const Tensor& other) const { return same_as(other); }
  int64_t element_size() const { return static_cast<int64_t>(size_of(dtype())); }
  int64_t itemsize() const { return element_size(); }
  int64_t nbytes() const { return bytes(); }
  static bool is_complex() { return false; }
  static bool is_sparse() { return false; }
  int64_t get_device() const { return is_cuda() ? device().index : -1; }
  uint64_t _version() const { return version(); }
  template <class T>
  T item() const {
    return static_cast<T>(item());
  }
  // mutable_data(): counts as a write, also if the caller only reads.
  template <class T>
  T* data_ptr() const {
    return mutable_data<T>();
  }
  template <class T>
  const T* const_data_ptr() const {
    return data<T>();
  }
  // Elements of a CPU tensor by index: x.accessor<float, 2>()[i][j]. Counts as a write.
  template <class T, size_t rank>
  TensorAccessor<T, rank> accessor() const {
    return TensorAccessor<T, rank>::of(*this);
  }
  // This tensor's elements without the graph. Writes into them are not recorded.
  Tensor data() const { return detach(); }
  TensorOptions options() const;
  Tensor new_zeros(const Shape& shape) const;
  Tensor new_zeros(const Shape& shape, const TensorOptions& options) const;
  Tensor new_ones(const Shape& shape) const;
  Tensor new_ones(const Shape& shape, const TensorOptions& options) const;
  Tensor new_full(const Shape& shape, double value) const;
  std::vector<Tensor> split_with_sizes(const std::vector<int64_t>& sizes, int64_t axis = 0) const;
  Tensor toType(DType dtype) const { return to(dtype); }
  Tensor cpu() const;
  Tensor to(const TensorOptions& options) const;
  Tensor to(const Tensor& like) const;  // its type and device
  Tensor type_as(const Tensor& like) const { return to(like); }
  const Tensor& requires_grad_(bool value = true) const {
    Tensor(*this).set_requires_grad(value);
    return *this;
  }
  Tensor to(DType dtype, bool non_blocking, bool copy = false) const {
    static_cast<void>(non_blocking);  // copies to the CPU wait
    return copy && dtype == this->dtype() ? clone() : to(dtype);
  }
  Tensor to(Device device, bool non_blocking) const {
    static_cast<void>(non_blocking);
    return to(device);
  }
  const Tensor& copy_(const Tensor& source, bool non_blocking) const {
    static_cast<void>(non_blocking);
    return copy_(source);
  }
  // A flag alone is `unbiased`. Templates, since x.std(1) would prefer a bool to axes.
  template <std::same_as<bool> Flag>
  Tensor std(Flag unbiased) const {
    return std(Axes(), unbiased);
  }
  template <std::same_as<bool> Flag>
  Tensor var(Flag unbiased) const {
    return var(Axes(), unbiased);
  }
  Tensor max(const Tensor& other) const { return maximum(other); }
  Tensor min(const Tensor& other) const { return minimum(other); }
  Tensor masked_fill(const Tensor& mask, const Tensor& value) const {
    return value.to(dtype()).where(mask, *this);
  }
  Tensor clamp(double low) const { return clamp_min(low); }
  Tensor clamp(std::nullopt_t, double high) const { return clamp_max(high); }
  // One axis for itself. Templates, so that {} stays an empty list.
  template <std::integral Int>
  Tensor flip(Int axis) const {
    return flip(std::vector<int64_t>{axis});
  }
  template <std::integral Int>
  Tensor roll(Int shift) const {
    return roll(std::vector<int64_t>{shift});
  }
  template <std::integral Int>
  Tensor roll(Int shift, Int axis) const {
    return roll(std::vector<int64_t>{shift}, {axis});
  }
  std::vector<Tensor> split(const std::vector<int64_t>& sizes, int64_t axis = 0) const {
    return split_with_sizes(sizes, axis);
  }
  Tensor mT() const { return transpose(-2, -1); }
  Tensor swapdims(int64_t a, int64_t b) const { return transpose(a, b); }
  // autograd::on_gradient(). A hook returns nothing or what replaces the gradient.
  template <class F>
  void register_hook(F hook) const {
    if constexpr (std::is_void_v<std::invoke_result_t<F, const Tensor&>>) {
      add_hook([hook = std::move(hook)](const Tensor& gradient) mutable {
        hook(gradient);
        return Tensor();
      });
    } else {
      add_hook(std::move(hook));
    }
  }

  // --- ops as methods: those of tensor/ops.def, which are x.exp() or x.exp_(), and others ---

// clang-format off
#define BINADE_FORM_function(result, name, ...)
#define BINADE_FORM_method(result, name, ...) \
  result name(BINADE_LIST(BINADE_DECLARED, __VA_ARGS__)) const;
#define BINADE_FORM_in_place(result, name, ...) \
  BINADE_FORM_method(result, name, __VA_ARGS__) \
  const Tensor& name##_(BINADE_LIST(BINADE_DECLARED, __VA_ARGS__)) const;
#include "binade/tensor/op_methods.def"
// clang-format on
#define METHOD(result, name, parameters, arguments) result name parameters const;
#define WRITE(name, parameters, expression) const Tensor& name parameters const;
#include "binade/tensor/libtorch_methods.def"
#include "binade/tensor/methods.def"
#undef METHOD
#undef WRITE

  // x[i] is select(x, 0, i): a differentiable view without the first axis. Negative indices count
  // from the back. Defined in ops/shape/shape.cpp.
  Tensor operator[](int64_t index) const;

  // Gives this tensor and all handles to it the memory, shape, type and device of `values`, outside
  // of the graph. A leaf stays one and keeps requires_grad(); its gradient and hooks are kept if
  // shape, type and device are, else dropped. Views made before keep the old memory.
  void set_data(const Tensor& values) const;

  // Number of writes since creation, shared by all views.
  uint64_t version() const { return storage()->version(); }
  void bump_version() const { storage()->bump_version(); }

  // --- autograd: defined in autograd/autograd_meta.cpp ---

  // Whether backward() reaches this tensor.
  bool requires_grad() const;
  // Makes a leaf accumulate a gradient (f64, f32, f16 and bf16 only).
  Tensor& set_requires_grad(bool value = true);
  // Whether this tensor was created by the user rather than by a recorded op.
  bool is_leaf() const;
  // The accumulated gradient of a leaf, or of a result after retain_grad(); undefined if there is
  // none.
  Tensor grad() const;
  // Makes the result of an op keep its gradient in the next backwards. Leaves do anyway.
  void retain_grad() const;
  // Drops the gradient and its memory, as PyTorch's zero_grad(set_to_none=True).
  void zero_grad() const;
  // Replaces the gradient (same shape).
  void set_grad(const Tensor& grad) const;
  // The type of the accumulated gradient: f32 for 16-bit leaves by default.
  DType grad_dtype() const;
  void set_grad_dtype(DType dtype) const;
  // Adds d(this)/d(leaf) to the gradient of every leaf. `seed` is the gradient of this tensor; it
  // may be undefined if this tensor has one element.
  void backward(const Tensor& seed = {}, RetainGraph retain = RetainGraph::no) const;

  void backward(const Tensor& seed, bool retain_graph) const {
    backward(seed, retain_graph ? RetainGraph::yes : RetainGraph::no);
  }

  const std::shared_ptr<autograd::AutogradMeta>& autograd_meta() const {
    if (impl().has_history.load(std::memory_order_acquire)) follow_history();
    return impl().autograd;
  }
  void set_autograd_meta(std::shared_ptr<autograd::AutogradMeta> meta) const {
    impl().autograd = std::move(meta);
    if (impl().has_history.load(std::memory_order_acquire)) note_history();
  }

  // --- views and recorded writes, for ops: defined in autograd/history.cpp ---

  // Notes that this tensor, which an op made, views memory of x: writes into one are then part of
  // the other's graph. Does nothing if their memory differs.
  void set_view_of(const Tensor& x) const;
  // Fails, naming the op, if its write into this tensor, which `records` a gradient or not, would
  // leave a graph wrong: leaves that require one, views of such leaves, views made under NoGrad.
  void require_writable_graph(const char* op, bool records) const;
  // After a write that made this tensor's elements those of `values`, which has its shape and type:
  // gives it and all that shares its memory through views the graph of `values`. `from_self` says
  // that the values were computed from this tensor.
  void record_write(const Tensor& values, bool from_self) const;

 private:
  struct Impl {
    std::shared_ptr<Storage> storage;
    int64_t offset = 0;
    Shape shape;
    Strides strides;
    DType dtype = DType::f32;
    std::shared_ptr<autograd::AutogradMeta> autograd;

    // Set once, when a view is made: of the view and of what it views.
    std::shared_ptr<autograd::History> history;
    std::atomic<bool> has_history = false;
    uint64_t writes_seen = 0;       // the history's writes that `autograd` includes
    bool is_view = false;           // of the tensor that the history is about
    bool is_recorded_view = false;  // made while gradients were recorded
  };

  explicit Tensor(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  Impl& impl() const {
    if (impl_ == nullptr) refuse_undefined();
    return *impl_;
  }
  [[noreturn]] static void refuse_undefined();
  void add_hook(std::function<Tensor(const Tensor&)> hook) const;
  void follow_history() const;
  void note_history() const;
  void check_access(DType requested) const;

  std::shared_ptr<Impl> impl_;
};

// "[2, 3] bf16 cpu", or "undefined"; for messages.
std::string describe(const Tensor& tensor);

}  // namespace binade
