#include "binade/autograd/cast_observer.h"

#include "binade/base/execution.h"

namespace binade::autograd {
namespace {

// Of the thread that is observed: the observer of a forward may be gone when it is repeated.
constinit execution::Slot<CastObserver> thread_cast_observer(execution::Belongs::to_thread);

}  // namespace

CastObserverScope::CastObserverScope(CastObserver observer)
    : scope_(*thread_cast_observer, observer) {}

void observe_cast(const Tensor& from, const Tensor& to) {
  const CastObserver observer = *thread_cast_observer;
  if (observer != nullptr && from.dtype() != to.dtype()) observer(from, to);
}

}  // namespace binade::autograd
