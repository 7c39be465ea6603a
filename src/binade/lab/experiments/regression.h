#pragma once

#include <vector>

#include "binade/amp/grad_scaler.h"
#include "binade/tensor/dtype.h"
#include "binade/train/report/chart.h"

namespace binade::lab {

// A small network that learns a sum of sines by Adam, for experiments about training in 16 bits.
struct Regression {
  DType dtype = DType::f32;  // of autocast; f32: none
  amp::GradScalerOptions scaler = {.enabled = false};
  double loss_factor = 1;  // of the loss; small ones make gradients as small as in deep networks
  double lr = 1e-2;
  double eps = 1e-20;
  int steps = 150;
};

struct RegressionRun {
  std::vector<double> losses, scales;  // by step, before its update; without the loss factor
  int64_t skipped = 0;
  double zero_gradients = 0;  // fraction of the first step's gradient

  double first_loss() const { return losses.front(); }
  double last_loss() const { return losses.back(); }
  train::Series loss_series(const std::string& name, train::Style style) const;
};

RegressionRun train_regression(const Regression& options);

// The data that the network learns from: inputs [256, 16] and their targets [256, 1].
struct RegressionData {
  Tensor x, target;
};
RegressionData regression_data();

}  // namespace binade::lab
