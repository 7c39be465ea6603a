#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/base/json.h"
#include "binade/io/path.h"
#include "binade/train/hash/state_hash.h"

namespace binade::train {

// The hash of a run's state after a step, and a digest that covers it and all links before it. A
// link tells damage and faults; it is no signature, since anybody can compute a new chain.
struct Link {
  int64_t step = 0;
  StateHash state;
  std::string digest;  // 32 hexadecimal digits

  bool operator==(const Link&) const = default;
};

// The link that follows the one with the digest `before`; empty: the first.
Link next_link(const std::string& before, int64_t step, const StateHash& state);

// {"weights":"...","moments":"...","scales":"...","data":"...","link":"..."}: the link of a record,
// which has the step.
void write_link(json::Writer& out, const Link& link);
Link parse_link(const json::Value& object, int64_t step);

// "step 400, digest ...": the link as one line of a checkpoint's manifest; its state is not in it.
struct LinkName {
  int64_t step = 0;
  std::string digest;
};
std::string to_text(const LinkName& link);
// None if the text is not one.
std::optional<LinkName> parse_link_name(const std::string& text);
// "weights ..., moments ..., scales ..., data ...".
std::string to_text(const StateHash& state);
std::optional<StateHash> parse_state_hash(const std::string& text);

// The links in the log of a run, in the order of steps. A chain of a log that lacks lines has gaps.
struct Chain {
  std::vector<Link> links;
  // Steps of links whose digest does not follow from the link before it: damaged or changed ones.
  std::vector<int64_t> broken;

  const Link* at(int64_t step) const;
};

// From the metrics.jsonl of a run's folder, or from a manifest (reproduction.h). Fails if there is
// none.
Chain read_chain(const io::Path& run);

}  // namespace binade::train
