#include <cstdlib>
#include <string>
#include <vector>

#include "binade/backend/cpu/gemm/kernel.h"
#include "binade/base/cpu_features.h"
#include "binade/base/error.h"

namespace binade::backend::cpu {
namespace {

std::vector<Level> detect_levels() {
  [[maybe_unused]] const CpuFeatures& cpu = cpu_features();
  std::vector<Level> levels{{"portable", &portable_kernel, nullptr}};
#if defined(__aarch64__)
  if (cpu.neon) levels.push_back({"neon", &neon_kernel, nullptr});
  if (cpu.neon_bf16) levels.push_back({"neon-bf16", &neon_kernel, &neon_bf16_kernel});
#elif defined(__x86_64__)
  if (cpu.avx2) levels.push_back({"avx2", &avx2_kernel, nullptr});
  if (cpu.avx512) levels.push_back({"avx512", &avx512_kernel, nullptr});
  if (cpu.avx512_bf16) levels.push_back({"avx512-bf16", &avx512_kernel, &avx512_bf16_kernel});
  if (cpu.amx_bf16) levels.push_back({"amx", &avx512_kernel, &amx_kernel});
#endif
  return levels;
}

const Level* find_level(std::string_view name) {
  std::string known;
  for (const Level& level : available_levels()) {
    if (level.name == name) return &level;
    known += known.empty() ? "" : ", ";
    known += level.name;
  }
  fail("gemm", {.argument = "BINADE_CPU",
                .expected = "a level that this CPU has: " + known,
                .found = std::string(name),
                .hint = "leave BINADE_CPU unset for the best one"});
}

const Level*& level_in_use() {
  static const Level* level = [] {
    const char* name = std::getenv("BINADE_CPU");
    return name == nullptr || *name == '\0' ? &available_levels().back() : find_level(name);
  }();
  return level;
}

}  // namespace

std::span<const Level> available_levels() {
  static const std::vector<Level> levels = detect_levels();
  return levels;
}

const Level& current_level() { return *level_in_use(); }

void set_level(std::string_view name) { level_in_use() = find_level(name); }

}  // namespace binade::backend::cpu
