#include "binade/backend/cpu/attention_products.h"

#include <algorithm>

#include "binade/backend/cpu/attention_tile.h"
#include "binade/backend/cpu/gemm_element.h"
#include "binade/backend/cpu/gemm_pack.h"
#include "binade/formats/convert.h"

namespace binade::backend::cpu::attention {
namespace {

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

const Kernel* kernel_for(DType dtype) {
  if (dtype == DType::f64) return nullptr;
  const Level& level = current_level();
  return dtype == DType::bf16 && level.bf16 != nullptr ? level.bf16 : level.f32;
}

int64_t panel_bytes(const Kernel& kernel, int64_t lines, int64_t k) {
  return lines * round_up(k, kernel.group()) * kernel.element_bytes();
}

void pack_lines(const Kernel& kernel, const Lines& lines, int64_t count, int64_t k, int panel_lines,
                int group, void* out) {
  const PackSource source{lines.data, element_of("attention", "q, k, v", lines.dtype),
                          lines.line_stride, lines.k_stride, false};
  pack_panels(source, 0, count, 0, k, {kernel.bf16, panel_lines, group}, out,
              panel_bytes(kernel, panel_lines, k));
}

// f64 operands are copies without panels: left ones [rows, k], right ones [k, whole columns].
void copy_lines(const Lines& lines, int64_t count, int64_t k, int64_t line_stride, int64_t k_stride,
                void* out) {
  const auto* in = static_cast<const double*>(lines.data);
  auto* to = static_cast<double*>(out);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t p = 0; p < k; ++p)
      to[i * line_stride + p * k_stride] = in[i * lines.line_stride + p * lines.k_stride];
  }
}

}  // namespace

Products::Products(DType dtype) : kernel_(kernel_for(dtype)) {}

int64_t Products::whole_rows(int64_t m) const {
  return kernel_ != nullptr ? round_up(m, kernel_->mr) : m;
}

int64_t Products::whole_columns(int64_t n) const {
  return kernel_ != nullptr ? round_up(n, kernel_->nr) : padded<double>(n);
}

int64_t Products::left_bytes(int64_t rows, int64_t k) const {
  if (kernel_ != nullptr) return panel_bytes(*kernel_, whole_rows(rows), k);
  return rows * k * static_cast<int64_t>(sizeof(double));
}

int64_t Products::right_bytes(int64_t columns, int64_t k) const {
  if (kernel_ != nullptr) return panel_bytes(*kernel_, whole_columns(columns), k);
  return whole_columns(columns) * k * static_cast<int64_t>(sizeof(double));
}

Operand Products::pack_left(const Lines& lines, int64_t rows, int64_t k, void* out) const {
  if (kernel_ == nullptr) {
    copy_lines(lines, rows, k, k, 1, out);
  } else {
    pack_lines(*kernel_, lines, rows, k, kernel_->mr, kernel_->a_group, out);
  }
  return {out, k};
}

Operand Products::pack_right(const Lines& lines, int64_t columns, int64_t k, void* out) const {
  if (kernel_ == nullptr) {
    // Sums past the last column must stay what they are, as with panels.
    std::fill_n(static_cast<double*>(out), whole_columns(columns) * k, 0.0);
    copy_lines(lines, columns, k, 1, whole_columns(columns), out);
  } else {
    pack_lines(*kernel_, lines, columns, k, kernel_->nr, kernel_->b_group, out);
  }
  return {out, k};
}

Tile Products::as_operand(const float* tile, int64_t rows, int64_t columns, int64_t ld,
                          ScratchBuffer& scratch) const {
  if (!kernel_->bf16) return {tile, DType::f32, ld};
  bf16* rounded = scratch.get<bf16>(rows * ld);
  for (int64_t i = 0; i < rows; ++i)
    formats::narrow(tile + i * ld, rounded + i * ld, static_cast<size_t>(columns));
  return {rounded, DType::bf16, ld};
}

Tile Products::as_operand(const double* tile, int64_t, int64_t, int64_t ld, ScratchBuffer&) const {
  return {tile, DType::f64, ld};
}

void Products::multiply(int64_t m, int64_t n, int64_t k, Operand left, Operand right, float* c,
                        int64_t ldc, bool accumulate) const {
  const Kernel& kernel = *kernel_;
  const int64_t depth = round_up(k, kernel.group());
  const int64_t left_panel = panel_bytes(kernel, kernel.mr, left.k),
                right_panel = panel_bytes(kernel, kernel.nr, right.k);
  if (kernel.enter != nullptr) kernel.enter();
  for (int64_t j = 0; j * kernel.nr < n; ++j) {
    const char* b = static_cast<const char*>(right.data) + j * right_panel;
    for (int64_t i = 0; i * kernel.mr < m; ++i) {
      kernel.tile(depth, static_cast<const char*>(left.data) + i * left_panel, b,
                  c + i * kernel.mr * ldc + j * kernel.nr, ldc, accumulate);
    }
  }
  if (kernel.leave != nullptr) kernel.leave();
}

void Products::multiply(int64_t m, int64_t n, int64_t k, Operand left, Operand right, double* c,
                        int64_t ldc, bool accumulate) const {
  product(m, n, k, static_cast<const double*>(left.data), left.k, 1,
          static_cast<const double*>(right.data), whole_columns(n), c, ldc, accumulate);
}

}  // namespace binade::backend::cpu::attention
