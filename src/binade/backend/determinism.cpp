#include "binade/backend/determinism.h"

#include <cstdlib>
#include <string_view>

#include "binade/base/execution.h"

namespace binade::backend {
namespace {

bool required_by_environment() {
  const char* given = std::getenv("BINADE_NONDETERMINISTIC");
  return given == nullptr || std::string_view(given) != "1";
}

// A forward is repeated by the kernels that its first pass was allowed.
constinit execution::Slot<bool> thread_deterministic(execution::Belongs::to_work,
                                                     required_by_environment);

}  // namespace

bool deterministic() { return *thread_deterministic; }

AnyOrder::AnyOrder(bool allowed)
    : deterministic_(*thread_deterministic, *thread_deterministic && !allowed) {}

}  // namespace binade::backend
