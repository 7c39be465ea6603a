#include "binade/base/cpu_features.h"

#include <cstdint>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace binade {
namespace {

#if defined(__aarch64__)

CpuFeatures detect() {
  CpuFeatures f;
  f.neon = true;  // part of every aarch64
#if defined(__linux__)
  constexpr unsigned long hwcap2_bf16 = 1ul << 14;  // asm/hwcap.h; older headers lack the name
  f.neon_bf16 = (getauxval(AT_HWCAP2) & hwcap2_bf16) != 0;
#endif
  return f;
}

#elif defined(__x86_64__)

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// Returns zeros if the CPU lacks the leaf.
Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

bool bit(unsigned word, int position) { return ((word >> position) & 1) != 0; }

// The register states the operating system saves and restores.
uint64_t enabled_states() {
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

// Linux lets a process use the 8 KiB of tile registers only on request.
bool request_amx() {
#if defined(__linux__)
  constexpr long arch_request_permission = 0x1023;
  constexpr long tile_data = 18;
  return syscall(SYS_arch_prctl, arch_request_permission, tile_data) == 0;
#else
  return false;
#endif
}

CpuFeatures detect() {
  CpuFeatures f;
  const Registers one = cpuid(1, 0);
  const bool xsave = bit(one.ecx, 27);
  if (!xsave) return f;
  const uint64_t states = enabled_states();
  const auto has_states = [&](uint64_t mask) { return (states & mask) == mask; };
  constexpr uint64_t ymm = 0x6, zmm = 0xe6, tiles = 0x60000;

  const Registers seven = cpuid(7, 0), seven_one = cpuid(7, 1);
  const bool fma = bit(one.ecx, 12), f16c = bit(one.ecx, 29);
  f.avx2 = has_states(ymm) && bit(seven.ebx, 5) && fma && f16c;
  f.avx512 = f.avx2 && has_states(zmm) && bit(seven.ebx, 16) && bit(seven.ebx, 17) &&
             bit(seven.ebx, 30) && bit(seven.ebx, 31);
  f.avx512_bf16 = f.avx512 && bit(seven_one.eax, 5);
  const bool amx_tile = bit(seven.edx, 24), amx_bf16 = bit(seven.edx, 22);
  f.amx_bf16 = f.avx512 && has_states(tiles) && amx_tile && amx_bf16 && request_amx();
  return f;
}

#else

CpuFeatures detect() { return {}; }

#endif

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

std::vector<std::string_view> cpu_feature_names() {
  const CpuFeatures& f = cpu_features();
  std::vector<std::string_view> names;
  if (f.neon) names.push_back("neon");
  if (f.neon_bf16) names.push_back("neon-bf16");
  if (f.avx2) names.push_back("avx2");
  if (f.avx512) names.push_back("avx512");
  if (f.avx512_bf16) names.push_back("avx512-bf16");
  if (f.amx_bf16) names.push_back("amx-bf16");
  return names;
}

}  // namespace binade
