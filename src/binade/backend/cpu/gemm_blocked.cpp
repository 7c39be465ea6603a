#include <algorithm>
#include <atomic>

#include "binade/backend/cpu/gemm_convert.h"
#include "binade/backend/cpu/gemm_driver.h"
#include "binade/backend/cpu/gemm_epilogue.h"
#include "binade/backend/cpu/gemm_pack.h"
#include "binade/backend/cpu/gemm_scratch.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {

GemmScratch& gemm_scratch() {
  thread_local GemmScratch scratch;
  return scratch;
}

namespace {

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

// The product is cut three times. Spans: what is packed at a time, bounded in memory. K blocks:
// what a micro-kernel sums up before it goes to memory. Tiles: what a thread takes at a time. How
// sums are rounded depends on spans and K blocks along K alone, and those on nothing but k.
constexpr int64_t span_bytes = 16 << 20;  // of each packed operand
constexpr int64_t k_span = 16384;         // a multiple of every kernel's kc

// One operand, packed for a span: [K block][panel][a block's depth x panel rows].
class PackedOperand {
 public:
  PackedOperand(ScratchBuffer& buffer, const PackSource& source, int64_t rows, PanelLayout layout)
      : buffer_(buffer), source_(source), total_(rows), layout_(layout) {}

  // Decides what to pack; true if that is not what is packed already.
  bool aim(int64_t row, int64_t rows, int64_t k, int64_t depth, const Kernel& kernel) {
    if (row == row_ && k == k_ && data_ != nullptr) return false;
    row_ = row;
    rows_ = rows;
    k_ = k;
    depth_ = depth;
    kc_ = kernel.kc;
    element_bytes_ = kernel.element_bytes();
    group_ = kernel.group();
    const int64_t padded = round_up(depth, group_) * panels() * layout_.rows;
    data_ = buffer_.get<char>(padded * element_bytes_);
    return true;
  }

  int64_t panels() const { return divide_up(rows_, layout_.rows); }
  int64_t blocks() const { return divide_up(depth_, kc_); }

  // Packs one (K block, panel) pair.
  void pack(int64_t item) const {
    const int64_t block = item / panels(), index = item % panels();
    const int64_t row = index * layout_.rows;
    const int64_t depth = std::min(kc_, depth_ - block * kc_);
    char* out = panel(block, index);
    pack_panel(source_, row_ + row, std::min<int64_t>(layout_.rows, rows_ - row), k_ + block * kc_,
               depth, layout_, out);
    // The other operand's group may be larger than this one's.
    const int64_t own = round_up(depth, layout_.group), whole = round_up(depth, group_);
    const int64_t row_bytes = layout_.rows * element_bytes_;
    std::fill(out + own * row_bytes, out + whole * row_bytes, char{0});
  }

  char* panel(int64_t block, int64_t index) const {
    const int64_t depth = round_up(std::min(kc_, depth_ - block * kc_), group_);
    return data_ + (block * kc_ * panels() + depth * index) * layout_.rows * element_bytes_;
  }

 private:
  ScratchBuffer& buffer_;
  PackSource source_;
  int64_t total_;
  PanelLayout layout_;
  int64_t row_ = 0, rows_ = 0, k_ = 0, depth_ = 0, kc_ = 1, group_ = 1, element_bytes_ = 0;
  char* data_ = nullptr;
};

struct Range {
  int64_t begin, size;
};

// What one pass over packed operands computes, and how it is cut into tiles.
struct Pass {
  const Problem& problem;
  const Kernel& kernel;
  const PackedOperand& a;
  const PackedOperand& b;
  Range rows, columns;
  int64_t depth;          // of the span; 0 where k is 0
  bool first, last;       // of the spans along K
  int64_t tile_rows, tile_columns;
  float* sums;            // of all tiles, kept between spans; null where one span is all

