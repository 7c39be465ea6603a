#pragma once

#include "binade/base/error.h"

namespace binade::amp {

// Training cannot continue because its gradients or weights are non-finite. Unlike other errors,
// such as a full disk, it is a result of the run's settings.
class DivergedError : public Error {
 public:
  using Error::Error;
};

}  // namespace binade::amp
