#include "binade/autograd/watch.h"

#include <utility>

namespace binade::autograd {
namespace {

thread_local Watch* current = nullptr;

}  // namespace

Watch* watch() { return current; }

WatchScope::WatchScope(Watch* watch) : previous_(std::exchange(current, watch)) {}
WatchScope::~WatchScope() { current = previous_; }

}  // namespace binade::autograd
