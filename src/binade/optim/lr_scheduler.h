#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "binade/optim/one_cycle.h"
#include "binade/optim/plateau.h"
#include "binade/optim/rates.h"

// PyTorch's schedulers: step() after each epoch or update sets the learning rates of an optimizer's
// groups. Optimizers and schedules known beforehand may use Schedule (schedule.h) instead.
namespace binade::optim {

class LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;

  void step();
  std::vector<double> get_last_lr() const;
  std::vector<double> get_current_lr() const { return get_last_lr(); }
  int64_t last_epoch() const { return epoch_; }
  // The rates that the groups had when the scheduler was made.
  const std::vector<double>& base_lrs() const { return base_; }

 protected:
  explicit LRScheduler(Rates rates);
  // The rate of a group at the present epoch; `now` is its rate before.
  virtual double rate(size_t group, double now) const = 0;
  virtual void after_step() {}
  void set_rates();
  int64_t epoch() const { return epoch_; }
  const Rates& rates() const { return rates_; }

 private:
  Rates rates_;
  std::vector<double> base_;
  int64_t epoch_ = 0;
};

// Multiplied by gamma every `step_size` epochs.
class StepLR : public LRScheduler {
 public:
  StepLR(Rates optimizer, int64_t step_size, double gamma = 0.1);

 protected:
  double rate(size_t group, double now) const override;

 private:
  int64_t step_size_;
  double gamma_;
};

// Multiplied by gamma at each of the epochs.
class MultiStepLR : public LRScheduler {
 public:
  MultiStepLR(Rates optimizer, std::vector<int64_t> milestones, double gamma = 0.1)
      : LRScheduler(std::move(optimizer)), milestones_(std::move(milestones)), gamma_(gamma) {}

 protected:
  double rate(size_t group, double now) const override;

 private:
  std::vector<int64_t> milestones_;
  double gamma_;
};

// Multiplied by gamma at every epoch.
class ExponentialLR : public LRScheduler {
 public:
  ExponentialLR(Rates optimizer, double gamma) : LRScheduler(std::move(optimizer)), gamma_(gamma) {}

 protected:
  double rate(size_t, double now) const override { return now * gamma_; }

 private:
  double gamma_;
};

// The base rate times a function of the epoch, one for all groups or one for each.
class LambdaLR : public LRScheduler {
 public:
  using Factor = std::function<double(int64_t epoch)>;
  LambdaLR(Rates optimizer, Factor factor);
  LambdaLR(Rates optimizer, std::vector<Factor> factors);

 protected:
  double rate(size_t group, double now) const override;

 private:
  std::vector<Factor> factors_;
};

// Half a cosine from the base rate to eta_min in t_max epochs, and back in the next ones.
class CosineAnnealingLR : public LRScheduler {
 public:
  CosineAnnealingLR(Rates optimizer, int64_t t_max, double eta_min = 0);

 protected:
  double rate(size_t group, double now) const override;

 private:
  int64_t t_max_;
  double eta_min_;
};

// From start_factor to end_factor times the base rate in total_iters epochs.
class LinearLR : public LRScheduler {
 public:
  explicit LinearLR(Rates optimizer, double start_factor = 1.0 / 3, double end_factor = 1,
                    int64_t total_iters = 5);

 protected:
  double rate(size_t group, double now) const override;

 private:
  double start_, end_;
  int64_t total_;
};

// The 1cycle policy of OneCycle, whose max_lr and total are given here, for all groups.
class OneCycleLR : public LRScheduler {
 public:
  OneCycleLR(Rates optimizer, double max_lr, int64_t total_steps, OneCycle policy = {},
             bool cycle_momentum = true);

 protected:
  double rate(size_t group, double now) const override;
  void after_step() override;

 private:
  OneCycle policy_;
  bool cycle_momentum_;
};

// ReduceOnPlateau with PyTorch's arguments.
class ReduceLROnPlateauScheduler : public ReduceOnPlateau {
 public:
  enum SchedulerMode { min, max };
  enum ThresholdMode { rel, abs };

  explicit ReduceLROnPlateauScheduler(Rates optimizer, SchedulerMode mode = min,
                                      double factor = 0.1, int64_t patience = 10,
                                      double threshold = 1e-4, ThresholdMode threshold_mode = rel,
                                      int64_t cooldown = 0, double min_lr = 0, double eps = 1e-8)
      : ReduceOnPlateau(
            std::move(optimizer),
            {.better =
                 mode == min ? PlateauOptions::Better::smaller : PlateauOptions::Better::larger,
             .factor = factor,
             .patience = patience,
             .threshold = threshold,
             .threshold_kind = threshold_mode == rel ? PlateauOptions::Threshold::relative
                                                     : PlateauOptions::Threshold::absolute,
             .cooldown = cooldown,
             .min_lr = min_lr,
             .eps = eps}) {}
};
using ReduceLROnPlateau = ReduceLROnPlateauScheduler;

}  // namespace binade::optim
