#include "binade/backend/cpu/gemm/epilogue.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numbers>
#include <vector>

#include "binade/backend/cpu/gemm/convert.h"
#include "binade/formats/number.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/gemm/epilogue.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

#include "binade/backend/cpu/rows/activations-inl.h"
#include "binade/backend/cpu/rows/vector_rows-inl.h"
#include "binade/formats/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu {
namespace HWY_NAMESPACE {
namespace {

using D = Tag<float>;
using V = Vector<float>;

// values = alpha * values + beta * c + bias; c and bias may be null.
void combine(float* values, int64_t count, float alpha, const float* c, float beta,
             const float* bias) {
  const V factor = hn::Set(D(), alpha), old_factor = hn::Set(D(), beta);
  if (alpha != 1) {
    transform<float>(
        count, values, [=](V v) HWY_ATTR { return hn::Mul(v, factor); }, values);
  }
  if (c != nullptr) {
    transform<float>(
        count, values, [=](V v, V old) HWY_ATTR { return hn::MulAdd(old, old_factor, v); }, values,
        c);
  }
  if (bias != nullptr) {
    transform<float>(
        count, values, [](V v, V b) HWY_ATTR { return hn::Add(v, b); }, values, bias);
  }
}

void activate(Activation activation, float* values, int64_t count) {
  const auto each = [=](auto f) HWY_ATTR { transform<float>(count, values, f, values); };
  switch (activation) {
    case Activation::none:
      return;
    case Activation::relu:
      return each([](V v) HWY_ATTR { return activations::Relu::value(D(), v); });
    case Activation::gelu:
      return each([](V v) HWY_ATTR { return activations::Gelu::value(D(), v); });
    case Activation::gelu_tanh:
      return each([](V v) HWY_ATTR { return activations::GeluTanh::value(D(), v); });
    case Activation::silu:
      return each([](V v) HWY_ATTR { return activations::Silu::value(D(), v); });
  }
}

template <class T>
HWY_INLINE void load_as(const void* from, int64_t count, float* out) {
  const T* in = static_cast<const T*>(from);
  constexpr int64_t lanes = vector_lanes<float>;
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(formats::HWY_NAMESPACE::load_f32(D(), in + i), D(), out + i);
  for (; i < count; ++i) out[i] = static_cast<float>(in[i]);
}

template <class T>
HWY_INLINE void store_as(const float* values, int64_t count, void* to) {
  T* out = static_cast<T*>(to);
  constexpr int64_t lanes = vector_lanes<float>;
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    formats::HWY_NAMESPACE::store_f32(hn::LoadU(D(), values + i), D(), out + i);
  for (; i < count; ++i) out[i] = static_cast<T>(values[i]);
}

void load(const void* from, Element type, int64_t stride, int64_t count, float* out) {
  if (stride == 1 && type == Element::f32) return load_as<float>(from, count, out);
  if (stride == 1 && type == Element::bf16) return load_as<bf16>(from, count, out);
  read_elements(from, type, stride, count, out);
}

void store(const float* values, int64_t count, void* to, Element type, int64_t stride) {
  if (stride == 1 && type == Element::f32) return store_as<float>(values, count, to);
  // On vectors of four, write_elements has an instruction of the CPU's for it.
  if (stride == 1 && type == Element::bf16 && HWY_MAX_BYTES > 16)
    return store_as<bf16>(values, count, to);
  write_elements(values, count, to, type, stride);
}

constexpr int64_t chunk = 512;

// act of every bf16, by its bits.
std::vector<bf16> outputs(Activation activation) {
  constexpr size_t codes = 1 << 16;
  std::vector<float> values(codes);
  for (size_t i = 0; i < codes; ++i) values[i] = bf16::from_bits(static_cast<uint16_t>(i));
  activate(activation, values.data(), codes);
  std::vector<bf16> result(codes);
  write_elements(values.data(), codes, result.data(), Element::bf16, 1);
  return result;
}

// Those outputs where looking them up is faster than computing them: long functions on vectors of
// only four lanes. Null elsewhere.
const bf16* outputs_to_look_up(Activation activation, Element type) {
  constexpr int64_t lanes = vector_lanes<float>;
  if (type != Element::bf16 || activation == Activation::none || lanes > 4) return nullptr;
  static const std::map<Activation, std::vector<bf16>> tables = [] {
    std::map<Activation, std::vector<bf16>> result;
    for (const Activation a : {Activation::gelu, Activation::gelu_tanh, Activation::silu})
      result[a] = outputs(a);
    return result;
  }();
  const auto found = tables.find(activation);
  return found == tables.end() ? nullptr : found->second.data();
}

// Four at a time: y[i] = outputs[bits[i]].
void look_up(const bf16* outputs, const uint16_t* bits, int64_t count, bf16* y) {
  const auto at = [outputs](uint64_t code) { return uint64_t{outputs[code & 0xffff].bits}; };
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    uint64_t four;
    std::memcpy(&four, bits + i, sizeof four);
    four = at(four) | at(four >> 16) << 16 | at(four >> 32) << 32 | at(four >> 48) << 48;
    std::memcpy(y + i, &four, sizeof four);
  }
  for (; i < count; ++i) y[i] = outputs[bits[i]];
}

// Stores act(values) and perhaps the values; an argument of 16 bits is rounded first. `outputs` has
// the activation of every bf16, or is null.
HWY_NOINLINE void write_activated(float* values, int64_t count, const Epilogue& e, Element type,
                                  const OutputRun& run, const bf16* outputs) {
  uint16_t bits[chunk];
  const bool rounds = rounds_first(e, type);
  const bool same = e.pre_activation_type == type && run.pre_stride == 1;
  if (rounds) write_elements(values, count, bits, type, 1);
  if (outputs != nullptr && run.c_stride == 1 && (run.pre_activation == nullptr || same)) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(bf16);
    if (run.pre_activation != nullptr) std::memcpy(run.pre_activation, bits, bytes);
    return look_up(outputs, bits, count, static_cast<bf16*>(run.c));
  }
  if (rounds) read_elements(bits, type, 1, count, values);
  if (run.pre_activation != nullptr)
    store(values, count, run.pre_activation, e.pre_activation_type, run.pre_stride);
  activate(e.activation, values, count);
  store(values, count, run.c, type, run.c_stride);
}

