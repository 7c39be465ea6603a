#include "binade/autograd/op_observer.h"

namespace binade::autograd {
namespace {

thread_local OpObserver* thread_observer = nullptr;

}  // namespace

OpObserver* op_observer() { return thread_observer; }

OpObserverScope::OpObserverScope(OpObserver* observer) : scope_(thread_observer, observer) {}

}  // namespace binade::autograd
