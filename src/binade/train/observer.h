#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "binade/train/step.h"

namespace binade::train {

// Someone who watches a run. What the functions return is shown as notes.
class Observer {
 public:
  virtual ~Observer() = default;
  // Once, when the run is ready to take its next step and its folder is there.
  virtual void begin(Trainer& trainer, const std::filesystem::path& folder) {
    static_cast<void>(trainer);
    static_cast<void>(folder);
  }
  virtual void before_step(Trainer& trainer) { static_cast<void>(trainer); }
  virtual std::vector<std::string> after_step(Trainer& trainer, const data::Tokens& tokens,
                                              const StepResult& result) = 0;
};

}  // namespace binade::train
