#include <algorithm>

#include "binade/backend/cpu/gemm/convert.h"
#include "binade/backend/cpu/gemm/epilogue.h"
#include "binade/backend/cpu/gemm/pass.h"
#include "binade/backend/cpu/gemm/scratch.h"

namespace binade::backend::cpu {
namespace {

constexpr int64_t cache_line = 64;

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
};

// One of a tile's K blocks.
struct Block {
  int64_t index, depth;
  const char* a;          // the tile's rows, panel after panel
  bool accumulate, last;  // adds to earlier sums; completes them
};

// Where an element of the output lies; row and column count from the span's first.
void* output_at(const Pass& pass, int64_t row, int64_t column) {
  const Output& c = pass.problem.c;
  return advance(
      c.data, c.type,
      (pass.rows.begin + row) * c.row_stride + (pass.columns.begin + column) * c.col_stride);
}

// Some rows and columns of a tile, counted from the span's first, and their sums, a strip apart.
struct Part {
  Range rows, columns;
  float* sums;
};

// Turns sums into outputs.
void finish_part(const TileWork& work, const Part& part) {
  const Pass& pass = work.pass;
  const Problem& p = pass.problem;
  const Epilogue& e = p.epilogue;
  const int64_t row = part.rows.begin, column = part.columns.begin;
  void* pre = nullptr;
  if (e.pre_activation != nullptr) {
    pre = advance(e.pre_activation, e.pre_activation_type,
                  (pass.rows.begin + row) * e.pre_row_stride + pass.columns.begin + column);
  }
  const float* bias = work.bias != nullptr ? work.bias + column - work.columns.begin : nullptr;
  finish_rows(part.sums, pass.strip, part.rows.size, part.columns.size, bias, e, p.c.type,
              {output_at(pass, row, column), p.c.col_stride, pre, 1}, p.c.row_stride);
}

// The same for what is not in the output yet.
void finish(const TileWork& work, const Part& part) {
  const Pass& pass = work.pass;
  if (!pass.direct()) return finish_part(work, part);
  // What did not fill a micro-tile: below the whole ones, and to the right of them.
  const auto& [rows, columns, sums] = part;
  const int64_t whole_rows = rows.size / pass.kernel.mr * pass.kernel.mr;
  const int64_t whole_columns = columns.size / pass.kernel.nr * pass.kernel.nr;
  if (whole_rows < rows.size) {
    finish_part(work, {{rows.begin + whole_rows, rows.size - whole_rows},
                       columns,
                       sums + whole_rows * pass.strip});
  }
  if (whole_columns < columns.size) {
    finish_part(work, {{rows.begin, whole_rows},
                       {columns.begin + whole_columns, columns.size - whole_columns},
                       sums + whole_columns});
  }
}

// One strip of a tile's columns on its way through one K block.
class Strip {
 public:
  Strip(const TileWork& work, const Block& block, Range columns, float* sums)
      : work_(work), block_(block), all_{work.rows, columns, sums} {}

  void multiply() const { kernel_.a_in_l1 ? row_by_row() : column_by_column(); }

 private:
  // Each panel of A meets all of B's, which come in the order of their addresses; then its rows are
  // finished while their sums are near by.
  void row_by_row() const {
    const char* soon = next_strip();
    for (int64_t i = 0; i < panels_a_; ++i) {
      const Part part = rows_of_panel(i, pass_.keeps_sums() ? i * kernel_.mr * pass_.strip : 0);
      for (int64_t j = 0; j < panels_b_; ++j, soon += b_bytes_ / Kernel::soon_share) {
        micro_tile(part, i, j, soon);
      }
      if (block_.last) finish(work_, part);
    }
  }

  // Each panel of B meets all of A's; a part of the next one, which is still far away, is fetched
  // each time.
  void column_by_column() const {
    const int64_t bytes = divide_up(b_bytes_, panels_a_);
    const char* soon = b_ + b_bytes_;
    for (int64_t j = 0; j < panels_b_; ++j) {
      for (int64_t i = 0; i < panels_a_; ++i, soon += bytes) {
        prefetch(soon, bytes);
        micro_tile(rows_of_panel(i, i * kernel_.mr * pass_.strip), i, j, soon);
      }
    }
    if (block_.last) finish(work_, all_);
  }

  Part rows_of_panel(int64_t i, int64_t sums_offset) const {
    const int64_t row = i * kernel_.mr;
    return {{all_.rows.begin + row, std::min<int64_t>(kernel_.mr, all_.rows.size - row)},
            all_.columns,
            all_.sums + sums_offset};
  }

  // The i-th panel of A, whose rows `part` has, times the j-th of the strip's of B.
  void micro_tile(const Part& part, int64_t i, int64_t j, const char* soon) const {
    const int64_t column = j * kernel_.nr;
    float* out = part.sums + column;
    int64_t ldc = pass_.strip;
    const bool whole = part.rows.size == kernel_.mr && column + kernel_.nr <= all_.columns.size;
    if (pass_.direct() && whole) {
      out = static_cast<float*>(output_at(pass_, part.rows.begin, all_.columns.begin + column));
      ldc = pass_.problem.c.row_stride;
    }
    if (block_.accumulate && !kernel_.a_in_l1) prefetch_sums(out, ldc);
    kernel_.tile(block_.depth, block_.a + i * a_bytes_, b_ + j * b_bytes_, out, ldc,
                 block_.accumulate, soon);
  }

  // The panels of B that come after this strip's: behind them, of the next K block, or for the rows
  // of the next tile.
  const char* next_strip() const {
    const int64_t end = all_.columns.begin + all_.columns.size;
    if (end < pass_.columns.size) return b_ + panels_b_ * b_bytes_;
    return pass_.b.panel(block_.index + 1 < pass_.blocks() ? block_.index + 1 : 0, 0);
  }

  static void prefetch(const char* from, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += cache_line) __builtin_prefetch(from + i, 0, 2);
  }

  // The sums that a micro-tile adds to, which the kernel reads last.
  void prefetch_sums(const float* sums, int64_t ldc) const {
    constexpr int64_t line = cache_line / sizeof(float);
    for (int64_t i = 0; i < kernel_.mr; ++i, sums += ldc) {
      for (int64_t j = 0; j < kernel_.nr; j += line) __builtin_prefetch(sums + j, 1, 3);
    }
  }

  const TileWork& work_;
  const Block& block_;
  const Part all_;
  const Pass& pass_ = work_.pass;
  const Kernel& kernel_ = pass_.kernel;
  const int64_t a_bytes_ = block_.depth * kernel_.mr * kernel_.element_bytes();  // of a panel
  const int64_t b_bytes_ = block_.depth * kernel_.nr * kernel_.element_bytes();
  const int64_t panels_a_ = divide_up(all_.rows.size, kernel_.mr);
  const int64_t panels_b_ = divide_up(all_.columns.size, kernel_.nr);
  const char* const b_ = pass_.b.panel(block_.index, all_.columns.begin / kernel_.nr);
};

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
      Strip(work, block, columns, sums).multiply();
      if (pass.keeps_sums()) sums += pass.tile_rows * pass.strip;
    }
  }
  if (kernel.leave != nullptr) kernel.leave();
}

}  // namespace

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

}  // namespace binade::backend::cpu
