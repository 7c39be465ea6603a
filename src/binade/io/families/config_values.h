#pragma once

#include <initializer_list>

#include "binade/base/json.h"

// Accessors for members of config.json.
namespace binade::io {

// Bounds far above any model of these families: a malicious file cannot ask for absurd amounts of
// memory.
inline constexpr int64_t max_layers = 4096;
inline constexpr int64_t max_size = int64_t{1} << 31;
inline constexpr int64_t max_context = int64_t{1} << 20;

// A member that may be absent or null; an empty name stands for none.
const json::Value* given(const json::Value& root, std::string_view name);
int64_t size_or(const json::Value& root, std::string_view name, int64_t otherwise);
// More than 0 and at most `most`: beyond it, f32 arithmetic gives nothing but zeros or infinities.
inline constexpr double max_epsilon = 1, max_rope_theta = 1e12, max_positive = 1e12;
double positive_or(const json::Value& root, std::string_view name, double otherwise,
                   double most = max_positive);
bool flag_or(const json::Value& root, std::string_view name, bool otherwise);
// Fails if a flag has the other value.
void require_flag(const json::Value& root, std::string_view name, bool needed);

}  // namespace binade::io
