#include "binade/autograd/cast_observer.h"

namespace binade::autograd {
namespace {

thread_local CastObserver thread_cast_observer = nullptr;

}  // namespace

CastObserverScope::CastObserverScope(CastObserver observer)
    : scope_(thread_cast_observer, observer) {}

void observe_cast(const Tensor& from, const Tensor& to) {
  if (thread_cast_observer != nullptr && from.dtype() != to.dtype()) thread_cast_observer(from, to);
}

}  // namespace binade::autograd
