#include "binade/autograd/recompute.h"

#include "binade/base/execution.h"

namespace binade::autograd {
namespace {

// Of the pass that runs on the thread, not of the work: the backward of an op whose forward was
// recomputed is not a repetition.
constinit execution::Slot<bool> thread_recomputing(execution::Belongs::to_thread);

}  // namespace

bool recomputing() { return *thread_recomputing; }

RecomputeScope::RecomputeScope() : scope_(*thread_recomputing, true) {}

}  // namespace binade::autograd
