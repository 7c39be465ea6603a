#include <algorithm>

#include "binade/backend/cpu/gemm_convert.h"
#include "binade/backend/cpu/gemm_driver.h"
#include "binade/backend/cpu/gemm_epilogue.h"
#include "binade/backend/cpu/gemm_pass.h"
#include "binade/backend/cpu/gemm_scratch.h"
#include "binade/base/parallel.h"
#include "binade/base/shared_items.h"

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

constexpr int64_t cache_line = 64;

void prefetch(const char* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += cache_line) __builtin_prefetch(from + i, 0, 2);
}

// Where an element of the output lies; row and column count from the span's first.
void* output_at(const Pass& pass, int64_t row, int64_t column) {
  const Output& c = pass.problem.c;
  return advance(
      c.data, c.type,
      (pass.rows.begin + row) * c.row_stride + (pass.columns.begin + column) * c.col_stride);
}

// The sums that a micro-tile adds to, which the kernel reads last.
void prefetch_sums(const Kernel& kernel, const float* sums, int64_t ldc) {
  constexpr int64_t line = cache_line / sizeof(float);
  for (int64_t i = 0; i < kernel.mr; ++i, sums += ldc) {
    for (int64_t j = 0; j < kernel.nr; j += line) __builtin_prefetch(sums + j, 1, 3);
  }
}

// A tile on its way through the K blocks.
struct TileWork {
  const Pass& pass;
  Range rows, columns;  // of the span
  float* sums;
  float* bias;  // of the tile's columns, or null

  // The rows of A of a K block, panel after panel.
  const char* rows_of_a(int64_t block, int64_t bytes) const {
    if (!pass.own_rows) return pass.a.panel(block, rows.begin / pass.kernel.mr);
    char* packed = gemm_scratch().rows.get<char>(bytes);
    pass.a.pack_rows(block, rows.begin, rows.size, packed);
    return packed;
  }

  // Whether a micro-tile that ends at this row and column of a strip goes straight to the output.
  bool in_place(int64_t row_end, int64_t column_end, Range strip) const {
    return pass.direct() && row_end <= rows.size && column_end <= strip.size;
  }
};

// One of a tile's K blocks.
struct Block {
  int64_t index, depth;
  const char* a;          // the tile's rows, panel after panel
  bool accumulate, last;  // adds to earlier sums; completes them
};

// All panels of A times those of one strip of B. B's, the wider ones, stay in the first-level cache
// where they fit, and each meets all of A's. Otherwise A's stay: B's then come in the order of
// their addresses, and sums go to memory along their rows.
void multiply_strip(const TileWork& work, const Block& block, Range columns, float* sums) {
  const Pass& pass = work.pass;
  const Kernel& kernel = pass.kernel;
  const int64_t a_bytes = block.depth * kernel.mr * kernel.element_bytes();
  const int64_t b_bytes = block.depth * kernel.nr * kernel.element_bytes();
  const int64_t panels_a = divide_up(work.rows.size, kernel.mr);
  const int64_t panels_b = divide_up(columns.size, kernel.nr);
  const char* b = pass.b.panel(block.index, columns.begin / kernel.nr);
  const bool b_stays = pass.b_stays(block.depth);
  const int64_t part = divide_up(b_bytes, panels_a);
  const char* far = b + b_bytes;
  const auto micro_tile = [&](int64_t i, int64_t j) __attribute__((always_inline)) {
    const int64_t row = i * kernel.mr, column = j * kernel.nr;
    const bool in_place = work.in_place(row + kernel.mr, column + kernel.nr, columns);
    float* out =
        in_place
            ? static_cast<float*>(output_at(pass, work.rows.begin + row, columns.begin + column))
            : sums + row * pass.strip + column;
    const int64_t ldc = in_place ? pass.problem.c.row_stride : pass.strip;
    if (b_stays) {  // the next one is still far away: fetch a part of it each time
      prefetch(far, part);
      far += part;
      if (block.accumulate) prefetch_sums(kernel, out, ldc);
    }
    kernel.tile(block.depth, block.a + i * a_bytes, b + j * b_bytes, out, ldc, block.accumulate);
  };
  if (b_stays) {
    for (int64_t j = 0; j < panels_b; ++j) {
      for (int64_t i = 0; i < panels_a; ++i) micro_tile(i, j);
    }
  } else {
    for (int64_t i = 0; i < panels_a; ++i) {
      for (int64_t j = 0; j < panels_b; ++j) micro_tile(i, j);
    }
  }
}

