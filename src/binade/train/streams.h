#pragma once

#include <functional>
#include <optional>

#include "binade/train/generate.h"

namespace binade::train {

// A prompt to be continued beside others.
struct StreamRequest {
  std::vector<int64_t> prompt;
  GenerateOptions options = {};
  std::function<bool(int64_t token)> on_token;  // ends the text by returning false
  std::function<void()> on_end;
};

// Continues the prompts that next() returns until it returns none, up to `at_once` of them in each
// forward: when a text ends, the next prompt takes its place. On a CPU each text is the one that
// generate() gives, whatever its company.
void generate_streams(nn::LanguageModel& model, int64_t at_once,
                      const std::function<std::optional<StreamRequest>()>& next);

}  // namespace binade::train
