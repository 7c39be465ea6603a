#pragma once

#include <string>
#include <vector>

#include "binade/io/path.h"
#include "binade/train/trainer.h"
#include "binade/train/watch/alarm.h"

namespace binade::train {

// How a role's tensors fit the 8-bit format that they are quantized to: fractions of their values,
// mean over the linear layers.
struct QuantizationShare {
  amp::Role role;
  double saturated;  // beyond the largest number
  double flushed;    // not zero, but rounded to it
};

// Receives training events.
class Observer {
 public:
  virtual ~Observer() = default;
  // Called once before the first step; the run's folder exists. Returns warnings to print.
  virtual std::vector<std::string> begin(Trainer& trainer, const io::Path& folder) {
    static_cast<void>(trainer);
    static_cast<void>(folder);
    return {};
  }
  // Called before each step. Returns whether the step's result must be available before the next
  // step starts; otherwise a GPU's results arrive some steps later.
  virtual bool before_step(Trainer& trainer) {
    static_cast<void>(trainer);
    return false;
  }
  // Called before a checkpoint is taken: files of the run must contain everything of its steps,
  // which a resumed run does not repeat, and must be durable. The last step has not come to
  // the end of after_step() if a file could not be written.
  virtual void before_checkpoint(Trainer& trainer) { static_cast<void>(trainer); }
  // What the newest statistics of layers tell of quantization; empty: nothing measured.
  virtual std::vector<QuantizationShare> quantization_shares(const Trainer& trainer) {
    static_cast<void>(trainer);
    return {};
  }
  // Called with a fault of a step that left all numbers finite (train/watch), before after_step().
  virtual void note_alarm(const Alarm& alarm) { static_cast<void>(alarm); }
  // Called with each step's result. Returns notes to print.
  virtual std::vector<std::string> after_step(Trainer& trainer, const data::Tokens& tokens,
                                              const StepResult& result) = 0;
};

}  // namespace binade::train