// Turns the sums of some rows and columns of a strip, counted from its first, into outputs.
void finish_part(const TileWork& work, Range strip, Range rows, Range columns, float* sums) {
  const Pass& pass = work.pass;
  const Problem& p = pass.problem;
  const Epilogue& e = p.epilogue;
  const int64_t row = work.rows.begin + rows.begin, column = strip.begin + columns.begin;
  void* pre = nullptr;
  if (e.pre_activation != nullptr) {
    pre = advance(e.pre_activation, e.pre_activation_type,
                  (pass.rows.begin + row) * e.pre_row_stride + pass.columns.begin + column);
  }
  const float* bias = work.bias != nullptr ? work.bias + column - work.columns.begin : nullptr;
  finish_rows(sums + rows.begin * pass.strip + columns.begin, pass.strip, rows.size, columns.size,
              bias, e, p.c.type, {output_at(pass, row, column), p.c.col_stride, pre, 1},
              p.c.row_stride);
}

void finish_strip(const TileWork& work, Range columns, float* sums) {
  const Pass& pass = work.pass;
  const int64_t rows = work.rows.size;
  if (!pass.direct()) return finish_part(work, columns, {0, rows}, {0, columns.size}, sums);
  // What did not fill a micro-tile: below the whole ones, and to the right of them.
  const int64_t whole_rows = rows / pass.kernel.mr * pass.kernel.mr;
  const int64_t whole_columns = columns.size / pass.kernel.nr * pass.kernel.nr;
  finish_part(work, columns, {whole_rows, rows - whole_rows}, {0, columns.size}, sums);
  finish_part(work, columns, {0, whole_rows}, {whole_columns, columns.size - whole_columns}, sums);
}

void multiply(const TileWork& work) {
  const Pass& pass = work.pass;
  const Kernel& kernel = pass.kernel;
  const int64_t panels_a = divide_up(work.rows.size, kernel.mr);
  if (kernel.enter != nullptr) kernel.enter();
  for (int64_t i = 0; i < pass.blocks(); ++i) {
    const int64_t depth = round_up(std::min(pass.kc, pass.depth - i * pass.kc), kernel.group());
    const int64_t a_bytes = depth * kernel.mr * panels_a * kernel.element_bytes();
    const Block block{.index = i,
                      .depth = depth,
                      .a = work.rows_of_a(i, a_bytes),
                      .accumulate = i > 0 || !pass.first,
                      .last = pass.last && i + 1 == pass.blocks()};
    float* sums = work.sums;
    for (int64_t j = 0; j < work.columns.size; j += pass.strip) {
      const Range columns{work.columns.begin + j, std::min(pass.strip, work.columns.size - j)};
      multiply_strip(work, block, columns, sums);
      if (block.last) finish_strip(work, columns, sums);
      if (pass.keeps_sums()) sums += pass.tile_rows * pass.strip;
    }
  }
  if (kernel.leave != nullptr) kernel.leave();
}

void compute_tile(const Pass& pass, int64_t index) {
  const int64_t row = index / pass.tiles_across() * pass.tile_rows;
  const int64_t column = index % pass.tiles_across() * pass.tile_columns;
  const Range rows{row, std::min(pass.tile_rows, pass.rows.size - row)};
  const Range columns{column, std::min(pass.tile_columns, pass.columns.size - column)};
  float* own = gemm_scratch().tile.get<float>(pass.tile_size() + pass.tile_columns);
  float* sums = pass.sums != nullptr ? pass.sums + index * pass.tile_size() : own;
  float* bias = nullptr;
  const Epilogue& e = pass.problem.epilogue;
  if (e.bias != nullptr && pass.last) {
    bias = own + pass.tile_size();
    read_elements(advance(e.bias, e.bias_type, pass.columns.begin + column), e.bias_type, 1,
                  columns.size, bias);
  }
  multiply({pass, rows, columns, sums, bias});
}

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
        const bool pack_a = !pass.own_rows && a.aim(i, pass.rows.size, s * k_span, pass.depth);
        if (pass.own_rows) a.aim_in_parts(i, pass.rows.size, s * k_span, pass.depth);
        const bool pack_b = b.aim(j, pass.columns.size, s * k_span, pass.depth);
        const int64_t items_a = pack_a ? a.items() : 0;
        const int64_t items_b = pack_b ? b.items() : 0;
        share_in_turn(
            workers, items_a + items_b,
            [&](int64_t x) { x < items_a ? a.pack(x) : b.pack(x - items_a); }, pass.tiles(),
            [&](int64_t x) { compute_tile(pass, x); });
      }
    }
  }
}

}  // namespace binade::backend::cpu
