#pragma once

#include <chrono>

#include "binade/data/documents.h"
#include "binade/tensor/device.h"
#include "binade/train/config/config.h"
#include "binade/train/energy.h"
#include "binade/train/run/throughput.h"

namespace binade::train {

// Times the steps of a run, and counts their tokens and their energy.
class StepMeter {
 public:
  using Clock = std::chrono::steady_clock;
  struct Run {
    const Config& config;
    const data::Tokens& tokens;  // of training
    Device device;
    Clock::time_point begin;
  };

  // What `run` refers to must outlive it.
  explicit StepMeter(const Run& run);

  // Continues a run that has trained for so long on so many tokens.
  void continue_from(double seconds, int64_t tokens);
  // The machine's speed that shares are taken of (full_speed()).
  void set_full_speed(double tokens_per_second) { full_speed_ = tokens_per_second; }

  // The time since the last step was not training: a validation, a checkpoint.
  void leave_out_time();
  // The seconds of each of some results that arrive now, together.
  double seconds_of_each(size_t results);
  // Counts a step. If something `observed` it, its time says nothing of the run's speed.
  void add(int64_t step, double seconds, bool observed);

  double seconds() const { return seconds_; }  // of all steps
  int64_t tokens() const { return tokens_; }   // of all steps and ranks
  double elapsed() const;                      // seconds since the run's begin
  double tokens_per_second() const { return speed_.tokens_per_second(); }  // after a step
  std::optional<double> joules_per_token() const { return energy_.joules_per_token(); }
  // 0: not known. A run above it shows that the machine was busy when it was measured.
  const double& full_speed() const { return full_speed_; }

 private:
  Run run_;
  Clock::time_point last_ = Clock::now();
  double seconds_ = 0;
  int64_t tokens_ = 0;
  SpeedWindow speed_;
  EnergyMeter energy_;
  double full_speed_ = 0;
};

}  // namespace binade::train
