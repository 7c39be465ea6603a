#include <algorithm>

#include "binade/backend/cpu/gemm/convert.h"
#include "binade/backend/cpu/gemm/epilogue.h"
#include "binade/backend/cpu/gemm/scratch.h"
#include "binade/backend/cpu/gemm/variants.h"
#include "binade/base/parallel.h"
#include "binade/formats/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/gemm/skinny.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

#include "binade/formats/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using formats::HWY_NAMESPACE::load_f32;

// Calls body with a null pointer to the C++ type that holds `type`: f32, f16 or bf16.
template <class Body>
void with_type(Element type, Body body) {
  switch (type) {
    case Element::f16:
      return body(static_cast<const f16*>(nullptr));
    case Element::bf16:
      return body(static_cast<const bf16*>(nullptr));
    default:
      return body(static_cast<const float*>(nullptr));
  }
}

template <class T>
float dot_of(const T* w, const float* x, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    s0 = hn::MulAdd(load_f32(d, w + i), hn::LoadU(d, x + i), s0);
    s1 = hn::MulAdd(load_f32(d, w + i + lanes), hn::LoadU(d, x + i + lanes), s1);
    s2 = hn::MulAdd(load_f32(d, w + i + 2 * lanes), hn::LoadU(d, x + i + 2 * lanes), s2);
    s3 = hn::MulAdd(load_f32(d, w + i + 3 * lanes), hn::LoadU(d, x + i + 3 * lanes), s3);
  }
  for (; i + lanes <= count; i += lanes) {
    s0 = hn::MulAdd(load_f32(d, w + i), hn::LoadU(d, x + i), s0);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; i < count; ++i) sum += static_cast<float>(w[i]) * x[i];
  return sum;
}

// The dot product of `count` contiguous elements of `type` with x.
float dot(const void* w, Element type, const float* x, int64_t count) {
  float sum = 0;
  with_type(type,
            [&](auto tag) HWY_ATTR { sum = dot_of(static_cast<decltype(tag)>(w), x, count); });
  return sum;
}

template <class T>
void axpy_of(const float* x, const T* w, int64_t stride, int64_t rows, int64_t count, float* y) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes) {
    auto v = hn::LoadU(d, y + i);
    for (int64_t r = 0; r < rows; ++r) {
      v = hn::MulAdd(hn::Set(d, x[r]), load_f32(d, w + r * stride + i), v);
    }
    hn::StoreU(v, d, y + i);
  }
}

// y += x[0] * w[0] + x[1] * w[1] + ..., in this order for each element of y; rows of w lie `stride`
// elements apart. count is a multiple of the vector's lanes.
void axpy(const float* x, const void* w, Element type, int64_t stride, int64_t rows, int64_t count,
          float* y) {
  with_type(type, [&](auto tag) HWY_ATTR {
    axpy_of(x, static_cast<decltype(tag)>(w), stride, rows, count, y);
  });
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

constexpr int64_t chunk = 1024;        // length of the partial sums of a dot product
constexpr int64_t columns = 1024;      // outputs of one axpy strip
constexpr int64_t rows_at_once = 8;    // k of one axpy
constexpr int64_t vector_lanes = 16;   // a multiple of any instruction set's
constexpr int64_t work_grain = 32768;  // products worth a thread's while

// The matrix with its outputs as rows, whichever operand it was.
struct Matrix {
  const char* data;
  Element type;
  int64_t row_stride, k_stride;
  bool round_tf32;

  // Whether elements are used as they lie. 8-bit types widen faster a row at a time.
  bool direct() const { return element_size(type) > 1 && !(round_tf32 && type == Element::f32); }

  const char* at(int64_t row, int64_t k) const {
    return data + (row * row_stride + k * k_stride) * element_size(type);
  }
};

// Elements `stride` apart as contiguous f32.
void gather(const Matrix& w, const char* from, int64_t stride, int64_t count, float* out) {
  read_elements(from, w.type, stride, count, out);
  if (w.round_tf32) formats::round_tf32(out, out, static_cast<size_t>(count));
}

void multiply_by_rows(const Matrix& w, const float* x, int64_t k, int64_t begin, int64_t end,
                      float* y) {
  alignas(64) float stage[chunk];
  const bool direct = w.k_stride == 1 && w.direct();
  for (int64_t row = begin; row < end; ++row) {
    float sum = 0;
    for (int64_t p = 0; p < k; p += chunk) {
      const int64_t count = std::min(chunk, k - p);
      if (!direct) gather(w, w.at(row, p), w.k_stride, count, stage);
      sum += HWY_DYNAMIC_DISPATCH(dot)(direct ? static_cast<const void*>(w.at(row, p)) : stage,
                                       direct ? w.type : Element::f32, x + p, count);
    }
    y[row] = sum;
  }
}

// One strip of at most `columns` outputs, whose weights for one k lie side by side.
void multiply_by_columns(const Matrix& w, const float* x, int64_t k, int64_t begin, int64_t count,
                         float* y) {
  alignas(64) float sums[columns] = {};
  // What does not fill a vector, and what needs rounding, goes through padded copies.
  const int64_t direct = w.direct() ? count / vector_lanes * vector_lanes : 0;
  alignas(64) float stage[columns];
  for (int64_t p = 0; p < k; p += rows_at_once) {
    const int64_t rows = std::min(rows_at_once, k - p);
    HWY_DYNAMIC_DISPATCH(axpy)(x + p, w.at(begin, p), w.type, w.k_stride, rows, direct, sums);
    if (direct == count) continue;
    const int64_t rest = count - direct;
    const int64_t padded = (rest + vector_lanes - 1) / vector_lanes * vector_lanes;
    for (int64_t r = 0; r < rows; ++r) {
      gather(w, w.at(begin + direct, p + r), 1, rest, stage);
      std::fill(stage + rest, stage + padded, 0.0f);
      HWY_DYNAMIC_DISPATCH(axpy)(x + p + r, stage, Element::f32, 0, 1, padded, sums + direct);
    }
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
