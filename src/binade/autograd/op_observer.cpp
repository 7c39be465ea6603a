#include "binade/autograd/op_observer.h"

#include "binade/base/execution.h"

namespace binade::autograd {
namespace {

// Of the thread that is observed: the observer of a forward may be gone when it is repeated.
constinit execution::Slot<OpObserver*> thread_observer(execution::Belongs::to_thread);
// Of the thread that runs the op: the name lives as long as its scope.
constinit execution::Slot<std::string_view> thread_custom_op(execution::Belongs::to_thread);

}  // namespace

OpObserver* op_observer() { return *thread_observer; }

OpObserverScope::OpObserverScope(OpObserver* observer) : scope_(*thread_observer, observer) {}

CustomOpScope::CustomOpScope(std::string_view name)
    : scope_(*thread_custom_op, thread_custom_op->empty() ? name : *thread_custom_op) {}

std::string_view custom_op_name() { return *thread_custom_op; }

}  // namespace binade::autograd
