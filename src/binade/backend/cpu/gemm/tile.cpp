#include <algorithm>

#include "binade/backend/cpu/gemm/convert.h"
#include "binade/backend/cpu/gemm/epilogue.h"
#include "binade/backend/cpu/gemm/pass.h"
#include "binade/backend/cpu/gemm/scratch.h"

namespace binade::backend::cpu {
namespace {

constexpr int64_t cache_line = 64;

// A tile and its sums while K blocks are added.
struct TileWork {
  const Pass& pass;
  Range rows, columns;  // of the span
  float* sums;
  float* bias;  // of the tile's columns, or null

  // The tile's rows of A of a K block, panel after panel.
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

// The address of an element of the output; row and column count from the span's first.
void* output_at(const Pass& pass, int64_t row, int64_t column) {
  const OutputMatrix& c = pass.problem.c;
  return advance(
      c.data, c.dtype,
      (pass.rows.begin + row) * c.row_stride + (pass.columns.begin + column) * c.col_stride);
}

// Some rows and columns of a tile, counted from the span's first, and their sums. Rows of sums are
// pass.strip apart.
struct Part {
  Range rows, columns;
  float* sums;
};

// Turns the sums of a part into outputs.
void finish_part(const TileWork& work, const Part& part) {
  const Pass& pass = work.pass;
  const OutputMatrix& c = pass.problem.c;
  const Epilogue& e = pass.problem.epilogue;
  const int64_t row = part.rows.begin, column = part.columns.begin;
  void* pre = nullptr;
  if (e.pre_activation.present) {
    const int64_t row_stride = e.pre_activation.strides[1];
    pre = advance(e.pre_activation.data, e.pre_activation.dtype,
                  (pass.rows.begin + row) * row_stride + pass.columns.begin + column);
  }
  finish_rows(e,
              SumRows<float>{
                  .sums = part.sums,
                  .sums_stride = pass.strip,
                  .rows = part.rows.size,
                  .count = part.columns.size,
                  .bias = work.bias != nullptr ? work.bias + column - work.columns.begin : nullptr,
                  .first = {output_at(pass, row, column), c.dtype, c.col_stride, pre, 1},
                  .c_row_stride = c.row_stride});
}

// Finishes the sums that micro-tiles have not written to the output directly.
void finish(const TileWork& work, const Part& part) {
  const Pass& pass = work.pass;
  if (!pass.direct()) return finish_part(work, part);
  // The incomplete micro-tiles: below the complete ones, and to the right of them.
  const auto& [rows, columns, sums] = part;
  const int64_t done_rows = round_down(rows.size, pass.kernel.mr);
  const int64_t done_columns = round_down(columns.size, pass.kernel.nr);
  if (done_rows < rows.size) {
    finish_part(
        work,
        {{rows.begin + done_rows, rows.size - done_rows}, columns, sums + done_rows * pass.strip});
  }
  if (done_columns < columns.size) {
    finish_part(work, {{rows.begin, done_rows},
                       {columns.begin + done_columns, columns.size - done_columns},
                       sums + done_columns});
  }
}

// Multiplies one strip of a tile's columns over one K block.
class Strip {
 public:
  Strip(const TileWork& work, const Block& block, Range columns, float* sums)
      : work_(work), block_(block), all_{work.rows, columns, sums} {}

  void multiply() const { kernel_.a_in_l1 ? row_by_row() : column_by_column(); }

 private:
  // Multiplies each panel of A with all panels of B, in the order of their addresses; then its rows
  // are finished while their sums are in the cache.
  void row_by_row() const {
    const char* target = next_strip();
    for (int64_t i = 0; i < panels_a_; ++i) {
      const Part part = rows_of_panel(i, pass_.keeps_sums() ? i * kernel_.mr * pass_.strip : 0);
      for (int64_t j = 0; j < panels_b_; ++j, target += b_bytes_ / Kernel::prefetch_divisor) {
        micro_tile(part, i, j, target);
      }
      if (block_.last) finish(work_, part);
    }
  }

  // Multiplies each panel of B with all panels of A; every call prefetches a part of the next panel
  // of B.
  void column_by_column() const {
    const int64_t bytes = divide_up(b_bytes_, panels_a_);
    const char* target = b_ + b_bytes_;
    for (int64_t j = 0; j < panels_b_; ++j) {
      for (int64_t i = 0; i < panels_a_; ++i, target += bytes) {
        prefetch(target, bytes);
        micro_tile(rows_of_panel(i, i * kernel_.mr * pass_.strip), i, j, target);
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

  // Multiplies panel i of A, whose rows are those of `part`, with panel j of the strip.
  void micro_tile(const Part& part, int64_t i, int64_t j, const char* prefetch_target) const {
    const int64_t column = j * kernel_.nr;
    float* out = part.sums + column;
    int64_t ldc = pass_.strip;
    const bool complete = part.rows.size == kernel_.mr && column + kernel_.nr <= all_.columns.size;
    if (pass_.direct() && complete) {
      out = static_cast<float*>(output_at(pass_, part.rows.begin, all_.columns.begin + column));
      ldc = pass_.problem.c.row_stride;
    }
    if (block_.accumulate && !kernel_.a_in_l1) prefetch_sums(out, ldc);
    kernel_.tile(block_.depth, {.a = block_.a + i * a_bytes_, .b = b_ + j * b_bytes_},
                 {.data = out, .row_stride = ldc}, block_.accumulate, prefetch_target);
  }

  // The panels of B that are read after this strip's: the following ones, those of the next K
  // block, or the first ones again for the next tile's rows.
  const char* next_strip() const {
    const int64_t end = all_.columns.begin + all_.columns.size;
    if (end < pass_.columns.size) return b_ + panels_b_ * b_bytes_;
    return pass_.b.panel(block_.index + 1 < pass_.blocks() ? block_.index + 1 : 0, 0);
  }

  static void prefetch(const char* from, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += cache_line) __builtin_prefetch(from + i, 0, 2);
  }

  // Prefetches the sums that a micro-tile adds to: the kernel reads them at its end.
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
  if (e.bias.present && pass.last) {
    bias = own + pass.tile_size();
    const void* from = advance(e.bias.data, e.bias.dtype, pass.columns.begin + column);
    read_elements(from, e.bias.dtype, 1, columns.size, bias);
  }
  multiply({pass, rows, columns, sums, bias});
}

}  // namespace binade::backend::cpu
