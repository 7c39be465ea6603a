#include <algorithm>

#include "binade/backend/cpu/gemm_convert.h"
#include "binade/backend/cpu/gemm_driver.h"
#include "binade/backend/cpu/gemm_epilogue.h"
#include "binade/backend/cpu/gemm_scratch.h"
#include "binade/base/parallel.h"
#include "binade/formats/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/gemm_skinny.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

float dot(const float* a, const float* b, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s0);
    s1 = hn::MulAdd(hn::LoadU(d, a + i + lanes), hn::LoadU(d, b + i + lanes), s1);
    s2 = hn::MulAdd(hn::LoadU(d, a + i + 2 * lanes), hn::LoadU(d, b + i + 2 * lanes), s2);
    s3 = hn::MulAdd(hn::LoadU(d, a + i + 3 * lanes), hn::LoadU(d, b + i + 3 * lanes), s3);
  }
  for (; i + lanes <= count; i += lanes) {
    s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s0);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// y += x[0] * w[0] + x[1] * w[1] + ..., in this order for each element of y.
void axpy(const float* x, const float* const* w, int64_t rows, int64_t count, float* y) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes) {  // buffers are padded to whole vectors
    auto v = hn::LoadU(d, y + i);
    for (int64_t r = 0; r < rows; ++r) {
      v = hn::MulAdd(hn::Set(d, x[r]), hn::LoadU(d, w[r] + i), v);
    }
    hn::StoreU(v, d, y + i);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace binade::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu {
namespace {

HWY_EXPORT(dot);
HWY_EXPORT(axpy);

constexpr int64_t chunk = 1024;        // elements widened at a time
constexpr int64_t columns = 512;       // outputs of one axpy strip
constexpr int64_t rows_at_once = 8;
constexpr int64_t work_grain = 32768;  // products worth a thread's while

// The matrix with its outputs as rows, whichever operand it was.
struct Matrix {
  const char* data;
  Element type;
  int64_t row_stride, k_stride;
  bool round_tf32;

  const char* at(int64_t row, int64_t k) const {
    return data + (row * row_stride + k * k_stride) * element_size(type);
  }
};

// Elements as f32: where they lie if they are f32 already, else widened into `stage`.
const float* widened(const Matrix& w, const char* from, int64_t stride, int64_t count,
                     float* stage) {
  const bool round = w.round_tf32 && w.type == Element::f32;
  if (w.type == Element::f32 && stride == 1 && !round) return reinterpret_cast<const float*>(from);
  read_elements(from, w.type, stride, count, stage);
  if (round) formats::round_tf32(stage, stage, static_cast<size_t>(count));
  return stage;
}

void multiply_by_rows(const Matrix& w, const float* x, int64_t k, int64_t begin, int64_t end,
                      float* y) {
  alignas(64) float stage[chunk];
  for (int64_t row = begin; row < end; ++row) {
    float sum = 0;
    for (int64_t p = 0; p < k; p += chunk) {
      const int64_t count = std::min(chunk, k - p);
      sum += HWY_DYNAMIC_DISPATCH(dot)(widened(w, w.at(row, p), w.k_stride, count, stage), x + p,
                                       count);
    }
    y[row] = sum;
  }
}

// One strip of at most `columns` outputs, whose weights for one k lie side by side.
void multiply_by_columns(const Matrix& w, const float* x, int64_t k, int64_t begin, int64_t count,
                         float* y) {
  alignas(64) float sums[columns] = {};
  alignas(64) float stage[rows_at_once][columns];
  for (int64_t p = 0; p < k; p += rows_at_once) {
    const int64_t rows = std::min(rows_at_once, k - p);
    const float* lines[rows_at_once];
    for (int64_t r = 0; r < rows; ++r) {
      lines[r] = widened(w, w.at(begin, p + r), 1, count, stage[r]);
      if (count < columns && lines[r] != stage[r]) {  // do not read past the end of a row
        lines[r] = std::copy(lines[r], lines[r] + count, stage[r]) - count;
      }
    }
    HWY_DYNAMIC_DISPATCH(axpy)(x + p, lines, rows, count, sums);
  }
  std::copy_n(sums, count, y + begin);
}

}  // namespace

void gemm_skinny(const Problem& p) {
  const Epilogue& e = p.epilogue;
  const bool row = p.m == 1;  // a row of outputs, else a column
  const int64_t outputs = row ? p.n : p.m;
  const Operand& vector = row ? p.a : p.b;
  const int64_t vector_stride = row ? p.a.col_stride : p.b.row_stride;
  const Matrix w = row ? Matrix{static_cast<const char*>(p.b.data), p.b.type, p.b.col_stride,
                                p.b.row_stride, e.round_tf32}
                       : Matrix{static_cast<const char*>(p.a.data), p.a.type, p.a.row_stride,
                                p.a.col_stride, e.round_tf32};
  GemmScratch& scratch = gemm_scratch();
  float* x = scratch.packed_a.get<float>(std::max<int64_t>(p.k, 1));
  read_elements(vector.data, vector.type, vector_stride, p.k, x);
  if (e.round_tf32) formats::round_tf32(x, x, static_cast<size_t>(p.k));

  float* y = scratch.packed_b.get<float>(outputs);
  if (w.row_stride == 1 && w.k_stride != 1) {
    const int64_t strips = (outputs + columns - 1) / columns;
    const int64_t grain = std::max<int64_t>(1, work_grain / (columns * (p.k + 1)));
    parallel_for(strips, grain, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        const int64_t at = s * columns;
        multiply_by_columns(w, x, p.k, at, std::min(columns, outputs - at), y);
      }
    });
  } else {
    parallel_for(outputs, std::max<int64_t>(1, work_grain / (p.k + 1)),
                 [&](int64_t begin, int64_t end) { multiply_by_rows(w, x, p.k, begin, end, y); });
  }

  float* bias = nullptr;
  if (e.bias != nullptr) {
    bias = scratch.tile.get<float>(outputs);
    read_elements(e.bias, e.bias_type, 1, row ? p.n : 1, bias);
    if (!row) std::fill_n(bias, outputs, bias[0]);
  }
  finish_run(y, outputs, bias, e, p.c.type,
             {p.c.data, row ? p.c.col_stride : p.c.row_stride, e.pre_activation,
              row ? 1 : e.pre_row_stride});
}

}  // namespace binade::backend::cpu
#endif
