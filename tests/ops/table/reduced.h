#pragma once

#include "binade/ops/loss/loss.h"
#include "ops/table/array.h"

namespace binade::optable {

// What a loss makes of the losses of its elements.
inline Array reduced(const Array& losses, Reduce how) {
  if (how == Reduce::none) return losses;
  return reduce(losses, {}, false, [how](std::span<const Real> line) {
    return how == Reduce::mean ? mean(line) : sum(line);
  });
}

}  // namespace binade::optable
