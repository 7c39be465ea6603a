#pragma once

#include <string>

#include "binade/amp/recipe/text.h"
#include "binade/data/tokens.h"
#include "binade/train/config/config.h"

namespace binade::train {

// A run of a few steps that takes milliseconds.
inline Config small_config(const std::string& precision = "fp32") {
  Config config;
  config.model = ModelFamily::gpt2;
  config.lr = 4e-3;
  config.layers = 2;
  config.width = 16;
  config.heads = config.kv_heads = 2;
  config.hidden = 64;
  config.context = 8;
  config.batch = 2;
  config.steps = 6;
  config.warmup = 2;
  config.precision = parse_precision(precision);
  config.device = Device::cpu();
  config.recipe = amp::parse_recipe("delayed, history = 4");
  config.scale_growth_interval = 2;  // so that the scale moves within the test
  config.eval_every = 2;
  config.eval_batches = 1;
  config.checkpoint_every = 0;
  config.sample = 10;
  return config;
}

inline std::string small_text() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "the quick brown fox " + std::to_string(i * i) + "\n";
  return text;
}

inline const data::Tokens& small_tokens() {
  static const data::Tokens tokens = data::Tokens::of_bytes(small_text());
  return tokens;
}

}  // namespace binade::train
