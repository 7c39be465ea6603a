#pragma once

#include <cstddef>
#include <functional>
#include <utility>

namespace binade::optim {

class Optimizer;

// The learning rates that a scheduler sets: an optimizer stands for its own.
struct Rates {
  Rates(Optimizer& optimizer);  // NOLINT: see above
  Rates(std::function<size_t()> count, std::function<double(size_t)> get,
        std::function<void(size_t, double)> set, std::function<void(double)> set_momentum)
      : count(std::move(count)),
        get(std::move(get)),
        set(std::move(set)),
        set_momentum(std::move(set_momentum)) {}

  std::function<size_t()> count;
  std::function<double(size_t group)> get;
  std::function<void(size_t group, double lr)> set;
  std::function<void(double)> set_momentum;
};

}  // namespace binade::optim
