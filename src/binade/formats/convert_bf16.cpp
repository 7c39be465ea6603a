#include "binade/formats/convert_bf16.h"

#include "binade/base/cpu_features.h"

#if defined(__aarch64__)
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+bf16")
#include <arm_neon.h>

namespace binade::formats {
namespace {

void narrow_neon(const float* src, bf16* dst, size_t n) {
  auto* to = reinterpret_cast<bfloat16_t*>(dst);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const bfloat16x8_t low = vcvtq_low_bf16_f32(vld1q_f32(src + i));
    vst1q_bf16(to + i, vcvtq_high_bf16_f32(low, vld1q_f32(src + i + 4)));
  }
  for (; i < n; ++i) to[i] = vcvth_bf16_f32(src[i]);
}

}  // namespace
}  // namespace binade::formats
#pragma GCC pop_options
#endif

namespace binade::formats {

NarrowBf16 native_narrow_bf16() {
#if defined(__aarch64__)
  if (cpu_features().neon_bf16) return narrow_neon;
#endif
  return nullptr;  // x86-64's instruction flushes subnormals to zero
}

}  // namespace binade::formats
