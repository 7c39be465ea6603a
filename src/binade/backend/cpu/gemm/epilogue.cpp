#include "binade/backend/cpu/gemm/epilogue.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numbers>
#include <vector>

#include "binade/backend/cpu/gemm/convert.h"
#include "binade/backend/cpu/gemm/gemm.h"
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

void load(const void* from, DType dtype, int64_t stride, int64_t count, float* out) {
  if (stride == 1 && dtype == DType::f32) return load_as<float>(from, count, out);
  if (stride == 1 && dtype == DType::bf16) return load_as<bf16>(from, count, out);
  read_elements(from, dtype, stride, count, out);
}

void store(const float* values, int64_t count, void* to, DType dtype, int64_t stride) {
  if (stride == 1 && dtype == DType::f32) return store_as<float>(values, count, to);
  // With vectors of four lanes, write_elements uses an instruction of the CPU and is faster.
  if (stride == 1 && dtype == DType::bf16 && HWY_MAX_BYTES > 16)
    return store_as<bf16>(values, count, to);
  write_elements(values, count, to, dtype, stride);
}

// Outputs finished at a time: a few buffers of this many floats fit the L1 cache.
constexpr int64_t chunk = 512;

// act of every bf16, by its bits.
std::vector<bf16> outputs(Activation activation) {
  constexpr size_t codes = 1 << 16;
  std::vector<float> values(codes);
  for (size_t i = 0; i < codes; ++i) values[i] = bf16::from_bits(static_cast<uint16_t>(i));
  activate(activation, values.data(), codes);
  std::vector<bf16> result(codes);
  write_elements(values.data(), codes, result.data(), DType::bf16, 1);
  return result;
}

// outputs(), if a lookup is faster than computing the activation: expensive functions on vectors of
// only four lanes. Null otherwise.
const bf16* outputs_to_look_up(Activation activation, DType dtype) {
  constexpr int64_t lanes = vector_lanes<float>;
  if (dtype != DType::bf16 || activation == Activation::none || lanes > 4) return nullptr;
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

// Stores act(values) and, if requested, its arguments; 16-bit outputs round the argument first.
// `outputs` has the activation of every bf16, or is null.
HWY_NOINLINE void write_activated(float* values, int64_t count, const Epilogue& e,
                                  const OutputRun& run, const bf16* outputs) {
  uint16_t bits[chunk];
  const DType pre_type = e.pre_activation.dtype;
  const bool rounds = rounds_first(e, run.c_type);
  const bool same = pre_type == run.c_type && run.pre_stride == 1;
  if (rounds) write_elements(values, count, bits, run.c_type, 1);
  if (outputs != nullptr && run.c_stride == 1 && (run.pre_activation == nullptr || same)) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(bf16);
    if (run.pre_activation != nullptr) std::memcpy(run.pre_activation, bits, bytes);
    return look_up(outputs, bits, count, static_cast<bf16*>(run.c));
  }
  if (rounds) read_elements(bits, run.c_type, 1, count, values);
  if (run.pre_activation != nullptr)
    store(values, count, run.pre_activation, pre_type, run.pre_stride);
  activate(e.activation, values, count);
  store(values, count, run.c, run.c_type, run.c_stride);
}

void finish(const Epilogue& e, const SumRows<float>& block) {
  float old[chunk];
  const auto& [sums, sums_stride, rows, count, bias, first, c_row_stride] = block;
  const bool combines = e.alpha != 1 || e.beta != 0 || bias != nullptr;
  const bool activates = e.activation != Activation::none || first.pre_activation != nullptr;
  const bf16* outputs = outputs_to_look_up(e.activation, first.c_type);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t begin = 0; begin < count; begin += chunk) {
      const int64_t part = std::min(chunk, count - begin);
      float* values = sums + row * sums_stride + begin;
      OutputRun run = first;
      run.c = advance(first.c, first.c_type, row * c_row_stride + begin * first.c_stride);
      if (e.beta != 0) load(run.c, run.c_type, run.c_stride, part, old);
      if (combines) {
        combine(values, part, e.alpha, e.beta != 0 ? old : nullptr, e.beta,
                bias != nullptr ? bias + begin : nullptr);
      }
      if (!activates) {
        store(values, part, run.c, run.c_type, run.c_stride);
        continue;
      }
      if (first.pre_activation != nullptr) {
        run.pre_activation = advance(first.pre_activation, e.pre_activation.dtype,
                                     row * e.pre_activation.strides[1] + begin * first.pre_stride);
      }
      write_activated(values, part, e, run, outputs);
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

void finish_rows(const Epilogue& epilogue, const SumRows<float>& rows) {
  HWY_DYNAMIC_DISPATCH(finish)(epilogue, rows);
}

void finish_rows(const Epilogue& e, const SumRows<double>& block) {
  const OutputRun& run = block.first;
  const DType pre_type = e.pre_activation.dtype;
  for (int64_t at = 0; at < block.rows * block.count; ++at) {
    const int64_t row = at / block.count, i = at % block.count;
    void* c = advance(run.c, run.c_type, row * block.c_row_stride + i * run.c_stride);
    double value = e.alpha * block.sums[row * block.sums_stride + i];
    if (e.beta != 0) {
      double old;
      read_elements(c, run.c_type, 1, 1, &old);
      value += e.beta * old;
    }
    if (block.bias != nullptr) value += block.bias[i];
    if (rounds_first(e, run.c_type)) {
      uint16_t bits;
      write_elements(&value, 1, &bits, run.c_type, 1);
      read_elements(&bits, run.c_type, 1, 1, &value);
    }
    if (run.pre_activation != nullptr) {
      const int64_t offset = row * e.pre_activation.strides[1] + i * run.pre_stride;
      write_elements(&value, 1, advance(run.pre_activation, pre_type, offset), pre_type, 1);
    }
    value = activate_one(e.activation, value);
    write_elements(&value, 1, c, run.c_type, 1);
  }
}

}  // namespace binade::backend::cpu
#endif
