#pragma once

// Begins inline assembly with Arm's bf16 instructions: GCC's assembler is told of them here,
// Clang's by the options of the file (cmake/flags.cmake).
#ifdef __clang__
#define BINADE_ASM_BF16 ""
#else
#define BINADE_ASM_BF16 ".arch_extension bf16\n"
#endif

#include <string_view>
#include <vector>

namespace binade {

// CPU features that Binade's kernels use. A flag is set only if the operating system also enables
// the feature. All flags are false on other architectures.
struct CpuFeatures {
  // aarch64
  bool neon = false;
  bool neon_bf16 = false;  // BFMMLA and BFDOT
  // x86-64
  bool avx2 = false;         // with FMA and F16C
  bool avx512 = false;       // F, BW, DQ and VL
  bool avx512_bf16 = false;  // VDPBF16PS
  bool amx_bf16 = false;     // TDPBF16PS, and the process may use the tile registers
};

// Detected on the first call, which on Linux also requests the AMX tile registers.
const CpuFeatures& cpu_features();

// Names of the flags that are set, in the order above, for display.
std::vector<std::string_view> cpu_feature_names();

}  // namespace binade
