#include <algorithm>

#include "binade/backend/cpu/gemm/pass.h"
#include "binade/backend/cpu/gemm/scratch.h"
#include "binade/backend/cpu/gemm/variants.h"
#include "binade/base/parallel.h"
#include "binade/base/work_stealing.h"

namespace binade::backend::cpu {

GemmScratch& gemm_scratch() {
  thread_local GemmScratch scratch;
  return scratch;
}

int64_t worthwhile_threads(int64_t batch, int64_t m, int64_t n, int64_t k) {
  constexpr double products_per_thread = 1 << 19;
  double products = 1;
  for (int64_t size : {batch, m, n, k}) products *= static_cast<double>(size);
  return static_cast<int64_t>(std::clamp<double>(products / products_per_thread, 1, threads()));
}

namespace {

// The product is cut three times. Spans: what is packed at a time, bounded in memory. K blocks:
// what a micro-kernel sums up before it goes to memory. Tiles: what a thread takes at a time. How
// sums are rounded depends on spans and K blocks along K alone, and those on nothing but k.
constexpr int64_t span_bytes = 16 << 20;  // of each packed operand
constexpr int64_t k_span = 16384;         // a multiple of every kernel's kc

bool outputs_are_sums(const Problem& p) {
  const Epilogue& e = p.epilogue;
  return p.c.type == Element::f32 && p.c.col_stride == 1 && e.alpha == 1 && e.beta == 0 &&
         e.bias == nullptr && e.activation == Activation::none && e.pre_activation == nullptr;
}

}  // namespace

void gemm_blocked(const Problem& p, const Kernel& kernel) {
  GemmScratch& scratch = gemm_scratch();
  const PackSource source_a{p.a.data, p.a.type, p.a.row_stride, p.a.col_stride,
                            p.epilogue.round_tf32};
  const PackSource source_b{p.b.data, p.b.type, p.b.col_stride, p.b.row_stride,
                            p.epilogue.round_tf32};
  const int64_t workers = worthwhile_threads(1, p.m, p.n, p.k);
  const int64_t depth = std::clamp<int64_t>(p.k, 1, k_span);
  const int64_t span = span_bytes / (depth * kernel.element_bytes());
  const int64_t m_span = std::max<int64_t>(span / kernel.mr, 1) * kernel.mr;
  const int64_t n_span = std::max<int64_t>(span / kernel.nr, 1) * kernel.nr;
  const int64_t spans = std::max<int64_t>(divide_up(p.k, k_span), 1);
  const int64_t kc = round_up(divide_up(depth, divide_up(depth, kernel.kc)), kernel.group());
  const auto layout = [&](int rows, int group) {
    return PanelLayout{kernel.bf16, rows, group, kernel.group()};
  };
  PackedOperand a(scratch.packed_a, source_a, layout(kernel.mr, kernel.a_group), kc);
  PackedOperand b(scratch.packed_b, source_b, layout(kernel.nr, kernel.b_group), kc);

  for (int64_t i = 0; i < p.m; i += m_span) {
    for (int64_t j = 0; j < p.n; j += n_span) {
      for (int64_t s = 0; s < spans; ++s) {
        Pass pass{.problem = p,
                  .kernel = kernel,
                  .a = a,
                  .b = b,
                  .rows = {i, std::min(m_span, p.m - i)},
                  .columns = {j, std::min(n_span, p.n - j)},
                  .depth = std::min(k_span, p.k - s * k_span),
                  .kc = kc,
                  .first = s == 0,
                  .last = s + 1 == spans,
                  .plain = outputs_are_sums(p)};
        choose_tiles(pass, workers);
        if (spans > 1) pass.sums = scratch.sums.get<float>(pass.tiles() * pass.tile_size());
        pass.own_rows = p.n <= pass.tile_columns;
        const bool pack_a =
            !pass.own_rows && a.select_block(i, pass.rows.size, s * k_span, pass.depth);
        if (pass.own_rows) a.aim_in_parts(i, pass.rows.size, s * k_span, pass.depth);
        const bool pack_b = b.select_block(j, pass.columns.size, s * k_span, pass.depth);
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
