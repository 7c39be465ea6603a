#pragma once

#include <string>

#include "io/temporary_folder.h"
#include "train/small_run.h"

namespace binade::lab {

// A small run in this folder that can be replayed: with checkpoints and hashes.
inline train::Config recorded_config(const testing::TemporaryFolder& folder,
                                     const std::string& precision) {
  train::Config config = train::small_config(precision);
  config.run.checkpoint_every = 3;
  config.run.hash_every = 2;
  config.run.sample = 0;
  config.data.source = folder.put("text.txt", train::small_text()).string();
  config.run.out = (folder / "run").string();
  return config;
}

}  // namespace binade::lab
