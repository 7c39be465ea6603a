#include <algorithm>

#include "binade/backend/cpu/gemm/convert.h"
#include "binade/backend/cpu/gemm/epilogue.h"
#include "binade/backend/cpu/gemm/pack.h"
#include "binade/backend/cpu/gemm/scratch.h"
#include "binade/backend/cpu/gemm/variants.h"
#include "binade/base/division.h"
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

// Calls body with a null pointer to the C++ type of `dtype`: f32, f16 or bf16.
template <class Body>
void with_type(DType dtype, Body body) {
  switch (dtype) {
    case DType::f16:
      return body(static_cast<const f16*>(nullptr));
    case DType::bf16:
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

// The dot product of `count` contiguous elements of `dtype` with x.
float dot(const void* w, DType dtype, const float* x, int64_t count) {
  float sum = 0;
  with_type(dtype,
            [&](auto tag) HWY_ATTR { sum = dot_of(static_cast<decltype(tag)>(w), x, count); });
  return sum;
}

template <class T>
void axpy_of(const float* x, const T* w, int64_t k_stride, int64_t depth, int64_t count, float* y) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes) {
    auto v = hn::LoadU(d, y + i);
    for (int64_t k = 0; k < depth; ++k) {
      v = hn::MulAdd(hn::Set(d, x[k]), load_f32(d, w + k * k_stride + i), v);
    }
    hn::StoreU(v, d, y + i);
  }
}

// y[i] += x[0] * w(i, 0) + x[1] * w(i, 1) + ... over `depth` terms, in this order, for `count`
// contiguous rows of w. count is a multiple of the vector's lanes.
void axpy(const float* x, const OperandRows& w, int64_t depth, int64_t count, float* y) {
  with_type(w.dtype, [&](auto tag) HWY_ATTR {
    axpy_of(x, static_cast<decltype(tag)>(w.data), w.k_stride, depth, count, y);
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
constexpr int64_t columns = 1024;      // outputs of one strip: their sums fit the L1 cache
constexpr int64_t k_at_once = 8;       // sums are read and written once for 8 k
constexpr int64_t vector_lanes = 16;   // a multiple of any instruction set's
constexpr int64_t work_grain = 32768;  // multiply-adds worth waking a thread for

// Whether elements need no conversion first. 8-bit types widen faster a row at a time.
bool is_direct(const OperandRows& w) {
  return size_of(w.dtype) > 1 && !(w.tf32 && w.dtype == DType::f32);
}

// Converts elements `stride` apart to contiguous f32.
void gather(const OperandRows& w, const char* from, int64_t stride, int64_t count, float* out) {
  read_elements(from, w.dtype, stride, count, out);
  if (w.tf32) formats::round_tf32(out, out, static_cast<size_t>(count));
}

void multiply_by_rows(const OperandRows& w, const float* x, int64_t k, int64_t begin, int64_t end,
                      float* y) {
  alignas(64) float stage[chunk];
  const bool direct = w.k_stride == 1 && is_direct(w);
  for (int64_t row = begin; row < end; ++row) {
    float sum = 0;
    for (int64_t p = 0; p < k; p += chunk) {
      const int64_t count = std::min(chunk, k - p);
      if (!direct) gather(w, w.at(row, p), w.k_stride, count, stage);
      sum += HWY_DYNAMIC_DISPATCH(dot)(direct ? static_cast<const void*>(w.at(row, p)) : stage,
                                       direct ? w.dtype : DType::f32, x + p, count);
    }
    y[row] = sum;
  }
}

// One strip of at most `columns` outputs, whose weights for one k are contiguous.
void multiply_by_columns(const OperandRows& w, const float* x, int64_t k, int64_t begin,
                         int64_t count, float* y) {
  alignas(64) float sums[columns] = {};
  // Elements that need a conversion or do not fill a vector go through padded copies.
  const int64_t direct = is_direct(w) ? round_down(count, vector_lanes) : 0;
  alignas(64) float stage[columns];
  for (int64_t p = 0; p < k; p += k_at_once) {
    const int64_t depth = std::min(k_at_once, k - p);
    OperandRows strip = w;
    strip.data = w.at(begin, p);
    HWY_DYNAMIC_DISPATCH(axpy)(x + p, strip, depth, direct, sums);
    if (direct == count) continue;
    const int64_t rest = count - direct;
    const int64_t padded = round_up(rest, vector_lanes);
    for (int64_t i = 0; i < depth; ++i) {
      gather(w, w.at(begin + direct, p + i), 1, rest, stage);
      std::fill(stage + rest, stage + padded, 0.0f);
      HWY_DYNAMIC_DISPATCH(axpy)
      (x + p + i, OperandRows{stage, DType::f32, 1, 0}, 1, padded, sums + direct);
    }
  }
  std::copy_n(sums, count, y + begin);
}

}  // namespace

void gemm_skinny(const GemmProblem& p) {
  const Epilogue& e = p.epilogue;
  const bool row = p.m == 1;  // a row of outputs, else a column
  const int64_t outputs = row ? p.n : p.m;
  const InputMatrix& vector = row ? p.a : p.b;
  const int64_t vector_stride = row ? p.a.col_stride : p.b.row_stride;
  // The matrix with its outputs as rows.
  const OperandRows w =
      row ? OperandRows{p.b.data, p.b.dtype, p.b.col_stride, p.b.row_stride, e.tf32}
          : OperandRows{p.a.data, p.a.dtype, p.a.row_stride, p.a.col_stride, e.tf32};
  GemmScratch& scratch = gemm_scratch();
  float* x = scratch.packed_a.get<float>(std::max<int64_t>(p.k, 1));
  read_elements(vector.data, vector.dtype, vector_stride, p.k, x);
  if (e.tf32) formats::round_tf32(x, x, static_cast<size_t>(p.k));

  float* y = scratch.packed_b.get<float>(outputs);
  if (w.row_stride == 1 && w.k_stride != 1) {
    const int64_t strips = divide_up(outputs, columns);
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
  if (e.bias.present) {
    bias = scratch.tile.get<float>(outputs);
    read_elements(e.bias.data, e.bias.dtype, 1, row ? p.n : 1, bias);
    if (!row) std::fill_n(bias, outputs, bias[0]);
  }
  const TensorView& pre = e.pre_activation;
  finish_rows(e, SumRows<float>{.sums = y,
                                .count = outputs,
                                .bias = bias,
                                .first = {.c = p.c.data,
                                          .c_type = p.c.dtype,
                                          .c_stride = row ? p.c.col_stride : p.c.row_stride,
                                          .pre_activation = pre.present ? pre.data : nullptr,
                                          .pre_stride = row || !pre.present ? 1 : pre.strides[1]}});
}

}  // namespace binade::backend::cpu
#endif
