#pragma once

#include <utility>

#include "binade/autograd/autograd_meta.h"

namespace binade::autograd {

// Whether ops record their backward on this thread.
bool grad_enabled();

// Switches recording for as long as it lives; guards nest.
class GradMode {
 public:
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};

// Calls `hook` with each finished gradient of `tensor`, which requires one.
void on_gradient(const Tensor& tensor, Hook hook);

}  // namespace binade::autograd

namespace binade {

// No op records a backward while it lives.
class NoGrad : autograd::GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

}  // namespace binade
