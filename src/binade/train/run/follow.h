#pragma once

#include <memory>

#include "binade/data/corpus.h"
#include "binade/train/trainer.h"

// Runs on many ranks: rank 0 trains as one process does (loop.h), and the others follow it.
namespace binade::train {

// Gives each rank of this machine its share of the cores, unless the environment says how many
// threads a process has.
void share_threads(const ranks::Communicator& ranks);

// Fails on all ranks if they differ in version, configuration, data, tokenizer or arithmetic.
// Collective.
void agree_with_ranks(const Trainer& trainer, const data::Split& split,
                      const data::Tokenizer& tokenizer);

// Does what rank 0's Trainer announces, until the announced end.
void follow(Trainer& trainer, data::Split split);

// A run on a rank other than 0.
void follow_run(const Config& config, const std::shared_ptr<ranks::Communicator>& ranks);

}  // namespace binade::train
