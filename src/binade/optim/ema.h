#pragma once

#include "binade/optim/optimizer.h"

namespace binade::optim {

// Exponential moving averages of parameters, in f32 (f64 of f64):
//
//   optim::EMA ema(model.parameters(), 0.999);
//   ...
//   scaler.step(optimizer);
//   ema.update(optimizer);  // after each step
//   ...
//   {
//     const optim::EMA::Applied averages(ema);  // the model has the averages here
//     evaluate(model);
//   }
class EMA {
 public:
  explicit EMA(const std::vector<Tensor>& parameters, double decay = 0.999);
  EMA(const EMA&) = delete;
  EMA& operator=(const EMA&) = delete;

  // average = decay * average + (1 - decay) * parameter; the first call copies the parameters, as
  // PyTorch's AveragedModel does.
  void update();
  // Updates from the optimizer's master weights, which 16-bit parameters are rounded from.
  void update(Optimizer& optimizer);
  int64_t updates() const { return updates_; }
  // The average of a parameter.
  const Tensor& of(const Tensor& parameter) const;

  // For its lifetime, the parameters have the averages' values.
  class Applied {
   public:
    explicit Applied(EMA& ema);
    ~Applied();
    Applied(const Applied&) = delete;
    Applied& operator=(const Applied&) = delete;

   private:
    EMA& ema_;
    std::vector<Tensor> saved_;
  };

  // The averages and the number of updates; loading checks names and shapes.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

 private:
  void update_one(size_t index, const Tensor& value);

  std::vector<Tensor> parameters_, averages_;
  double decay_;
  int64_t updates_ = 0;
};

}  // namespace binade::optim
