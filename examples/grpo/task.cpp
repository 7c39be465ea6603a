#include "task.h"

#include <binade/binade.h>

namespace task {

std::vector<std::vector<int64_t>> prompts(int64_t count, uint64_t seed, uint64_t step) {
  std::vector<std::vector<int64_t>> result;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int64_t> prompt;
    for (int64_t j = 0; j < length; ++j)
      prompt.push_back(binade::random::bits(seed, step, static_cast<uint64_t>(i * length + j)) %
                       digits);
    prompt.push_back(separator);
    result.push_back(prompt);
  }
  return result;
}

double reward(std::span<const int64_t> prompt, std::span<const int64_t> answer) {
  int64_t right = 0;
  for (int64_t i = 0; i < length; ++i)
    right += answer[static_cast<size_t>(i)] == prompt[static_cast<size_t>(length - 1 - i)];
  return static_cast<double>(right) / length;
}

}  // namespace task
