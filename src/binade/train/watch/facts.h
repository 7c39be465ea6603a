#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

namespace binade::train {

// Facts that hold for all steps of a run.
struct RunFacts {
  int64_t vocabulary = 0;  // 2 for pairs, which are to be put in order
  bool is_loaded = false;  // starts from trained weights
  double clip = 0;         // largest norm of the gradient; 0: no clipping
  // The optimizer gives gradients below this no effect; 0: there is no such size.
  double eps = 0;
  std::string_view eps_name = "the optimizer's eps";
  bool eps_is_of_norm = false;       // it bounds the norm of the gradient, not its RMS
  std::optional<double> beta2 = {};  // of the optimizer's mean squares, if it has them
  int64_t elements = 0;              // of the trained parameters

  // The loss of a model that gives every token the same probability.
  double guessing() const { return std::log(static_cast<double>(vocabulary)); }
};

// Facts of a step that the host has anyway. They are the same on every rank.
struct StepFacts {
  int64_t step = 0;  // counted from 1
  double loss = 0;
  double gradient_norm = 0;  // before clipping
  double lr = 0;
  bool applied = true;

  bool is_finite() const { return std::isfinite(loss) && std::isfinite(gradient_norm); }
};

}  // namespace binade::train
