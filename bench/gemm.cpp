// Compares Binade's matrix products with OpenBLAS's sgemm (where it is installed) and with the
// CPU's peak, all in one process and in turns, so that a busy machine disturbs everyone alike.
//   bench_gemm [--threads N] [--seconds S] [--cpu-time] [--json]
// Rates are the best of many rounds, in GFLOP/s. --cpu-time counts the process's CPU time instead
// of the time on the clock: with one thread, what the code would do on a machine of its own.

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "binade/backend/cpu/gemm.h"
#include "binade/backend/cpu/gemm_kernel.h"
#include "binade/base/cpu_features.h"
#include "binade/base/parallel.h"
#include "binade/formats/number.h"

namespace {

using namespace binade;
using namespace binade::backend::cpu;

bool use_cpu_time = false;

double now() {
  if (use_cpu_time) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// ---- the peak: loops of nothing but independent multiply-adds ----

// One run of such a loop, and the operations one pass through it does.
struct PeakLoop {
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

PeakLoop f32_peak() {
  return {[](int64_t passes) {
            asm volatile("1: ldp q0, q1, [%1]\n" EACH_SUM(FMLA) "subs %0, %0, #1\n b.gt 1b"
                         : "+r"(passes)
                         : "r"(operands)
                         : CLOBBERS);
          },
          24.0 * 8};
}

PeakLoop bf16_peak() {
  if (!cpu_features().neon_bf16) return {};
  return {[](int64_t passes) {
            asm volatile(".arch_extension bf16\n1: ldp q0, q1, [%1]\n" EACH_SUM(
                             BFMMLA) "subs %0, %0, #1\n b.gt 1b"
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

PeakLoop f32_peak() {
  if (cpu_features().avx512) {
    return {[](int64_t passes) { asm volatile(LOOP(FMA_512)
                                              : "+r"(passes)::CLOBBERS); },
            12.0 * 32};
  }
  if (!cpu_features().avx2) return {};
  return {[](int64_t passes) { asm volatile(LOOP(FMA_256) : "+r"(passes)::CLOBBERS); }, 12.0 * 16};
}

PeakLoop bf16_peak() {
  if (cpu_features().amx_bf16) {
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
  if (!cpu_features().avx512_bf16) return {};
  return {[](int64_t passes) { asm volatile(LOOP(DOT_512) : "+r"(passes)::CLOBBERS); }, 12.0 * 64};
}

#else

PeakLoop f32_peak() { return {}; }
PeakLoop bf16_peak() { return {}; }

#endif

// All threads together; 0 where the CPU has no such instruction.
double measure_peak(const PeakLoop& loop, double seconds) {
  if (loop.run == nullptr) return 0;
  constexpr int64_t passes = 100000;
  double best = 0;
  for (const double end = now() + seconds; now() < end;) {
    const double start = now();
    parallel_for(threads(), 1, [&](int64_t begin, int64_t finish) {
      for (int64_t i = begin; i < finish; ++i) loop.run(passes);
    });
    best = std::max(best, loop.operations * passes * threads() / (now() - start) / 1e9);
  }
  return best;
}

// ---- OpenBLAS, if the system has it ----

struct OpenBlas {
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                         float, float*, int);
  Sgemm sgemm = nullptr;
  void (*set_threads)(int) = nullptr;

  OpenBlas() {
    void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    sgemm = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
    set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  }

  void multiply(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c) const {
    constexpr int row_major = 101, no_transpose = 111;
    const auto size = [](int64_t x) { return static_cast<int>(x); };
    sgemm(row_major, no_transpose, no_transpose, size(m), size(n), size(k), 1, a, size(k), b,
          size(n), 0, c, size(n));
  }
};

// ---- the contest ----

struct Shape {
  int64_t m, n, k;
};

struct Result {
  Shape shape;
  double openblas = 0, f32 = 0, bf16 = 0, bf16_dgrad = 0, bf16_wgrad = 0;
};

template <class T>
std::vector<T> random_values(int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  uint32_t state = 1;
  for (T& value : values) {
    state = state * 1664525u + 1013904223u;
    value = T(static_cast<float>(state >> 8) / (1 << 24) - 0.5f);
  }
  return values;
}

// Runs each contestant in turn until the time is up; returns their best rates.
std::vector<double> contest(const Shape& s, const std::vector<std::function<void()>>& contestants,
                            double seconds) {
  const double operations =
      2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  std::vector<double> best(contestants.size(), 0);
  const double end = now() + seconds;
  for (int round = 0; round < 2 || now() < end; ++round) {
    for (size_t i = 0; i < contestants.size(); ++i) {
      const double start = now();
      contestants[i]();
      best[i] = std::max(best[i], operations / (now() - start) / 1e9);
    }
  }
  return best;
}

Result measure(const Shape& s, const OpenBlas& openblas, double seconds) {
  const auto a = random_values<float>(s.m * s.k), b = random_values<float>(s.k * s.n);
  const auto a16 = random_values<bf16>(s.m * s.k), b16 = random_values<bf16>(s.k * s.n);
  std::vector<float> c(static_cast<size_t>(s.m * s.n));
  std::vector<bf16> c16(c.size());
  const Operand f32_a{a.data(), Element::f32, s.k, 1}, f32_b{b.data(), Element::f32, s.n, 1};
  const Operand bf16_a{a16.data(), Element::bf16, s.k, 1},
      bf16_b{b16.data(), Element::bf16, s.n, 1};
  // As in a linear layer's forward (weight n x k), and in its weight gradient (a given k x m).
  const Operand weight{b16.data(), Element::bf16, 1, s.k},
      transposed{a16.data(), Element::bf16, 1, s.m};
  const Output f32_c{c.data(), Element::f32, s.n, 1}, bf16_c{c16.data(), Element::bf16, s.n, 1};

  std::vector<std::function<void()>> contestants = {
      [&] { gemm(s.m, s.n, s.k, f32_a, f32_b, f32_c); },
      [&] { gemm(s.m, s.n, s.k, bf16_a, weight, bf16_c); },
      [&] { gemm(s.m, s.n, s.k, bf16_a, bf16_b, bf16_c); },
      [&] { gemm(s.m, s.n, s.k, transposed, bf16_b, f32_c); }};
  if (openblas.sgemm != nullptr) {
    contestants.push_back([&] { openblas.multiply(s.m, s.n, s.k, a.data(), b.data(), c.data()); });
  }
  const auto best = contest(s, contestants, seconds);
  return {s, openblas.sgemm != nullptr ? best[4] : 0, best[0], best[1], best[2], best[3]};
}

void print_table(const std::vector<Result>& results, double peak_f32, double peak_bf16) {
  std::printf("level %.*s, %d threads; peak of the instructions: f32 %.0f, bf16 %.0f GFLOP/s\n",
              static_cast<int>(current_level().name.size()), current_level().name.data(), threads(),
              peak_f32, peak_bf16);
  std::printf("%5s %5s %5s | %9s | %7s %6s %6s | %7s %6s %6s | %7s %7s\n", "m", "n", "k",
              "OpenBLAS", "f32", "ratio", "peak", "bf16", "ratio", "peak", "dgrad", "wgrad");
  for (const Result& r : results) {
    const auto ratio = [](double x, double y) { return y > 0 ? x / y : 0; };
    std::printf(
        "%5ld %5ld %5ld | %9.1f | %7.1f %5.2fx %5.0f%% | %7.1f %5.2fx %5.0f%% | %7.1f %7.1f\n",
        static_cast<long>(r.shape.m), static_cast<long>(r.shape.n), static_cast<long>(r.shape.k),
        r.openblas, r.f32, ratio(r.f32, r.openblas), 100 * ratio(r.f32, peak_f32), r.bf16,
        ratio(r.bf16, r.openblas), 100 * ratio(r.bf16, peak_bf16), r.bf16_dgrad, r.bf16_wgrad);
  }
}

void print_json(const std::vector<Result>& results, double peak_f32, double peak_bf16) {
  std::printf(
      "{\"level\": \"%.*s\", \"threads\": %d, \"peak_f32\": %.1f, \"peak_bf16\": %.1f, \"shapes\": "
      "[",
      static_cast<int>(current_level().name.size()), current_level().name.data(), threads(),
      peak_f32, peak_bf16);
  for (size_t i = 0; i < results.size(); ++i) {
    const Result& r = results[i];
    std::printf(
        "%s\n  {\"m\": %ld, \"n\": %ld, \"k\": %ld, \"openblas_f32\": %.1f, \"f32\": %.1f, "
        "\"bf16\": %.1f, "
        "\"bf16_dgrad\": %.1f, \"bf16_wgrad\": %.1f}",
        i == 0 ? "" : ",", static_cast<long>(r.shape.m), static_cast<long>(r.shape.n),
        static_cast<long>(r.shape.k), r.openblas, r.f32, r.bf16, r.bf16_dgrad, r.bf16_wgrad);
  }
  std::printf("\n]}\n");
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 2;
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--json") {
      json = true;
    } else if (option == "--cpu-time") {
      use_cpu_time = true;
    } else if (option == "--threads" && i + 1 < argc) {
      set_threads(std::atoi(argv[++i]));
    } else if (option == "--seconds" && i + 1 < argc) {
      seconds = std::atof(argv[++i]);
    } else {
      std::fprintf(stderr, "usage: %s [--threads N] [--seconds S] [--cpu-time] [--json]\n",
                   argv[0]);
      return 2;
    }
  }
  OpenBlas openblas;
  if (openblas.set_threads != nullptr) openblas.set_threads(threads());
  const double peak_f32 = measure_peak(f32_peak(), seconds),
               peak_bf16 = measure_peak(bf16_peak(), seconds);
  std::vector<Result> results;
  for (const Shape& shape : {Shape{2048, 2048, 2048},
                             {2048, 256, 256},
                             {2048, 768, 256},
                             {2048, 1024, 256},
                             {2048, 256, 1024},
                             {2048, 768, 768},
                             {2048, 2304, 768},
                             {2048, 3072, 768},
                             {2048, 768, 3072},
                             {256, 1024, 2048},
                             {768, 768, 2048},
                             {768, 3072, 2048}}) {
    results.push_back(measure(shape, openblas, seconds));
  }
  (json ? print_json : print_table)(results, peak_f32, peak_bf16);
}
