#include "binade/train/hash/run_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "binade/base/error.h"

namespace binade::train {
namespace {

Chain checked_chain(const Config& config, int64_t step) {
  const std::string& run = config.run.verify;
  if (run.empty()) return {};
  Chain chain = read_chain(run);
  if (!chain.broken.empty())
    fail("train", {.argument = "--verify " + run,
                   .expected = "a chain of hashes in which each covers the one before",
                   .found = fmt::format("one that breaks at step {}", chain.broken.front()),
                   .hint = "its metrics.jsonl was changed, or lacks lines"});
  const bool reachable = std::ranges::any_of(chain.links, [&](const Link& link) {
    return link.step >= step && link.step <= config.train.steps;
  });
  if (!reachable)
    fail("train", {.argument = "--verify " + run,
                   .expected = fmt::format("hashes of steps {} to {}", step, config.train.steps),
                   .found = chain.links.empty()
                                ? "none"
                                : fmt::format("hashes of steps {} to {}", chain.links.front().step,
                                              chain.links.back().step)});
  return chain;
}

}  // namespace

RunChain::RunChain(const Config& config, int64_t step, std::optional<LinkName> before)
    : interval_(config.run.hash_every),
      last_step_(config.train.steps),
      verify_(config.run.verify),
      expected_(checked_chain(config, step)),
      newest_(std::move(before)) {}

// With the last step, so that the chain covers all of a run, however short.
bool RunChain::links_at(int64_t step) const {
  return interval_ > 0 && (step % interval_ == 0 || step == last_step_);
}

bool RunChain::hashes_at(int64_t step) const {
  return links_at(step) || expected_.at(step) != nullptr;
}

std::optional<Link> RunChain::add(Trainer& trainer) {
  const int64_t step = trainer.steps();
  if (!hashes_at(step)) return {};
  const StateHash state = trainer.hash();
  compare(step, state);
  if (!links_at(step)) return {};
  // A checkpoint may have the link of a step whose record could not be written: it is repeated.
  if (newest_ && newest_->step == step) return Link{step, state, newest_->digest};
  const Link link = next_link(newest_ ? newest_->digest : "", step, state);
  newest_ = {step, link.digest};
  return link;
}

void RunChain::compare(int64_t step, const StateHash& state) {
  const Link* const expected = expected_.at(step);
  if (expected == nullptr || !difference_.empty()) return;
  const std::string parts = differing_parts(state, expected->state);
  if (!parts.empty()) {
    difference_ = fmt::format("step {}: {} differ from those of {}", step, parts, verify_);
    return;
  }
  ++equal_;
  last_equal_ = step;
}

std::string RunChain::verified() const {
  if (equal_ == 0) return {};
  return fmt::format("{} hash{} those of {}, the last at step {}", equal_,
                     equal_ == 1 ? " is" : "es are", verify_, last_equal_);
}

}  // namespace binade::train
