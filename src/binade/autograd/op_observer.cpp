#include "binade/autograd/op_observer.h"

#include <utility>

namespace binade::autograd {
namespace {

thread_local OpObserver* current = nullptr;

}  // namespace

OpObserver* op_observer() { return current; }

OpObserverScope::OpObserverScope(OpObserver* watch) : previous_(std::exchange(current, watch)) {}
OpObserverScope::~OpObserverScope() { current = previous_; }

}  // namespace binade::autograd
