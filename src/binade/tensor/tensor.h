#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "binade/tensor/device.h"
#include "binade/tensor/dtype.h"
#include "binade/tensor/memory.h"
#include "binade/tensor/shape.h"
#include "binade/tensor/storage.h"

namespace binade {

namespace autograd {
struct Meta;  // what autograd knows of a tensor; see autograd/meta.h
}

// What kernels see of a tensor: an address, a type, sizes and strides (in elements). Owns nothing.
// An absent optional argument is a default-constructed view.
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
  // The same elements repeated (stride 0) to `wider`, which this shape must broadcast to.
  TensorView expanded(const Shape& wider) const;
};

// A handle to a typed, strided view of a storage. Copies share the data. A default-constructed
// handle is undefined: it stands for "no tensor" where one is optional.
class Tensor {
 public:
  Tensor() = default;

  // An uninitialised dense tensor, booked under the thread's memory category.
  static Tensor empty(const Shape& shape, DType dtype, Device device = Device::cpu());
  // The same, of another tensor's shape, type and device.
  static Tensor empty_like(const Tensor& other) {
    return empty(other.shape(), other.dtype(), other.device());
  }

  bool defined() const { return impl_ != nullptr; }
  explicit operator bool() const { return defined(); }

  const Shape& shape() const { return impl_->shape; }
  int64_t size(int64_t axis) const;
  const Strides& strides() const { return impl_->strides; }
  int rank() const { return impl_->shape.rank(); }
  int64_t numel() const { return impl_->shape.numel(); }
  DType dtype() const { return impl_->dtype; }
  Device device() const { return impl_->storage->device(); }
  int64_t bytes() const { return numel() * static_cast<int64_t>(size_of(dtype())); }
  int64_t offset() const { return impl_->offset; }
  const std::shared_ptr<Storage>& storage() const { return impl_->storage; }

  // Row-major without gaps.
  bool is_dense() const;
  // True when both handles are the same tensor (not merely equal).
  bool same_as(const Tensor& other) const { return impl_ == other.impl_; }
  // True when no other handle or view reaches this data, so that it may be overwritten.
  bool is_sole_owner() const { return impl_.use_count() == 1 && impl_->storage.use_count() == 1; }

  // Another view of the same storage; `offset` counts elements from the storage's start. No
  // gradient flows through it: differentiable views are ops.
  Tensor strided(const Shape& shape, const Strides& strides, int64_t offset) const;
  // The same elements seen without autograd.
  Tensor detach() const { return defined() ? strided(shape(), strides(), offset()) : Tensor(); }

  // The address of the first element, on the host, checked against T.
  template <class T>
  T* data() const {
    check_access(dtype_of<T>);
    return reinterpret_cast<T*>(raw_data());
  }
  // The same without a type; null where there is no data (meta, empty).
  void* raw_data() const;

  // For kernels; undefined tensors become absent views.
  operator TensorView() const;  // NOLINT: implicit, so that op code reads as a plain call

  // The value of a tensor with one element, from any device; 0 on the meta device.
  // (backend/transfer.cpp)
  double item() const;

  // Writes since creation, shared by all views.
  uint64_t version() const { return storage()->version(); }
  void bump_version() const { storage()->bump_version(); }

  // --- autograd (autograd/variable.cpp) ---

  // Whether backward() reaches this tensor.
  bool requires_grad() const;
  // Makes a leaf collect a gradient (floating types only).
  Tensor& set_requires_grad(bool value = true);
  // True for tensors made by the user rather than by a recorded op.
  bool is_leaf() const;
  // The accumulated gradient of a leaf; undefined where there is none.
  Tensor grad() const;
  // Forgets the gradient but keeps its buffer, so that the next backward overwrites it.
  void zero_grad() const;
  // Replaces the gradient (same shape).
  void set_grad(const Tensor& grad) const;
  // The type gradients are kept in: f32 for 16-bit leaves unless asked otherwise.
  DType grad_dtype() const;
  void set_grad_dtype(DType dtype) const;
  // Adds d(this)/d(leaf) to every leaf's gradient. This tensor has one element, or `seed` gives the
  // gradient to start from. `retain` keeps the graph for another call.
  void backward(const Tensor& seed = {}, bool retain = false) const;

  const std::shared_ptr<autograd::Meta>& autograd_meta() const { return impl_->autograd; }
  void set_autograd_meta(std::shared_ptr<autograd::Meta> meta) const {
    impl_->autograd = std::move(meta);
  }

 private:
  struct Impl {
    std::shared_ptr<Storage> storage;
    int64_t offset = 0;
    Shape shape;
    Strides strides;
    DType dtype = DType::f32;
    std::shared_ptr<autograd::Meta> autograd;
  };

  explicit Tensor(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  void check_access(DType wanted) const;

  std::shared_ptr<Impl> impl_;
};

// "[2, 3] bf16 cpu"; "undefined" for an undefined tensor. For messages.
std::string describe(const Tensor& tensor);

}  // namespace binade
