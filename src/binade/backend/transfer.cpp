#include "binade/backend/transfer.h"

#include "binade/backend/backend.h"

#ifdef BINADE_CUDA
#include "binade/backend/cuda/transfer.h"
#endif

namespace binade {

Tensor backend::transfer(const Tensor& x, Device device) {
  if (device.is_meta()) return Tensor::empty(x.shape(), x.dtype(), device);
  if (x.device().is_meta()) {
    fail("to", {.argument = "x", .expected = "a tensor with data", .found = describe(x)});
  }
  of(device);  // fails if this build does not support the device
  of(x.device());
  Tensor copy = Tensor::empty(x.shape(), x.dtype(), device);
  transfer(x, copy);
  return copy;
}

void backend::transfer(const Tensor& x, const Tensor& y) {
#ifdef BINADE_CUDA
  if (x.device() != y.device()) return cuda::transfer(x, y);
#endif
  of(y).elementwise.copy(x, y);
}

double Tensor::item() const {
  if (!defined() || numel() != 1) {
    fail("item", {.argument = "tensor", .expected = "one element", .found = describe(*this)});
  }
  if (device().is_meta()) return 0;
  const Tensor host = device().is_cpu() ? *this : backend::transfer(*this, Device::cpu());
  Tensor value = Tensor::empty({}, DType::f64);
  backend::of(host).elementwise.copy(host.strided({}, {}, host.offset()), value);
  return value.data<double>()[0];
}

}  // namespace binade
