#pragma once

#include <array>
#include <optional>

#include "binade/tensor/tensor.h"

namespace binade {

// Type, device and whether a new tensor requires a gradient: TensorOptions().dtype(kHalf). A type
// or a device stands for itself. What is not given is the function's default.
class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(DType dtype) : dtype_(dtype) {}      // NOLINT: see above
  TensorOptions(Device device) : device_(device) {}  // NOLINT

  TensorOptions dtype(std::optional<DType> dtype) const {
    TensorOptions changed = *this;
    changed.dtype_ = dtype;
    return changed;
  }
  TensorOptions device(std::optional<Device> device) const {
    TensorOptions changed = *this;
    changed.device_ = device;
    return changed;
  }
  TensorOptions requires_grad(bool value = true) const {
    TensorOptions changed = *this;
    changed.requires_grad_ = value;
    return changed;
  }

  DType dtype() const { return dtype_.value_or(DType::f32); }
  Device device() const { return device_.value_or(Device::cpu()); }
  bool requires_grad() const { return requires_grad_; }
  DType dtype_or(DType other) const { return dtype_.value_or(other); }
  Device device_or(Device other) const { return device_.value_or(other); }
  // x, made to require a gradient if these options say so.
  Tensor applied(Tensor x) const { return requires_grad_ ? x.set_requires_grad() : x; }

 private:
  std::optional<DType> dtype_;
  std::optional<Device> device_;
  bool requires_grad_ = false;
};

[[noreturn]] void refuse_accessor(const Tensor& x, size_t rank);

// Elements of a CPU tensor by index, with its strides and no checks: a[i][j] = 1.
template <class T, size_t rank>
class TensorAccessor {
 public:
  static TensorAccessor of(const Tensor& x) {
    if (x.rank() != static_cast<int>(rank)) refuse_accessor(x, rank);
    return {x.mutable_data<T>(), x.shape().begin(), x.strides().begin()};
  }
  TensorAccessor(T* data, const int64_t* sizes, const int64_t* strides) : data_(data) {
    for (size_t i = 0; i < rank; ++i) sizes_[i] = sizes[i], strides_[i] = strides[i];
  }

  int64_t size(size_t axis) const { return sizes_[axis]; }
  int64_t stride(size_t axis) const { return strides_[axis]; }
  T* data() const { return data_; }
  decltype(auto) operator[](int64_t i) const {
    T* const at = data_ + i * strides_[0];
    if constexpr (rank == 1) {
      return *at;
    } else {
      return TensorAccessor<T, rank - 1>(at, sizes_.data() + 1, strides_.data() + 1);
    }
  }

 private:
  T* data_;
  std::array<int64_t, rank> sizes_, strides_;
};

inline TensorOptions Tensor::options() const { return TensorOptions(dtype()).device(device()); }

Tensor zeros(const Shape& shape, const TensorOptions& options);
Tensor ones(const Shape& shape, const TensorOptions& options);
Tensor full(const Shape& shape, double value, const TensorOptions& options);
Tensor empty(const Shape& shape, const TensorOptions& options = {});
Tensor rand(const Shape& shape, const TensorOptions& options);
Tensor randn(const Shape& shape, const TensorOptions& options);
Tensor eye(int64_t size, const TensorOptions& options);
Tensor linspace(double first, double last, int64_t count, const TensorOptions& options);

}  // namespace binade
