#pragma once

#include <memory>

#include "binade/optim/optimizer.h"

struct bnd_optimizer {
  std::unique_ptr<binade::optim::Optimizer> value;
};
