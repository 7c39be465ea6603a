#pragma once

#include <string_view>
#include <vector>

namespace binade {

// What the CPU this process runs on can do, as far as Binade's kernels care. A flag is set only
// where the operating system lets a process use the feature too. All are false on other CPUs.
struct CpuFeatures {
  // aarch64
  bool neon = false;
  bool neon_bf16 = false;  // BFMMLA and BFDOT
  // x86-64
  bool avx2 = false;         // with FMA and F16C
  bool avx512 = false;       // F, BW, DQ and VL
  bool avx512_bf16 = false;  // VDPBF16PS
  bool amx_bf16 = false;     // TDPBF16PS, with permission to use the tile registers granted
};

// Detected at the first call. On Linux that call asks the kernel for the AMX tile registers.
const CpuFeatures& cpu_features();

// The names of the flags that are set, in the order above, for people to read.
std::vector<std::string_view> cpu_feature_names();

}  // namespace binade
