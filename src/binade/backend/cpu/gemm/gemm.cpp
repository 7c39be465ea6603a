#include "binade/backend/cpu/gemm/gemm.h"

#include <string>

#include "binade/backend/cpu/gemm/variants.h"
#include "binade/base/error.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {
namespace {

bool exact_in_bf16(Element type) {
  return type == Element::bf16 || type == Element::e4m3 || type == Element::e5m2;
}

void check_size(const char* name, int64_t size) {
  if (size < 0) {
    fail("gemm", {.argument = name, .expected = "0 or more", .found = std::to_string(size)});
  }
}

void run(const Problem& p) {
  if (p.m == 0 || p.n == 0) return;
  if (p.a.type == Element::f64 || p.b.type == Element::f64) return gemm_f64(p);
  if (p.m == 1 || p.n == 1) return gemm_skinny(p);
  const Level& level = current_level();
  const bool bf16 = level.bf16 != nullptr && exact_in_bf16(p.a.type) && exact_in_bf16(p.b.type);
  gemm_blocked(p, bf16 ? *level.bf16 : *level.f32);
}

// The products of a batch that share B and whose rows follow one another are one tall product.
bool is_one_tall_product(const Problem& p, int64_t a_stride, int64_t b_stride, int64_t c_stride) {
  const Epilogue& e = p.epilogue;
  return b_stride == 0 && a_stride == p.m * p.a.row_stride && c_stride == p.m * p.c.row_stride &&
         (e.pre_activation == nullptr || e.pre_batch_stride == p.m * e.pre_row_stride);
}

}  // namespace

void gemm(int64_t m, int64_t n, int64_t k, Operand a, Operand b, Output c,
          const Epilogue& epilogue) {
  check_size("m", m);
  check_size("n", n);
  check_size("k", k);
  run({m, n, k, a, b, c, epilogue});
}

void gemm_batched(int64_t batch, int64_t m, int64_t n, int64_t k, Operand a, int64_t a_batch_stride,
                  Operand b, int64_t b_batch_stride, Output c, int64_t c_batch_stride,
                  const Epilogue& epilogue) {
  check_size("batch", batch);
  check_size("m", m);
  check_size("n", n);
  check_size("k", k);
  const Problem first{m, n, k, a, b, c, epilogue};
  if (is_one_tall_product(first, a_batch_stride, b_batch_stride, c_batch_stride)) {
    return gemm(batch * m, n, k, a, b, c, epilogue);
  }
  const auto run_one = [&](int64_t i) {
    Problem p = first;
    p.a.data = advance(a.data, a.type, i * a_batch_stride);
    p.b.data = advance(b.data, b.type, i * b_batch_stride);
    p.c.data = advance(c.data, c.type, i * c_batch_stride);
    if (epilogue.pre_activation != nullptr) {
      p.epilogue.pre_activation = advance(epilogue.pre_activation, epilogue.pre_activation_type,
                                          i * epilogue.pre_batch_stride);
    }
    run(p);
  };
  // Large products use all threads one after the other, small ones a thread each.
  const int64_t workers = worthwhile_threads(batch, m, n, k);
  if (worthwhile_threads(1, m, n, k) == workers) {
    for (int64_t i = 0; i < batch; ++i) run_one(i);
  } else {
    parallel_for(batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) run_one(i);
    });
  }
}

}  // namespace binade::backend::cpu
