#include "binade/torch/optim.h"

#include "binade/autograd/grad_mode.h"

namespace binade::torch::optim {

binade::optim::SgdOptions SGDOptions::plain() const {
  return {.lr = lr(),
          .momentum = momentum(),
          .dampening = dampening(),
          .weight_decay = weight_decay(),
          .nesterov = nesterov()};
}

binade::optim::AdamOptions AdamOptions::plain() const {
  return {.lr = lr(),
          .beta1 = std::get<0>(betas()),
          .beta2 = std::get<1>(betas()),
          .eps = eps(),
          .weight_decay = weight_decay(),
          .amsgrad = amsgrad()};
}

binade::optim::AdamOptions AdamWOptions::plain() const {
  return {.lr = lr(),
          .beta1 = std::get<0>(betas()),
          .beta2 = std::get<1>(betas()),
          .eps = eps(),
          .weight_decay = weight_decay(),
          .amsgrad = amsgrad()};
}

binade::optim::RmspropOptions RMSpropOptions::plain() const {
  return {.lr = lr(),
          .alpha = alpha(),
          .eps = eps(),
          .weight_decay = weight_decay(),
          .momentum = momentum(),
          .centered = centered()};
}

binade::optim::AdagradOptions AdagradOptions::plain() const {
  return {.lr = lr(),
          .lr_decay = lr_decay(),
          .weight_decay = weight_decay(),
          .initial_sum = initial_accumulator_value(),
          .eps = eps()};
}

void Optimizer::zero_grad(bool set_to_none) {
  if (set_to_none) return native().zero_grad();
  for (const Tensor& one : parameters()) {
    if (one.grad().defined()) one.grad().zero_();
  }
}

Tensor Optimizer::step(const std::function<Tensor()>& closure) {
  Tensor loss;
  if (closure) {
    const binade::autograd::EnableGrad enable;
    loss = closure();
  }
  step();
  return loss;
}

void Optimizer::step(const amp::StepControl& control) {
  apply_options();
  native().step(control);
}

Optimizer::operator Rates() {
  return Rates([this] { return groups_.size(); },
               [this](size_t group) { return groups_.at(group).options().get_lr(); },
               [this](size_t group, double lr) { groups_.at(group).options().set_lr(lr); },
               [this](double momentum) {
                 for (OptimizerParamGroup& group : groups_) {
                   if (auto* sgd = dynamic_cast<SGDOptions*>(&group.options())) {
                     if (sgd->momentum() != 0) sgd->momentum(momentum);
                   } else if (auto* rms = dynamic_cast<RMSpropOptions*>(&group.options())) {
                     if (rms->momentum() != 0) rms->momentum(momentum);
                   } else if (auto* adam = dynamic_cast<AdamOptions*>(&group.options())) {
                     std::get<0>(adam->betas()) = momentum;
                   } else if (auto* adamw = dynamic_cast<AdamWOptions*>(&group.options())) {
                     std::get<0>(adamw->betas()) = momentum;
                   }
                 }
               });
}

OptimizerParamGroup Optimizer::complete(const OptimizerParamGroup& group) const {
  return {group.params(), group.has_options() ? group.options().clone() : defaults_->clone()};
}

}  // namespace binade::torch::optim
