#include "binade/backend/async_copy.h"

#ifdef BINADE_CUDA
#include "binade/backend/cuda/transfer.h"
#endif

namespace binade::backend {

struct AsyncCopy::State {
  Tensor host;
#ifdef BINADE_CUDA
  cuda::AsyncDownload download;
#endif
};

AsyncCopy::AsyncCopy(const Tensor& x) : state_(std::make_shared<State>()) {
#ifdef BINADE_CUDA
  if (x.device().is_cuda()) {
    state_->download = cuda::AsyncDownload(x);
    return;
  }
#endif
  state_->host = x;
}

Tensor AsyncCopy::get() const {
#ifdef BINADE_CUDA
  if (state_->download.defined()) return state_->download.wait();
#endif
  return state_->host;
}

}  // namespace binade::backend
