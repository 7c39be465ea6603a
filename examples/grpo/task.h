#pragma once

#include <cstdint>
#include <span>
#include <vector>

// The task: the digits of a prompt in reverse.
namespace task {

inline constexpr int64_t digits = 6, length = 3;
inline constexpr int64_t separator = digits;  // ends a prompt
inline constexpr int64_t vocab = digits + 1;

// Prompts of `length` random digits and the separator.
std::vector<std::vector<int64_t>> prompts(int64_t count, uint64_t seed, uint64_t step);

// The share of an answer's tokens that are right.
double reward(std::span<const int64_t> prompt, std::span<const int64_t> answer);

}  // namespace task
