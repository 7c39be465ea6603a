#include "binade/autograd/grad_mode.h"

namespace binade::autograd {
namespace {

thread_local bool thread_grad_enabled = true;

}  // namespace

bool grad_enabled() { return thread_grad_enabled; }

GradMode::GradMode(bool enabled) : scope_(thread_grad_enabled, enabled) {}

}  // namespace binade::autograd
