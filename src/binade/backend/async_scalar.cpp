#include "binade/backend/async_scalar.h"

#ifdef BINADE_CUDA
#include "binade/backend/cuda/device.h"
#include "binade/backend/cuda/transfer.h"
#endif

namespace binade::backend {

struct AsyncScalar::State {
  double value = 0;
  Tensor source;  // if captured: the tensor each replay writes
#ifdef BINADE_CUDA
  cuda::AsyncReadback readback;
#endif
};

AsyncScalar::AsyncScalar(const Tensor& scalar) : state_(std::make_shared<State>()) {
#ifdef BINADE_CUDA
  if (scalar.device().is_cuda()) {
    cuda::activate(scalar.device());
    if (cuda::is_capturing()) {
      state_->source = scalar;
    } else {
      state_->readback = cuda::AsyncReadback(scalar);
    }
    return;
  }
#endif
  state_->value = scalar.item();
}

bool AsyncScalar::captured() const { return state_ != nullptr && state_->source.defined(); }

AsyncScalar AsyncScalar::replayed() const {
  return captured() ? AsyncScalar(state_->source) : *this;
}

double AsyncScalar::get() const {
  if (captured()) {
    fail("async_scalar", {.argument = "scalar",
                          .expected = "a value from a graph's replay",
                          .found = "a value from its capture",
                          .hint = "call replayed() after each replay"});
  }
#ifdef BINADE_CUDA
  if (state_->readback.defined()) return state_->readback.wait();
#endif
  return state_->value;
}

}  // namespace binade::backend
