#include <algorithm>

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

int64_t worthwhile_threads(int64_t batch, int64_t m, int64_t n, int64_t k) {
  constexpr double products_per_thread = 1 << 19;
  double products = 1;
  for (int64_t size : {batch, m, n, k}) products *= static_cast<double>(size);
  return static_cast<int64_t>(std::clamp<double>(products / products_per_thread, 1, threads()));
}

namespace {

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

// The product is cut three times. Spans: what is packed at a time, bounded in memory. K blocks:
// what a micro-kernel sums up before it goes to memory. Tiles: what a thread takes at a time. How
// sums are rounded depends on spans and K blocks along K alone, and those on nothing but k.
constexpr int64_t span_bytes = 16 << 20;  // of each packed operand
constexpr int64_t k_span = 16384;         // a multiple of every kernel's kc

// One operand, packed for a span: [K block][panel][depth of the block x rows of a panel].
class PackedOperand {
 public:
  PackedOperand(ScratchBuffer& buffer, const PackSource& source, PanelLayout layout,
                const Kernel& kernel, int64_t kc)
      : buffer_(buffer),
        source_(source),
        layout_(layout),
        row_bytes_(layout.rows * kernel.element_bytes()),
        group_(kernel.group()),
        kc_(kc) {}

  // Decides what to pack next; false if that is what is packed already.
  bool aim(int64_t row, int64_t rows, int64_t k, int64_t depth) {
    if (row == row_ && k == k_ && data_ != nullptr) return false;
    aim_in_parts(row, rows, k, depth);
    data_ = buffer_.get<char>(round_up(depth, group_) * panels() * row_bytes_);
    return true;
  }

  // The same for an operand that pack_rows() packs where it is wanted.
  void aim_in_parts(int64_t row, int64_t rows, int64_t k, int64_t depth) {
    row_ = row;
    rows_ = rows;
    k_ = k;
    depth_ = depth;
  }

  // Packing is cut into items that threads share: a few panels of one K block.
  int64_t items() const { return divide_up(panels(), item_panels) * divide_up(depth_, kc_); }

  void pack(int64_t item) const {
    const int64_t items_per_block = divide_up(panels(), item_panels);
    const int64_t block = item / items_per_block;
    const int64_t first = item % items_per_block * item_panels;
    const int64_t row = first * layout_.rows;
    const int64_t rows = std::min(item_panels * layout_.rows, rows_ - row);
    pack_rows(block, row, rows, panel(block, first));
  }

  // Packs some rows of a K block, panel after panel.
  void pack_rows(int64_t block, int64_t row, int64_t rows, char* panels) const {
    const int64_t depth = std::min(kc_, depth_ - block * kc_);
    pack_panels(source_, row_ + row, rows, k_ + block * kc_, depth, layout_, panels,
                round_up(depth, group_) * row_bytes_);
  }

  char* panel(int64_t block, int64_t index) const {
    const int64_t depth = round_up(std::min(kc_, depth_ - block * kc_), group_);
    return data_ + (block * kc_ * panels() + depth * index) * row_bytes_;
  }

 private:
  static constexpr int64_t item_panels = 8;

  int64_t panels() const { return divide_up(rows_, layout_.rows); }

  ScratchBuffer& buffer_;
  PackSource source_;
  PanelLayout layout_;
  int64_t row_bytes_, group_, kc_;
  int64_t row_ = 0, rows_ = 0, k_ = 0, depth_ = 0;
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
  int64_t depth;     // of the span; 0 where k is 0
  int64_t kc;        // depth of a K block
  bool first, last;  // of the spans along K
  int64_t tile_rows, tile_columns;
  float* sums;    // of all tiles, kept between spans; null where one span is all
  bool own_rows;  // no two tiles share rows of A, so that each packs its own

