#include "binade/autograd/op_observer.h"

namespace binade::autograd {
namespace {

thread_local OpObserver* thread_observer = nullptr;
thread_local std::string_view thread_custom_op;

}  // namespace

OpObserver* op_observer() { return thread_observer; }

OpObserverScope::OpObserverScope(OpObserver* observer) : scope_(thread_observer, observer) {}

CustomOpScope::CustomOpScope(std::string_view name)
    : scope_(thread_custom_op, thread_custom_op.empty() ? name : thread_custom_op) {}

std::string_view custom_op_name() { return thread_custom_op; }

}  // namespace binade::autograd