void finish(float* sums, int64_t sums_stride, int64_t rows, int64_t count, const float* bias,
            const Epilogue& e, Element c_type, const OutputRun& first, int64_t c_row_stride) {
  float old[chunk];
  const bool combines = e.alpha != 1 || e.beta != 0 || bias != nullptr;
  const bool activates = e.activation != Activation::none || first.pre_activation != nullptr;
  const bf16* outputs = outputs_to_look_up(e.activation, c_type);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t begin = 0; begin < count; begin += chunk) {
      const int64_t part = std::min(chunk, count - begin);
      float* values = sums + row * sums_stride + begin;
      void* c = advance(first.c, c_type, row * c_row_stride + begin * first.c_stride);
      if (e.beta != 0) load(c, c_type, first.c_stride, part, old);
      if (combines) {
        combine(values, part, e.alpha, e.beta != 0 ? old : nullptr, e.beta,
                bias != nullptr ? bias + begin : nullptr);
      }
      if (!activates) {
        store(values, part, c, c_type, first.c_stride);
        continue;
      }
      void* pre = first.pre_activation;
      if (pre != nullptr) {
        pre =
            advance(pre, e.pre_activation_type, row * e.pre_row_stride + begin * first.pre_stride);
      }
      write_activated(values, part, e, c_type, {c, first.c_stride, pre, first.pre_stride}, outputs);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace binade::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu {
namespace {

HWY_EXPORT(finish);

double activate_one(Activation activation, double x) {
  constexpr double scale = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::gelu:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::gelu_tanh:
      return x / (1 + std::exp(-scale * x * (1 + 0.044715 * x * x)));
    case Activation::silu:
      return x / (1 + std::exp(-x));
  }
  return x;
}

}  // namespace

void finish_rows(float* sums, int64_t sums_stride, int64_t rows, int64_t count, const float* bias,
                 const Epilogue& e, Element c_type, const OutputRun& first, int64_t c_row_stride) {
  HWY_DYNAMIC_DISPATCH(finish)
  (sums, sums_stride, rows, count, bias, e, c_type, first, c_row_stride);
}

void finish_run(float* sums, int64_t count, const float* bias, const Epilogue& e, Element c_type,
                const OutputRun& run) {
  finish_rows(sums, count, 1, count, bias, e, c_type, run, 0);
}

void finish_run(double* sums, int64_t count, const double* bias, const Epilogue& e, Element c_type,
                const OutputRun& run) {
  for (int64_t i = 0; i < count; ++i) {
    void* c = advance(run.c, c_type, i * run.c_stride);
    double value = e.alpha * sums[i];
    if (e.beta != 0) {
      double old;
      read_elements(c, c_type, 1, 1, &old);
      value += e.beta * old;
    }
    if (bias != nullptr) value += bias[i];
    if (rounds_first(e, c_type)) {
      uint16_t bits;
      write_elements(&value, 1, &bits, c_type, 1);
      read_elements(&bits, c_type, 1, 1, &value);
    }
    if (run.pre_activation != nullptr) {
      void* pre = advance(run.pre_activation, e.pre_activation_type, i * run.pre_stride);
      write_elements(&value, 1, pre, e.pre_activation_type, 1);
    }
    value = activate_one(e.activation, value);
    write_elements(&value, 1, c, c_type, 1);
  }
}

}  // namespace binade::backend::cpu
#endif
