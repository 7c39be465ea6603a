#include "binade/autograd/recompute.h"

namespace binade::autograd {
namespace {

thread_local bool thread_recomputing = false;

}  // namespace

bool recomputing() { return thread_recomputing; }

RecomputeScope::RecomputeScope() : scope_(thread_recomputing, true) {}

}  // namespace binade::autograd
