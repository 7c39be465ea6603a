#pragma once

#include <chrono>

#include "binade/io/path.h"

namespace binade::train {

// The page of a run that is still running, written anew from the run's files every now and then.
class LiveReport {
 public:
  // Writes it if the last time was long ago. A page that cannot be written is left out: the run
  // goes on, and its end reports what is wrong.
  void update(const io::Path& folder);

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace binade::train
