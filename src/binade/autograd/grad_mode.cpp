#include "binade/autograd/grad_mode.h"

#include "binade/base/execution.h"

namespace binade::autograd {
namespace {

// Of the work: what was to be recorded is recorded when it is repeated.
constinit execution::Slot<bool> thread_grad_enabled(execution::Belongs::to_work,
                                                    [] { return true; });

}  // namespace

bool grad_enabled() { return *thread_grad_enabled; }

void set_grad_enabled(bool enabled) { *thread_grad_enabled = enabled; }

GradMode::GradMode(bool enabled) : scope_(*thread_grad_enabled, enabled) {}

}  // namespace binade::autograd
