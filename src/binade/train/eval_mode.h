#pragma once

#include "binade/nn/module.h"

namespace binade::train {

// For its lifetime, a model is in evaluation mode; then it returns to the mode it was in.
class [[nodiscard]] EvalMode {
 public:
  explicit EvalMode(nn::Module& model) : model_(model), training_(model.training()) {
    model_.eval();
  }
  ~EvalMode() { model_.train(training_); }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  nn::Module& model_;
  bool training_;
};

}  // namespace binade::train
