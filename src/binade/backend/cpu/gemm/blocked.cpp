#include <algorithm>

#include "binade/backend/cpu/gemm/k_blocks.h"
#include "binade/backend/cpu/gemm/pass.h"
#include "binade/backend/cpu/gemm/scratch.h"
#include "binade/backend/cpu/gemm/variants.h"
#include "binade/base/parallel.h"
#include "binade/base/work_stealing.h"

namespace binade::backend::cpu {

GemmScratch& gemm_scratch() {
  // Kept between calls, which threads make at the same time.
  thread_local GemmScratch scratch;
  return scratch;
}

int64_t worthwhile_threads(int64_t batch, int64_t m, int64_t n, int64_t k) {
  // 2^19 multiply-adds take some ten microseconds on one core, well above the cost of waking it.
  constexpr double work_per_thread = 1 << 19;
  double work = 1;
  for (int64_t size : {batch, m, n, k}) work *= static_cast<double>(size);
  return static_cast<int64_t>(std::clamp<double>(work / work_per_thread, 1, threads()));
}

namespace {

// A matmul is divided on three levels. Spans are packed at a time, so that packed memory is
// bounded. K blocks are summed in registers before sums go to memory. Tiles are the work items of
// threads.
constexpr int64_t span_bytes = 16 << 20;  // per packed operand: several times an L2 cache

bool outputs_are_sums(const GemmProblem& p) {
  const Epilogue& e = p.epilogue;
  return p.c.dtype == DType::f32 && p.c.col_stride == 1 && e.alpha == 1 && e.beta == 0 &&
         !e.bias.present && e.activation == Activation::none && !e.pre_activation.present;
}

}  // namespace

void gemm_blocked(const GemmProblem& p, const Kernel& kernel) {
  GemmScratch& scratch = gemm_scratch();
  const bool tf32 = p.epilogue.tf32;
  const OperandRows source_a{p.a.data, p.a.dtype, p.a.row_stride, p.a.col_stride, tf32};
  const OperandRows source_b{p.b.data, p.b.dtype, p.b.col_stride, p.b.row_stride, tf32};
  const int64_t workers = worthwhile_threads(1, p.m, p.n, p.k);
  const KBlocks k_blocks(p.k, kernel);
  const int64_t span = span_bytes / (k_blocks.span_depth() * kernel.element_bytes());
  const int64_t m_span = std::max<int64_t>(round_down(span, kernel.mr), kernel.mr);
  const int64_t n_span = std::max<int64_t>(round_down(span, kernel.nr), kernel.nr);
  const int64_t spans = k_blocks.spans(), kc = k_blocks.depth();
  const auto layout = [&](int rows, int group) {
    return PanelLayout{kernel.bf16, rows, group, kernel.group()};
  };
  PackedOperand a(scratch.packed_a, source_a, layout(kernel.mr, kernel.a_group), kc);
  PackedOperand b(scratch.packed_b, source_b, layout(kernel.nr, kernel.b_group), kc);

  for (int64_t i = 0; i < p.m; i += m_span) {
    for (int64_t j = 0; j < p.n; j += n_span) {
      float* sums = nullptr;  // one tile after another, for all spans of K
      for (int64_t s = 0; s < spans; ++s) {
        Pass pass{.problem = p,
                  .kernel = kernel,
                  .a = a,
                  .b = b,
                  .rows = {i, std::min(m_span, p.m - i)},
                  .columns = {j, std::min(n_span, p.n - j)},
                  .depth = std::min(KBlocks::span, p.k - s * KBlocks::span),
                  .kc = kc,
                  .first = s == 0,
                  .last = s + 1 == spans,
                  .plain = outputs_are_sums(p)};
        choose_tiles(pass, workers);
        if (spans > 1 && s == 0) sums = scratch.sums.get<float>(pass.tiles() * pass.tile_size());
        pass.sums = sums;
        pass.own_rows = p.n <= pass.tile_columns;
        const OperandBlock block_a{i, pass.rows.size, s * KBlocks::span, pass.depth},
            block_b{j, pass.columns.size, s * KBlocks::span, pass.depth};
        if (pass.own_rows) a.select_unpacked_block(block_a);
        const bool pack_a = !pass.own_rows && a.select_block(block_a);
        const bool pack_b = b.select_block(block_b);
        const int64_t items_a = pack_a ? a.items() : 0;
        const int64_t items_b = pack_b ? b.items() : 0;
        run_two_phases(
            workers, items_a + items_b,
            [&](int64_t x) { x < items_a ? a.pack(x) : b.pack(x - items_a); }, pass.tiles(),
            [&](int64_t x) { compute_tile(pass, x); });
      }
    }
  }
}

}  // namespace binade::backend::cpu