  int64_t tile_size() const { return tile_rows * tile_columns; }
  int64_t tiles_across() const { return divide_up(columns.size, tile_columns); }
  int64_t tiles() const { return divide_up(rows.size, tile_rows) * tiles_across(); }
};

void prefetch(const char* from, int64_t bytes) {
  constexpr int64_t cache_line = 64;
  for (int64_t i = 0; i < bytes; i += cache_line) __builtin_prefetch(from + i, 0, 2);
}

// Where an element of the output lies; row and column count from the span's first.
char* output_at(const Pass& pass, int64_t row, int64_t column) {
  const Output& c = pass.problem.c;
  const int64_t at =
      (pass.rows.begin + row) * c.row_stride + (pass.columns.begin + column) * c.col_stride;
  return static_cast<char*>(c.data) + at * element_size(c.type);
}

// The outputs of a micro-tile are written soon after it; have their cache lines here by then.
void prefetch_output(const Pass& pass, int64_t row, int64_t column) {
  const int64_t rows = std::min<int64_t>(pass.kernel.mr, pass.rows.size - row);
  char* first = output_at(pass, row, column);
  const int64_t stride = pass.problem.c.row_stride * element_size(pass.problem.c.type);
  for (int64_t i = 0; i < rows; ++i) __builtin_prefetch(first + i * stride, 1, 2);
}

// The sums that a micro-tile adds to, which the kernel reads last.
void prefetch_sums(const float* sums, int64_t rows, int64_t ldc) {
  for (int64_t i = 0; i < rows; ++i) __builtin_prefetch(sums + i * ldc, 1, 3);
}

void multiply(const Pass& pass, Range rows, Range columns, float* sums) {
  const Kernel& kernel = pass.kernel;
  const int64_t ldc = pass.tile_columns;
  const int64_t first_a = rows.begin / kernel.mr, first_b = columns.begin / kernel.nr;
  const int64_t panels_a = divide_up(rows.size, kernel.mr);
  const int64_t panels_b = divide_up(columns.size, kernel.nr);
  if (pass.depth == 0) std::fill_n(sums, pass.tile_size(), 0.0f);
  if (kernel.enter != nullptr) kernel.enter();
  for (int64_t block = 0; block * pass.kc < pass.depth; ++block) {
    const int64_t depth = round_up(std::min(pass.kc, pass.depth - block * pass.kc), kernel.group());
    const int64_t a_bytes = depth * kernel.mr * kernel.element_bytes();
    const int64_t b_bytes = depth * kernel.nr * kernel.element_bytes();
    const int64_t b_share = divide_up(b_bytes, panels_a);
    const bool accumulate = block > 0 || !pass.first;
    const bool finishing = pass.last && (block + 1) * pass.kc >= pass.depth;
    const char* first_panel;
    if (pass.own_rows) {
      char* packed = gemm_scratch().rows.get<char>(a_bytes * panels_a);
      pass.a.pack_rows(block, rows.begin, rows.size, packed);
      first_panel = packed;
    } else {
      first_panel = pass.a.panel(block, first_a);
    }
    const char* b = pass.b.panel(block, first_b);
    for (int64_t j = 0; j < panels_b; ++j, b += b_bytes) {
      const char* a = first_panel;
      const char* next_b = b + b_bytes;
      float* out = sums + j * kernel.nr;
      for (int64_t i = 0; i < panels_a; ++i, a += a_bytes, out += kernel.mr * ldc) {
        // The panel of B that comes next is still far away; fetch a share of it now.
        prefetch(next_b, b_share);
        next_b += b_share;
        if (accumulate) prefetch_sums(out, kernel.mr, ldc);
        if (finishing)
          prefetch_output(pass, rows.begin + i * kernel.mr, columns.begin + j * kernel.nr);
        kernel.tile(depth, a, b, out, ldc, accumulate);
      }
    }
  }
  if (kernel.leave != nullptr) kernel.leave();
}

void finish(const Pass& pass, Range rows, Range columns, float* sums, float* bias) {
  const Problem& p = pass.problem;
  const Epilogue& e = p.epilogue;
  const int64_t row = pass.rows.begin + rows.begin, column = pass.columns.begin + columns.begin;
  if (e.bias != nullptr) {
    const char* from = static_cast<const char*>(e.bias) + column * element_size(e.bias_type);
    read_elements(from, e.bias_type, 1, columns.size, bias);
  }
  for (int64_t i = 0; i < rows.size; ++i) {
    char* c = output_at(pass, rows.begin + i, columns.begin);
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

// A tile's block of packed A stays in the second-level cache, and pays for its way there with many
// columns; every worker gets several tiles where there are enough.
void choose_tiles(Pass& pass, int64_t workers) {
  const Kernel& kernel = pass.kernel;
  int64_t rows = 128, columns = 1024;
  const auto count = [&] {
    return divide_up(pass.rows.size, rows) * divide_up(pass.columns.size, columns);
  };
  while (workers > 1 && count() < 4 * workers &&
         (rows > 2 * kernel.mr || columns > 2 * kernel.nr)) {
    int64_t& larger = columns >= rows && columns > 2 * kernel.nr ? columns : rows;
    larger /= 2;
  }
  const auto even = [](int64_t size, int64_t most, int64_t unit) {
    return round_up(divide_up(size, divide_up(size, most)), unit);
  };
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
  const int64_t workers = worthwhile_threads(1, p.m, p.n, p.k);
  const int64_t depth = std::clamp<int64_t>(p.k, 1, k_span);
  const int64_t span = span_bytes / (depth * kernel.element_bytes());
  const int64_t m_span = std::max<int64_t>(span / kernel.mr, 1) * kernel.mr;
  const int64_t n_span = std::max<int64_t>(span / kernel.nr, 1) * kernel.nr;
  const int64_t spans = std::max<int64_t>(divide_up(p.k, k_span), 1);
  const int64_t kc = round_up(divide_up(depth, divide_up(depth, kernel.kc)), kernel.group());
  PackedOperand a(scratch.packed_a, source_a, {kernel.bf16, kernel.mr, kernel.a_group}, kernel, kc);
  PackedOperand b(scratch.packed_b, source_b, {kernel.bf16, kernel.nr, kernel.b_group}, kernel, kc);

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
                  .last = s + 1 == spans};
        choose_tiles(pass, workers);
        if (spans > 1) pass.sums = scratch.sums.get<float>(pass.tiles() * pass.tile_size());
        pass.own_rows = p.n <= pass.tile_columns;
        const bool pack_a = !pass.own_rows && a.aim(i, pass.rows.size, s * k_span, pass.depth);
        if (pass.own_rows) a.aim_in_parts(i, pass.rows.size, s * k_span, pass.depth);
        const bool pack_b = b.aim(j, pass.columns.size, s * k_span, pass.depth);
        const int64_t items_a = pack_a ? a.items() : 0;
        const int64_t items_b = pack_b ? b.items() : 0;
        share(workers, items_a + items_b,
              [&](int64_t x) { x < items_a ? a.pack(x) : b.pack(x - items_a); });
        share(workers, pass.tiles(), [&](int64_t x) { compute_tile(pass, x); });
      }
    }
  }
}

}  // namespace binade::backend::cpu
