#include "binade/backend/cpu/gemm/gemm.h"

#include <string>
#include <utility>

#include "binade/backend/cpu/gemm/variants.h"
#include "binade/base/error.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {
namespace {

bool exact_in_bf16(DType dtype) { return dtype == DType::bf16 || is_quantized(dtype); }

void check_sizes(const GemmProblem& p) {
  for (const auto& [name, size] : {std::pair("batch", p.batch), std::pair("m", p.m),
                                   std::pair("n", p.n), std::pair("k", p.k)}) {
    if (size >= 0) continue;
    fail("gemm", {.argument = name, .expected = "0 or more", .found = std::to_string(size)});
  }
}

// One matmul: p.batch is not read.
void run(const GemmProblem& p) {
  if (p.m == 0 || p.n == 0) return;
  if (p.a.dtype == DType::f64 || p.b.dtype == DType::f64) return gemm_f64(p);
  const Level& level = current_level();
  const bool bf16 = level.bf16 != nullptr && exact_in_bf16(p.a.dtype) && exact_in_bf16(p.b.dtype);
  const Kernel& kernel = bf16 ? *level.bf16 : *level.f32;
  p.m == 1 || p.n == 1 ? gemm_vector(p, kernel) : gemm_blocked(p, kernel);
}

// Whether the matmuls of a batch share B and their rows are evenly spaced throughout: then they are
// one tall matmul.
bool is_one_tall_matmul(const GemmProblem& p) {
  const TensorView& pre = p.epilogue.pre_activation;
  return p.b.batch_stride == 0 && p.a.batch_stride == p.m * p.a.row_stride &&
         p.c.batch_stride == p.m * p.c.row_stride &&
         (!pre.present || pre.strides[0] == p.m * pre.strides[1]);
}

// Matmul i of a batch.
GemmProblem batch_entry(const GemmProblem& batch, int64_t i) {
  GemmProblem p = batch;
  p.a.data = advance(p.a.data, p.a.dtype, i * p.a.batch_stride);
  p.b.data = advance(p.b.data, p.b.dtype, i * p.b.batch_stride);
  p.c.data = advance(p.c.data, p.c.dtype, i * p.c.batch_stride);
  TensorView& pre = p.epilogue.pre_activation;
  if (pre.present) pre.data = advance(pre.data, pre.dtype, i * pre.strides[0]);
  return p;
}

}  // namespace

void gemm(const GemmProblem& problem) {
  check_sizes(problem);
  if (problem.batch == 1) return run(problem);
  if (is_one_tall_matmul(problem)) {
    GemmProblem tall = problem;
    tall.m *= problem.batch;
    return run(tall);
  }
  // Large matmuls use all threads one after the other, small ones one thread each.
  const auto workers = [&](int64_t batch) {
    return worthwhile_threads(batch, problem.m, problem.n, problem.k);
  };
  if (workers(1) == workers(problem.batch)) {
    for (int64_t i = 0; i < problem.batch; ++i) run(batch_entry(problem, i));
  } else {
    parallel_for(problem.batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) run(batch_entry(problem, i));
    });
  }
}

}  // namespace binade::backend::cpu
