#pragma once

#include <string>

#include "binade/amp/recipe/text.h"
#include "binade/data/tokens.h"
#include "binade/train/config/config.h"

namespace binade::train {

// A run of a few steps that takes milliseconds.
inline Config small_config(const std::string& precision = "fp32") {
  Config config;
  config.model.family = ModelFamily::gpt2;
  config.train.lr = 4e-3;
  config.model.layers = 2;
  config.model.width = 16;
  config.model.heads = config.model.kv_heads = 2;
  config.model.hidden = 64;
  config.model.context = 8;
  config.train.batch = 2;
  config.train.steps = 6;
  config.train.warmup = 2;
  config.precision.matmul = parse_precision(precision);
  config.train.device = Device::cpu();
  config.precision.recipe = amp::parse_recipe("delayed, history = 4");
  config.precision.scale_growth_interval = 2;  // so that the scale moves within the test
  config.run.eval_every = 2;
  config.run.eval_batches = 1;
  config.run.checkpoint_every = 0;
  config.run.sample = 10;
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
