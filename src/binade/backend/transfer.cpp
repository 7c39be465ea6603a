#include "binade/backend/transfer.h"

#include "binade/backend/async_scalar.h"
#include "binade/backend/backend.h"

#ifdef BINADE_CUDA
#include "binade/backend/cuda/device.h"
#include "binade/backend/cuda/transfer.h"
#endif

namespace binade {

Tensor backend::transfer(const Tensor& x, Device device) {
  if (device.is_meta()) return Tensor::empty(x.shape(), x.dtype(), device);
  if (x.device().is_meta()) {
    fail("to", {.argument = "x", .expected = "a tensor with data", .found = describe(x)});
  }
  of(device);  // says so where this build cannot serve the device
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

struct backend::AsyncScalar::State {
  double value = 0;
  Tensor recorded;  // where it was made while a graph was captured: where each launch leaves it
#ifdef BINADE_CUDA
  cuda::AsyncReadback arrival;
#endif
};

backend::AsyncScalar::AsyncScalar(const Tensor& scalar) : state_(std::make_shared<State>()) {
#ifdef BINADE_CUDA
  if (scalar.device().is_cuda()) {
    cuda::activate(scalar.device());
    if (cuda::capturing()) {
      state_->recorded = scalar;
    } else {
      state_->arrival = cuda::AsyncReadback(scalar);
    }
    return;
  }
#endif
  state_->value = scalar.item();
}

bool backend::AsyncScalar::recorded() const {
  return state_ != nullptr && state_->recorded.defined();
}

backend::AsyncScalar backend::AsyncScalar::replayed() const {
  return recorded() ? AsyncScalar(state_->recorded) : *this;
}

double backend::AsyncScalar::get() const {
  if (recorded()) {
    fail("late", {.argument = "number",
                  .expected = "one of a graph's launch",
                  .found = "that of its recording",
                  .hint = "ask replayed() after each launch"});
  }
#ifdef BINADE_CUDA
  if (state_->arrival.defined()) return state_->arrival.wait();
#endif
  return state_->value;
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