  int64_t tile_size() const { return tile_rows * tile_columns; }
  int64_t tiles_across() const { return divide_up(columns.size, tile_columns); }
  int64_t tiles() const { return divide_up(rows.size, tile_rows) * tiles_across(); }
};

void multiply(const Pass& pass, Range rows, Range columns, float* sums) {
  const Kernel& kernel = pass.kernel;
  const int64_t ldc = pass.tile_columns;
  const int64_t first_a = rows.begin / kernel.mr, first_b = columns.begin / kernel.nr;
  const int64_t panels_a = divide_up(rows.size, kernel.mr);
  const int64_t panels_b = divide_up(columns.size, kernel.nr);
  if (pass.depth == 0) std::fill_n(sums, pass.tile_size(), 0.0f);
  if (kernel.enter != nullptr) kernel.enter();
  for (int64_t block = 0; block * kernel.kc < pass.depth; ++block) {
    const int64_t depth =
        round_up(std::min(kernel.kc, pass.depth - block * kernel.kc), kernel.group());
    const bool accumulate = block > 0 || !pass.first;
    for (int64_t j = 0; j < panels_b; ++j) {
      const char* b = pass.b.panel(block, first_b + j);
      for (int64_t i = 0; i < panels_a; ++i) {
        kernel.tile(depth, pass.a.panel(block, first_a + i), b,
                    sums + i * kernel.mr * ldc + j * kernel.nr, ldc, accumulate);
      }
    }
  }
  if (kernel.leave != nullptr) kernel.leave();
}

void finish(const Pass& pass, Range rows, Range columns, float* sums, float* bias) {
  const Problem& p = pass.problem;
  const Epilogue& e = p.epilogue;
  const int64_t row = pass.rows.begin + rows.begin, column = pass.columns.begin + columns.begin;
  const int64_t c_size = element_size(p.c.type);
  if (e.bias != nullptr) {
    const char* from = static_cast<const char*>(e.bias) + column * element_size(e.bias_type);
    read_elements(from, e.bias_type, 1, columns.size, bias);
  }
  for (int64_t i = 0; i < rows.size; ++i) {
    char* c = static_cast<char*>(p.c.data) +
              ((row + i) * p.c.row_stride + column * p.c.col_stride) * c_size;
    char* pre = static_cast<char*>(e.pre_activation);
    if (pre != nullptr) {
      pre += ((row + i) * e.pre_row_stride + column) * element_size(e.pre_activation_type);
    }
    finish_run(sums + i * pass.tile_columns, columns.size, e.bias != nullptr ? bias : nullptr, e,
               p.c.type, {c, p.c.col_stride, pre, 1});
  }
}

void compute_tile(const Pass& pass, int64_t index) {
  const int64_t row = index / pass.tiles_across() * pass.tile_rows;
  const int64_t column = index % pass.tiles_across() * pass.tile_columns;
  const Range rows{row, std::min(pass.tile_rows, pass.rows.size - row)};
  const Range columns{column, std::min(pass.tile_columns, pass.columns.size - column)};
  float* own = gemm_scratch().tile.get<float>(pass.tile_size() + pass.tile_columns);
  float* bias = own + pass.tile_size();
  float* sums = pass.sums != nullptr ? pass.sums + index * pass.tile_size() : own;
  multiply(pass, rows, columns, sums);
  if (pass.last) finish(pass, rows, columns, sums, bias);
}

// Lets every thread take the next item until none is left: neighbours that are slow, or a tile at
// the edge that is small, cost no waiting. Who computes an item does not show in its result.
template <class Body>
void share(int64_t items, Body body) {
  std::atomic<int64_t> next = 0;
  parallel_for(std::min<int64_t>(threads(), items), 1, [&](int64_t, int64_t) {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < items;) body(i);
  });
}

// Tiles small enough for a block of packed A to stay in the second-level cache, and several for
// each thread.
void choose_tiles(Pass& pass) {
  const Kernel& kernel = pass.kernel;
  const auto even = [](int64_t size, int64_t most, int64_t unit) {
    return round_up(divide_up(size, divide_up(size, most)), unit);
  };
  int64_t rows = 128, columns = 240;
  const int64_t wanted = 4 * threads();
  const auto count = [&] {
    return divide_up(pass.rows.size, rows) * divide_up(pass.columns.size, columns);
  };
  while (count() < wanted && (rows > 2 * kernel.mr || columns > 2 * kernel.nr)) {
    if (columns >= rows && columns > 2 * kernel.nr) {
      columns /= 2;
    } else {
      rows /= 2;
    }
  }
  pass.tile_rows = even(pass.rows.size, std::max<int64_t>(rows, kernel.mr), kernel.mr);
  pass.tile_columns = even(pass.columns.size, std::max<int64_t>(columns, kernel.nr), kernel.nr);
}

}  // namespace

void gemm_blocked(const Problem& p, const Kernel& kernel) {
  GemmScratch& scratch = gemm_scratch();
  const PackSource source_a{p.a.data, p.a.type, p.a.row_stride, p.a.col_stride,
                            p.epilogue.round_tf32};
  const PackSource source_b{p.b.data, p.b.type, p.b.col_stride, p.b.row_stride,
                            p.epilogue.round_tf32};
  PackedOperand a(scratch.packed_a, source_a, p.m, {kernel.bf16, kernel.mr, kernel.a_group});
  PackedOperand b(scratch.packed_b, source_b, p.n, {kernel.bf16, kernel.nr, kernel.b_group});

  const int64_t depth = std::clamp<int64_t>(p.k, 1, k_span);
  const int64_t span = span_bytes / (depth * kernel.element_bytes());
  const int64_t m_span = std::max<int64_t>(span / kernel.mr, 1) * kernel.mr;
  const int64_t n_span = std::max<int64_t>(span / kernel.nr, 1) * kernel.nr;
  const int64_t spans = std::max<int64_t>(divide_up(p.k, k_span), 1);

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
                  .first = s == 0,
                  .last = s + 1 == spans};
        choose_tiles(pass);
        if (spans > 1) pass.sums = scratch.sums.get<float>(pass.tiles() * pass.tile_size());
        const bool pack_a = a.aim(i, pass.rows.size, s * k_span, pass.depth, kernel);
        const bool pack_b = b.aim(j, pass.columns.size, s * k_span, pass.depth, kernel);
        const int64_t items_a = pack_a ? a.panels() * a.blocks() : 0;
        const int64_t items_b = pack_b ? b.panels() * b.blocks() : 0;
        share(items_a + items_b, [&](int64_t x) { x < items_a ? a.pack(x) : b.pack(x - items_a); });
        share(pass.tiles(), [&](int64_t x) { compute_tile(pass, x); });
      }
    }
  }
}

}  // namespace binade::backend::cpu
