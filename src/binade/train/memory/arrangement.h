#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "binade/nn/activations.h"
#include "binade/ranks/communicator.h"
#include "binade/train/config/config.h"

namespace binade::train {

// How a run uses its memory, among the arrangements that give the same bits.
struct Arrangement {
  nn::Activations activations;
  int64_t peak = 0;    // forecast of the run, bytes
  int64_t budget = 0;  // what it may take; 0: unknown
  bool fits() const { return budget == 0 || peak <= budget; }
  bool operator==(const Arrangement&) const = default;
};

// The fastest arrangement whose forecast fits the configuration's memory, for every rank alike: as
// many blocks as possible keep their activations. If even recomputing all of them does not fit,
// that is the result, or, with a budget in bytes, an error. Collective.
Arrangement arrange(const Config& config,
                    const std::shared_ptr<ranks::Communicator>& ranks = ranks::single());

// "7.6 GB of 8.0 GB; activations of 12 blocks: 3 kept, 9 recomputed".
std::string describe(const Arrangement& arrangement, const Config& config);

// Settings that take less memory and change the numerics, with what each saves this rank:
// "--moments 8bit would save 1.1 GB". For runs that cannot keep everything.
std::vector<std::string> savings(const Arrangement& arrangement, const Config& config,
                                 const ranks::Communicator& ranks = *ranks::single());

}  // namespace binade::train
