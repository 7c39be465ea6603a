#pragma once

#include <optional>
#include <string>

#include "binade/train/config/config.h"
#include "binade/train/hash/chain.h"
#include "binade/train/trainer.h"

namespace binade::train {

// The hash chain of a run that is training, and its comparison with that of another (--verify).
class RunChain {
 public:
  // Continues after the link `before`; none: starts a chain. Fails if config.run.verify names a run
  // without links that this one will reach, or with a chain that was changed.
  RunChain(const Config& config, int64_t step, std::optional<LinkName> before);

  // Whether the state after this step is hashed: those of config.run.hash_every and the last, and
  // those that the other run has.
  bool hashes_at(int64_t step) const;
  // Hashes the state of now, where hashes_at() says so, compares it, and returns the link for the
  // log; none between links. Waits for unfinished steps of a GPU. Collective.
  std::optional<Link> add(Trainer& trainer);
  // The newest link, for a checkpoint's manifest; empty: none yet.
  std::string newest() const { return newest_ ? to_text(*newest_) : ""; }

  // "step 300: weights, moments differ from those of RUN": the first difference; empty: none.
  const std::string& difference() const { return difference_; }
  // "3 hashes are those of RUN, the last at step 300"; empty: nothing was compared.
  std::string verified() const;

 private:
  bool links_at(int64_t step) const;
  void compare(int64_t step, const StateHash& state);

  int64_t interval_, last_step_;
  std::string verify_;  // the run to compare with
  Chain expected_;
  std::optional<LinkName> newest_;
  std::string difference_;
  int64_t equal_ = 0, last_equal_ = 0;
};

}  // namespace binade::train
