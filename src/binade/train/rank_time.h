#pragma once

namespace binade::train {

// Time and traffic of one rank's steps.
struct RankTime {
  double seconds = 0;  // of steps
  double waited = 0;   // of these, for other ranks
  double sent = 0;     // bytes to other ranks
};

}  // namespace binade::train
