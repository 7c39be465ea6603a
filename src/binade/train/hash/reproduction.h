#pragma once

#include "binade/train/hash/chain.h"
#include "binade/train/run/origin.h"

// The manifest of a run: a small file by which it can be repeated and checked elsewhere.
namespace binade::train {

struct Reproduction {
  std::string config;     // TOML, as in the run's folder
  Origin origin;          // version, data, arithmetic, base
  std::string tokenizer;  // size and hash; empty: bytes
  int64_t steps = 0;      // that the run had taken
  std::vector<Link> links;
};

std::string to_json(const Reproduction& manifest);
// Fails for a file that is no manifest, or whose links do not follow from one another.
Reproduction read_reproduction(const io::Path& file);

// "a tokenizer of 1234 bytes, XXH3 ..."; empty for bytes.
std::string describe_tokenizer(std::string_view tokenizer);

}  // namespace binade::train
