#pragma once

namespace binade::backend::cuda {

// How long a library's candidates for a problem are timed before one is chosen: BINADE_TUNE in the
// environment.
enum class Tuning {
  off,       // "0": not at all, the library's first one is taken
  brief,     // "1" or unset: a fraction of a millisecond each, so that a first step takes seconds
  sustained  // "sustained": matmuls 60 ms each, in which a GPU reaches its power limit
};

// Fails if the text is none of the above; null is unset.
Tuning parse_tuning(const char* text);
// The tuning of this process.
Tuning tuning();

}  // namespace binade::backend::cuda
