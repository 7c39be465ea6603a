#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "binade/train/trainer.h"

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
  // Whether it must see the step's result before the next one starts; else a GPU's comes late.
  virtual bool before_step(Trainer& trainer) {
    static_cast<void>(trainer);
    return false;
  }
  virtual std::vector<std::string> after_step(Trainer& trainer, const data::Tokens& tokens,
                                              const StepResult& result) = 0;
};

}  // namespace binade::train
