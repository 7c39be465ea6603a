#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/data/corpus.h"
#include "binade/train/memory/arrangement.h"
#include "binade/train/trainer.h"

namespace binade::train {

// The arrangement of activations that the trainer has chosen. None if the configuration has one.
std::optional<Arrangement> chosen_arrangement(const Trainer& trainer, const Config& config);

// The lines that a run begins with: what is trained, on what, and how it uses its memory. `unit` is
// what the data are counted in.
std::vector<std::string> introduction(Trainer& trainer, const Config& config,
                                      const data::Split& split, const char* unit);

}  // namespace binade::train
