#include "binade/backend/cpu/gemm/peak_flops.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "binade/backend/cpu/gemm/kernel.h"
#include "binade/base/cpu_features.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {
namespace {

// A loop of independent multiply-adds, and the operations of one pass through it.
struct Loop {
  void (*run)(int64_t passes);
  double operations;
};

#if defined(__aarch64__)

#define EACH_SUM(op)                                                                              \
  op(8) op(9) op(10) op(11) op(12) op(13) op(14) op(15) op(16) op(17) op(18) op(19) op(20) op(21) \
      op(22) op(23) op(24) op(25) op(26) op(27) op(28) op(29) op(30) op(31)
#define CLOBBERS                                                                                \
  "v0", "v1", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", \
      "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "cc", \
      "memory"
#define FMLA(n) "fmla v" #n ".4s, v0.4s, v1.s[0]\n"
#define BFMMLA(n) "bfmmla v" #n ".4s, v0.8h, v1.8h\n"

alignas(64) const float operands[8] = {1, 1, 1, 1, 1, 1, 1, 1};

Loop f32_loop() {
  return {[](int64_t passes) {
            asm volatile("1: ldp q0, q1, [%1]\n" EACH_SUM(FMLA) "subs %0, %0, #1\n b.gt 1b"
                         : "+r"(passes)
                         : "r"(operands)
                         : CLOBBERS);
          },
          24.0 * 8};
}

Loop bf16_loop() {
  if (current_level().bf16 == nullptr) return {};
  return {[](int64_t passes) {
            asm volatile(BINADE_ASM_BF16
                         "1: ldp q0, q1, [%1]\n" EACH_SUM(BFMMLA) "subs %0, %0, #1\n b.gt 1b"
                         : "+r"(passes)
                         : "r"(operands)
                         : CLOBBERS);
          },
          24.0 * 32};
}

#elif defined(__x86_64__)

#define EACH_SUM(op) op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11)
#define CLOBBERS                                                                           \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
      "xmm11", "xmm12", "xmm13", "cc"
#define FMA_256(n) "vfmadd231ps %%ymm12, %%ymm13, %%ymm" #n "\n"
#define FMA_512(n) "vfmadd231ps %%zmm12, %%zmm13, %%zmm" #n "\n"
#define DOT_512(n) "vdpbf16ps %%zmm12, %%zmm13, %%zmm" #n "\n"
#define LOOP(op) "vzeroall\n1:\n" EACH_SUM(op) "dec %0\n jg 1b\n vzeroupper"

Loop f32_loop() {
  const Kernel* kernel = current_level().f32;
  if (kernel == &avx512_kernel) {
    return {[](int64_t passes) { asm volatile(LOOP(FMA_512)
                                              : "+r"(passes)::CLOBBERS); },
            12.0 * 32};
  }
  if (kernel != &avx2_kernel) return {};
  return {[](int64_t passes) { asm volatile(LOOP(FMA_256) : "+r"(passes)::CLOBBERS); }, 12.0 * 16};
}

Loop bf16_loop() {
  const Kernel* kernel = current_level().bf16;
  if (kernel == &amx_kernel) {
    return {[](int64_t passes) {
              amx_kernel.enter();
              asm volatile(
                  "1: tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n"
                  "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n"
                  "dec %0\n jg 1b"
                  : "+r"(passes)::"cc");
              amx_kernel.leave();
            },
            4.0 * 16 * 16 * 32 * 2};
  }
  if (kernel != &avx512_bf16_kernel) return {};
  return {[](int64_t passes) { asm volatile(LOOP(DOT_512) : "+r"(passes)::CLOBBERS); }, 12.0 * 64};
}

#else

Loop f32_loop() { return {}; }
Loop bf16_loop() { return {}; }

#endif

double measure(const Loop& loop, double seconds) {
  if (loop.run == nullptr) return 0;
  using Clock = std::chrono::steady_clock;
  const auto elapsed = [](Clock::time_point since) {
    return std::chrono::duration<double>(Clock::now() - since).count();
  };
  constexpr int64_t passes = 100000;  // about a millisecond: long beside reading the clock
  const int workers = threads();
  double best = 0;
  for (const auto begin = Clock::now(); best == 0 || elapsed(begin) < seconds;) {
    const auto start = Clock::now();
    parallel_for(workers, 1, [&loop](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) loop.run(passes);
    });
    best = std::max(best, loop.operations * passes * workers / elapsed(start));
  }
  return best;
}

}  // namespace

double f32_peak(double seconds) { return measure(f32_loop(), seconds); }
double bf16_peak(double seconds) { return measure(bf16_loop(), seconds); }

}  // namespace binade::backend::cpu
