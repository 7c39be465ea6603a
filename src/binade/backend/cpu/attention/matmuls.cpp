#include "binade/backend/cpu/attention/matmuls.h"

#include <algorithm>

#include "binade/backend/cpu/attention/tile.h"

namespace binade::backend::cpu::attention {
namespace {

const Kernel* kernel_for(DType dtype) {
  if (dtype == DType::f64) return nullptr;
  const Level& level = current_level();
  return dtype == DType::bf16 && level.bf16 != nullptr ? level.bf16 : level.f32;
}

// Packs rows into a panel of f64, [k][panel_rows]; missing rows become zeros.
void pack_f64_panel(const OperandRows& source, Span rows, int64_t k, int64_t panel_rows,
                    double* out) {
  const int64_t count = rows.end - rows.begin;
  const auto* in = static_cast<const double*>(source.data) + rows.begin * source.row_stride;
  for (int64_t p = 0; p < k; ++p, out += panel_rows) {
    for (int64_t i = 0; i < count; ++i) out[i] = in[i * source.row_stride + p * source.k_stride];
    std::fill(out + count, out + panel_rows, 0.0);
  }
}

}  // namespace

TileMatmuls::TileMatmuls(DType dtype)
    : kernel_(kernel_for(dtype)),
      mr_(kernel_ != nullptr ? kernel_->mr : 1),
      nr_(kernel_ != nullptr ? kernel_->nr : f64_panel_width),
      group_(kernel_ != nullptr ? kernel_->group() : 1),
      element_bytes_(kernel_ != nullptr ? kernel_->element_bytes() : sizeof(double)) {}

void TileMatmuls::pack(const OperandRows& source, int64_t count, int64_t k, int64_t panel_rows,
                       int group, void* out) const {
  if (kernel_ == nullptr) {
    for (int64_t i = 0; i < count; i += panel_rows) {
      pack_f64_panel(source, {i, std::min(i + panel_rows, count)}, k, panel_rows,
                     static_cast<double*>(out) + i * k);
    }
    return;
  }
  const PanelLayout layout{kernel_->bf16, static_cast<int>(panel_rows), group, kernel_->group()};
  pack_panels(source, {.row = 0, .rows = count, .k = 0, .depth = k}, layout,
              {out, panel_bytes(panel_rows, k)});
}

PackedTile TileMatmuls::pack_left(const OperandRows& source, int64_t rows, int64_t k,
                                  void* out) const {
  pack(source, rows, k, mr_, kernel_ != nullptr ? kernel_->a_group : 1, out);
  return {out, k};
}

PackedTile TileMatmuls::pack_right(const OperandRows& source, int64_t columns, int64_t k,
                                   void* out) const {
  pack(source, columns, k, nr_, right_group(), out);
  return {out, k};
}

// Transposes squares of a panel's width, one for each panel of the source. A width is a multiple of
// the group of k, so squares follow one another without padding.
void TileMatmuls::transpose_panel(const ResultPanels& panels, int64_t panel, Span needed, int64_t k,
                                  void* out) const {
  const int64_t square = nr_ * nr_ * element_bytes_;
  const int64_t from_panel = panels.capacity * nr_ * element_bytes_;
  const char* from = static_cast<const char*>(panels.data) + panel * square;
  char* to = static_cast<char*>(out) + panel * panel_bytes(nr_, k);
  for (int64_t j = needed.begin / nr_; j * nr_ < needed.end; ++j) {
    pack_right({from + j * from_panel, panels.dtype, nr_, 1}, nr_, std::min(nr_, k - j * nr_),
               to + j * square);
  }
}

void TileMatmuls::multiply_panel(int64_t panel, const Part& part, PackedTile left, PackedTile right,
                                 float* c, bool accumulate) const {
  const Span padded = padded_k(part.k);
  const int64_t k = padded.begin, depth = std::max<int64_t>(padded.end - k, 0);
  if (depth == 0 && accumulate) return;
  const int64_t left_panel = panel_bytes(mr_, left.k);
  const char* a = static_cast<const char*>(left.data) + k * mr_ * element_bytes_;
  const char* b = static_cast<const char*>(right.data) + panel * panel_bytes(nr_, right.k) +
                  k * nr_ * element_bytes_;
  for (int64_t i = part.rows.begin / mr_; i * mr_ < part.rows.end; ++i) {
    kernel_->tile(depth, {.a = a + i * left_panel, .b = b},
                  {.data = c + i * mr_ * nr_, .row_stride = nr_}, accumulate, b);
  }
}

void TileMatmuls::multiply_panel(int64_t panel, const Part& part, PackedTile left, PackedTile right,
                                 double* c, bool accumulate) const {
  const auto [rows, k] = part;
  const auto* a = static_cast<const double*>(left.data);
  const auto* b = static_cast<const double*>(right.data);
  multiply_f64_panel({.m = rows.end - rows.begin,
                      .k = std::max<int64_t>(k.end - k.begin, 0),
                      .a = a + rows.begin * left.k + k.begin,
                      .lda = left.k,
                      .b = b + (panel * right.k + k.begin) * nr_,
                      .c = c + rows.begin * nr_,
                      .accumulate = accumulate});
}

}  // namespace binade::backend::cpu::attention
