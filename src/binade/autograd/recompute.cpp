#include "binade/autograd/recompute.h"

#include <utility>

namespace binade::autograd {
namespace {

thread_local bool active = false;

}  // namespace

bool recomputing() { return active; }

RecomputeScope::RecomputeScope() : previous_(std::exchange(active, true)) {}
RecomputeScope::~RecomputeScope() { active = previous_; }

}  // namespace binade::autograd
